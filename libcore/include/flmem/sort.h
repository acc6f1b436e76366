/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SORT_H
#define FLMEM_SORT_H

/* A replacement of glibc's qsort_r(), which musl has only since 1.2.3. Any thread may call it. */

#include <stddef.h>

#include <flmem/visibility.h>

/*
 * Sorts `count` rows of `size` bytes. `compare` returns less than, equal to or greater than 0, as
 * for qsort(), and receives `context` as its last argument. `compare` must not call flmem_sort().
 */
FLMEM_API void flmem_sort(void *rows, size_t count, size_t size,
			  int (*compare)(const void *, const void *, void *), void *context);

#endif
