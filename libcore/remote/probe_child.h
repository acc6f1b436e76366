/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_PROBE_CHILD_H
#define FLMEM_REMOTE_PROBE_CHILD_H

/*
 * Starts a child that runs a command up to the entry point of its program and is held there: the
 * dynamic linker has loaded and initialised every library, and main() has not started. It shows
 * what a command would be without running it. Its standard input and output are /dev/null, and it
 * is always killed with its holder. A script is held in its interpreter; env and similar wrappers
 * (preload/wrappers.h) run until they execute another program.
 *
 * The thread of the caller traces the child, so the same thread must start and end it. Signal
 * dispositions of the caller are not changed.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "base/cleanup.h"
#include "proc/process.h"

#define FLMEM_PROBE_CHILD_OUTPUT_MAX 1024

struct flmem_probe_child {
	pid_t pid; /* 0: there is no child */
	struct flmem_process process;
	char program[4096];   /* the file that it runs */
	bool has_loader;      /* false: the program is statically linked */
	bool passes;	      /* a wrapper that will execute another program */
	bool wide;	      /* false: a 32-bit program, held before its loader ran */
	int error_fd;	      /* read end of its standard error */
	uint64_t deadline_us; /* time limit for reaching the entry point, by flmem_clock_us() */
	bool late;	      /* the child was killed at that time */
};

#define FLMEM_PROBE_CHILD_INIT                                \
	{                                                     \
		.process = FLMEM_PROCESS_INIT, .error_fd = -1 \
	}

/*
 * Starts the child. FLMEM_ENOCOMMAND or FLMEM_ENOEXEC if there is nothing to run, FLMEM_EPERM if
 * tracing a child is not allowed here, FLMEM_EUNSUPPORTED if the program ends before its entry
 * point; the message then has the first line of its output. On failure only `program` of ret_held
 * is set, to what it ran.
 */
int flmem_probe_child_start(char *const *argv, char *const *environment,
			    struct flmem_probe_child *ret_held, struct flmem_error *err);

/*
 * Reads the child's standard error so far, cut to FLMEM_PROBE_CHILD_OUTPUT_MAX bytes with the NUL.
 */
void flmem_probe_child_output(const struct flmem_probe_child *child, char *out, size_t size);

/* Kills and reaps the child. */
void flmem_probe_child_end(struct flmem_probe_child *child);

#define FLMEM_AUTO_PROBE_CHILD FLMEM_AUTO(flmem_probe_child_end)

#endif
