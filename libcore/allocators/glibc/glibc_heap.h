/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_HEAP_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_HEAP_H

/* The state of all of glibc's heaps in a process, read from outside. */

#include <flmem/process_report.h>

#include "allocators/glibc/glibc_find.h"

/* How much reading it may cost. */
struct flmem_glibc_effort {
	uint64_t budget_us;  /* 0: however long it takes */
	uint64_t walked_max; /* resident bytes up to which walking is tried before sampling */
	uint64_t precision;  /* a sample is good to one part in so many of what is resident */
};

/* What a second is about enough for on a slow machine, when chunks are small. */
#define FLMEM_GLIBC_WALKED_MAX ((uint64_t)2 << 30)
#define FLMEM_GLIBC_PRECISION  128U

/*
 * Every field of the report is set, those that cannot be told to their reason. Heaps that change
 * while they are read are read again, at most three times. What is not walked in half of the time,
 * or is not worth trying, is sampled (allocators/glibc/glibc_sample.h).
 */
void flmem_glibc_heap_read(const struct flmem_glibc_space *space,
			   const struct flmem_glibc_effort *effort,
			   struct flmem_heap_report *ret_heap);

#endif
