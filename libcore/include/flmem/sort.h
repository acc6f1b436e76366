/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SORT_H
#define FLMEM_SORT_H

/* qsort_r() as in glibc; musl has it only since 1.2.3. Any thread may call it. */

#include <stddef.h>

#include <flmem/visibility.h>

/*
 * Sorts `count` rows of `size` bytes. `compare` returns less than, equal to or greater than 0, as
 * for qsort(), and gets `context` as its last argument. It must not call this function.
 */
FLMEM_API void flmem_sort(void *rows, size_t count, size_t size,
			  int (*compare)(const void *, const void *, void *), void *context);

#endif
