/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DETECT_H
#define FLMEM_DETECT_H

/*
 * Identity and memory of a live process, read from outside without stopping it: /proc, ELF files
 * through /proc/PID/root, and process_vm_readv of present pages.
 *
 * Reports own their strings: release with the clear function. All texts come from the target and
 * are untrusted: escape before printing. Secrets are already redacted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>
#include <flmem/process_report.h>

struct flmem_detect_options {
	bool skip_heap;	    /* do not analyse the heap; the report then has no verdict */
	bool ask;	    /* also borrow a thread to query allocators and PyTorch */
	uint64_t budget_us; /* time limit for reading the heaps of one process; 0: the default */
	/*
	 * Time limit for all processes together; once it is used up, each further process gets 5
	 * ms. 0: no limit.
	 */
	uint64_t total_budget_us;
	uint64_t timeout_us; /* time limit for the queries of `ask`; 0: the default */
	bool assume_seccomp; /* for the queries of `ask`, as in struct flmem_trim_options */
};

#define FLMEM_DETECT_TIMEOUT_US_DEFAULT 2000000U

/*
 * Reads one process. `options` NULL means the defaults. FLMEM_ENOPROC if the process does not exist
 * or exits meanwhile, FLMEM_EPERM if not even its status is readable; values that cannot be read
 * are unknown, with their reason. Release with flmem_process_report_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_detect_process(pid_t pid,
						    const struct flmem_detect_options *options,
						    struct flmem_process_report *ret_report,
						    struct flmem_error *err);

/* Frees what the report owns and zeroes the struct. */
FLMEM_API void flmem_process_report_clear(struct flmem_process_report *report);

/* A target of flmem_detect() without a report, and why. */
struct flmem_skipped {
	pid_t pid;
	int code; /* negative enum flmem_code */
	char message[FLMEM_ERROR_MESSAGE_MAX];
};

struct flmem_detect_report {
	struct flmem_process_report *processes;
	size_t process_count;
	struct flmem_skipped *skipped; /* processes that exited or are not readable */
	size_t skipped_count;
};

/*
 * Reads several processes; one that exits meanwhile or is not readable is skipped, without an
 * error. Fails only when out of memory (FLMEM_EFAILED). Files that several processes map are read
 * once. Release with flmem_detect_report_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_detect(const pid_t *pids, size_t count,
					    const struct flmem_detect_options *options,
					    struct flmem_detect_report *ret_report,
					    struct flmem_error *err);

/* Frees all reports and zeroes the struct. */
FLMEM_API void flmem_detect_report_clear(struct flmem_detect_report *report);

#endif
