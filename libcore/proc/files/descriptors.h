/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_DESCRIPTORS_H
#define FLMEM_PROC_FILES_DESCRIPTORS_H

/*
 * The open files of a process, as the texts of the links in /proc/PID/fd. What they refer to is not
 * opened: a file server may never answer. A process may have a million of them, so the number read
 * is bounded.
 */

#include <dirent.h>
#include <limits.h>

#include "base/cleanup.h"

struct flmem_process;

struct flmem_descriptors {
	DIR *dir;
	unsigned left;
	const char *name;      /* of the current entry, for fstatat() below dirfd(dir) */
	char target[PATH_MAX]; /* its text, null-terminated */
};

/* Reads at most `most`. Returns 0, or a negative errno (-EACCES: may not be traced). */
int flmem_descriptors_open(const struct flmem_process *process, unsigned most,
			   struct flmem_descriptors *ret_descriptors);
void flmem_descriptors_close(struct flmem_descriptors *descriptors);

/* 1: `name` and `target` are the next one; 0: there is none; -E2BIG: there are more than `most`. */
int flmem_descriptors_next(struct flmem_descriptors *descriptors);

#define FLMEM_AUTO_DESCRIPTORS FLMEM_AUTO(flmem_descriptors_close)

#endif
