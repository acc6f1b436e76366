/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_CLEANUP_H
#define FLMEM_BASE_CLEANUP_H

/*
 * Scoped release of resources: `FLMEM_AUTO_FREE char *text = NULL;` frees at the end of the block,
 * FLMEM_TAKE(text) passes the pointer on instead. A type with its own release function defines its
 * attribute with FLMEM_AUTO(function), where function takes a pointer to the variable.
 */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FLMEM_AUTO(release) __attribute__((cleanup(release)))

/* Takes the value of an owned pointer and sets it to NULL. */
#define FLMEM_TAKE(pointer)                                    \
	({                                                     \
		__typeof__(pointer) *taken_from_ = &(pointer); \
		__typeof__(pointer) taken_ = *taken_from_;     \
		*taken_from_ = NULL;                           \
		taken_;                                        \
	})

/* Takes the value of an owned file descriptor and sets it to -1. */
#define FLMEM_TAKE_FD(fd)                  \
	({                                 \
		int *taken_from_ = &(fd);  \
		int taken_ = *taken_from_; \
		*taken_from_ = -1;         \
		taken_;                    \
	})

#define FLMEM_ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static inline void flmem_cleanup_free(void *pointer)
{
	free(*(void **)pointer);
}

static inline void flmem_cleanup_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void flmem_cleanup_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static inline void flmem_cleanup_file(FILE **file)
{
	if (*file)
		fclose(*file);
}

#define FLMEM_AUTO_FREE	 FLMEM_AUTO(flmem_cleanup_free)
#define FLMEM_AUTO_CLOSE FLMEM_AUTO(flmem_cleanup_close)
#define FLMEM_AUTO_DIR	 FLMEM_AUTO(flmem_cleanup_dir)
#define FLMEM_AUTO_FILE	 FLMEM_AUTO(flmem_cleanup_file)

#endif
