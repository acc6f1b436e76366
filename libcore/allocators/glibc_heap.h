/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_HEAP_H
#define FLMEM_ALLOCATORS_GLIBC_HEAP_H

/* The state of all of glibc's heaps in a process, read from outside. */

#include <flmem/detect.h>

#include "allocators/glibc_find.h"

/*
 * Reads everything within `budget_us`; 0: however long it takes. Every field of the report is set,
 * those that cannot be told to their reason. Heaps that change while they are read are read again,
 * at most three times.
 */
void flmem_glibc_heap_read(const struct flmem_glibc_space *space, uint64_t budget_us,
			   struct flmem_heap_report *ret_heap);

#endif
