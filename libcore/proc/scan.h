/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_SCAN_H
#define FLMEM_PROC_SCAN_H

/* A snapshot of all processes with their parents; it may be outdated at once. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "base/cleanup.h"

struct flmem_scan_row {
	pid_t pid;
	pid_t parent;
	uint64_t start_time;
	char state;
	bool kernel_thread;
};

struct flmem_scan {
	struct flmem_scan_row *rows; /* sorted by PID, ascending */
	size_t count;
};

/*
 * Reads every process below a directory that looks like /proc. Processes that end meanwhile or are
 * hidden by hidepid are left out.
 */
int flmem_scan_read(int proc_dirfd, struct flmem_scan *ret_scan, struct flmem_error *err);

void flmem_scan_clear(struct flmem_scan *scan);

#define FLMEM_AUTO_SCAN FLMEM_AUTO(flmem_scan_clear)

const struct flmem_scan_row *flmem_scan_find(const struct flmem_scan *scan, pid_t pid);

/* Returns true for a running program, false for a kernel thread or a zombie. */
bool flmem_scan_row_runs(const struct flmem_scan_row *row);

/* Returns true if `pid` is `ancestor` or one of its descendants, as far as the snapshot shows. */
bool flmem_scan_descends(const struct flmem_scan *scan, pid_t pid, pid_t ancestor);

#endif
