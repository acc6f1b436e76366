/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_DESCRIPTORS_H
#define FLMEM_PROC_FILES_DESCRIPTORS_H

/*
 * Lists the open files of a process, as the texts of the links in /proc/PID/fd. What they refer to
 * is not opened: a file server may never answer. A process may have a million of them, so the
 * number read is bounded.
 */

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>

#include <flmem/error.h>

#include "base/cleanup.h"

struct flmem_process;

struct flmem_descriptors {
	DIR *dir;
	unsigned left;
	const char *name;      /* name of the current link, for fstatat() below dirfd(dir) */
	char target[PATH_MAX]; /* text of the current link, null-terminated */
};

/*
 * Begins a list of at most `most` descriptors. Returns 0 or -errno (-EACCES: the process may not be
 * traced).
 */
int flmem_descriptors_open(const struct flmem_process *process, unsigned most,
			   struct flmem_descriptors *ret_descriptors);
void flmem_descriptors_close(struct flmem_descriptors *descriptors);

/*
 * Reads the next link into `name` and `target`. Returns 1, 0 after the last one, or -E2BIG if there
 * are more than `most`.
 */
int flmem_descriptors_next(struct flmem_descriptors *descriptors);

/*
 * Finds out whether the process has a descriptor with this target. *ret_found is false also if
 * flmem may not read the descriptors: it cannot trace the process then either, and the attempt to
 * do so reports why. FLMEM_E codes for other failures.
 */
int flmem_descriptors_find(const struct flmem_process *process, const char *target, bool *ret_found,
			   struct flmem_error *err);

#define FLMEM_AUTO_DESCRIPTORS FLMEM_AUTO(flmem_descriptors_close)

#endif
