/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_INSTALLED_H
#define FLMEM_ALLOCATORS_INSTALLED_H

/*
 * Finds allocator libraries that are installed and could be preloaded. It searches for known file
 * names in the usual directories, those of the dynamic linker's cache, and those of the
 * environment. A file counts once, whatever its number of links, and only when it is a library for
 * this machine.
 */

#include <stddef.h>

#include <flmem/error.h>
#include <flmem/inventory.h>

/* The directory of this architecture's libraries on Debian and its derivatives. */
#if defined(__x86_64__)
#define FLMEM_MULTIARCH "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define FLMEM_MULTIARCH "aarch64-linux-gnu"
#else
#error "flmem runs on x86-64 and aarch64"
#endif

/*
 * Lists all libraries found, the preferred one of each kind first. `rootfd` is "/" or a directory
 * with the same layout; the caller releases the rows with flmem_installed_free().
 */
int flmem_installed_find(int rootfd, struct flmem_installed_allocator **ret_rows, size_t *ret_count,
			 struct flmem_error *err);
void flmem_installed_free(struct flmem_installed_allocator *rows, size_t count);

#endif
