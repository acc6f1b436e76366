/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_LEFTOVERS_H
#define FLMEM_PROC_FILES_LEFTOVERS_H

/*
 * Finds directories that programs leave behind among temporary files. Anyone may create names
 * there, so only plain names are accepted, symbolic links are not followed, no other file system is
 * entered, and the number of entries and the time are limited. Files are never opened.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLMEM_LEFTOVERS_MAX	32U
#define FLMEM_LEFTOVER_NAME_MAX 128U

struct flmem_leftover {
	char name[FLMEM_LEFTOVER_NAME_MAX]; /* has only letters, digits, "-", "_" and "." */
	uint32_t uid;
	uint64_t created_s; /* since 1970-01-01 UTC; 0: unknown */
	uint64_t bytes;	    /* space on the disk of the regular files that were counted */
	uint64_t files;
	bool partly; /* there are more files, or a part is not readable */
};

struct flmem_leftovers {
	struct flmem_leftover rows[FLMEM_LEFTOVERS_MAX];
	size_t count;
	bool more; /* the directory holds more than these, or was not read to its end */
};

/*
 * Lists the directories below `fd` whose name starts with `prefix`, with the size of their
 * contents. Stops at `deadline_us` of the monotonic clock.
 */
void flmem_leftovers_find(int fd, const char *prefix, uint64_t deadline_us,
			  struct flmem_leftovers *ret_leftovers);

#endif
