/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DETECT_H
#define FLMEM_DETECT_H

/*
 * What a live process is and how its memory stands, read from outside without stopping it:
 * /proc, ELF files through /proc/PID/root, and process_vm_readv of pages that are certainly there.
 *
 * Reports own their strings: release with the clear function. Everything in them comes from the
 * target and is untrusted text: escape before printing. Secrets are redacted already.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>
#include <flmem/process_report.h>

struct flmem_detect_options {
	bool skip_heap;	    /* do not read the state of heaps, and give no verdict */
	bool ask;	    /* also borrow a thread for what only the target itself can tell */
	uint64_t budget_us; /* for reading the heaps of one process; 0: the default */
	/* The same for all processes of a call; then each has 5 ms. 0: none. */
	uint64_t total_budget_us;
	uint64_t timeout_us; /* for asking; 0: the default */
	bool assume_seccomp; /* for asking, as in struct flmem_trim_options */
};

#define FLMEM_DETECT_TIMEOUT_US_DEFAULT 2000000U

/*
 * Reads one process. `options` may be NULL for the defaults. FLMEM_ENOPROC when there is none or it
 * ended meanwhile, FLMEM_EPERM when not even its status may be read; parts that may not be read are
 * unknown with their reason.
 */
FLMEM_API int flmem_detect_process(pid_t pid, const struct flmem_detect_options *options,
				   struct flmem_process_report *ret_report,
				   struct flmem_error *err);

FLMEM_API void flmem_process_report_clear(struct flmem_process_report *report);

/* A target that gave no report. */
struct flmem_skipped {
	pid_t pid;
	int code; /* negative enum flmem_code */
	char message[FLMEM_ERROR_MESSAGE_MAX];
};

struct flmem_detect_report {
	struct flmem_process_report *processes;
	size_t process_count;
	struct flmem_skipped *skipped; /* processes that ended or may not be read */
	size_t skipped_count;
};

/*
 * Reads several; a process that ends meanwhile or may not be read is skipped, not an error. Fails
 * only for want of memory. Work is shared between processes (files that several map are read once).
 */
FLMEM_API int flmem_detect(const pid_t *pids, size_t count,
			   const struct flmem_detect_options *options,
			   struct flmem_detect_report *ret_report, struct flmem_error *err);

FLMEM_API void flmem_detect_report_clear(struct flmem_detect_report *report);

#endif
