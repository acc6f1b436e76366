/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SETTINGS_PRELOAD_H
#define FLMEM_SETTINGS_PRELOAD_H

/*
 * Functions on libraries in LD_PRELOAD: where jemalloc is installed, and which entries a user has
 * set.
 */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/error.h>

/*
 * Paths where distributions of any architecture install jemalloc, for scripts that run on other
 * machines; in the order in which they are tried, ends in NULL. For this machine use
 * allocators/installed.h.
 */
extern const char *const flmem_jemalloc_paths[];

/*
 * Returns the path of the preferred jemalloc of this machine, for the caller to free; NULL: none
 * found.
 */
char *flmem_jemalloc_find(void);

/*
 * Checks a path for LD_PRELOAD: absolute, and without the characters that end an entry there
 * (ld.so(8): spaces and colons cannot be escaped). FLMEM_EUSAGE, or FLMEM_EUNSUPPORTED when it
 * `must_exist` and cannot be read.
 */
int flmem_preload_check(const char *path, bool must_exist, struct flmem_error *err);

#define FLMEM_PRELOAD_PATH_MAX 4352

/*
 * Finds a library of flmem that is loaded into other programs, beside libflmem or where it is
 * installed. FLMEM_EUNSUPPORTED when it is in neither place.
 */
int flmem_preload_find_own(const char *name, char ret_path[FLMEM_PRELOAD_PATH_MAX],
			   struct flmem_error *err);

/*
 * Checks that jemalloc works with the pages of this machine: it is built for one page size, and
 * aborts every program on a machine with a larger one. Where pages are larger than 4 KiB, this
 * loads the library into a program that is held before it begins: FLMEM_EUNSUPPORTED if the program
 * ends. Returns 0 if that cannot be tried.
 */
int flmem_preload_check_pages(const char *path, struct flmem_error *err);

/*
 * Returns the first entry whose file name starts with `prefix` ("libjemalloc"), for the caller to
 * free; NULL when there is none.
 */
char *flmem_preload_entry(const char *value, const char *prefix);

/* True when the list has a known allocator other than jemalloc, which would serve malloc first. */
bool flmem_preload_lists_other_allocator(const char *value);

#endif
