/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_HEAP_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_HEAP_H

/* The state of all of glibc's heaps in a process, read from outside. */

#include <flmem/process_report.h>

#include "allocators/glibc/glibc_find.h"

/* Limits on the cost of reading. */
struct flmem_glibc_effort {
	uint64_t budget_us;  /* 0: no time limit */
	uint64_t walked_max; /* resident bytes up to which walking is tried before sampling */
	uint64_t precision;  /* a sample's error may be this fraction of the resident bytes (1/n) */
};

/* The resident bytes that can be walked within one second on a slow machine with small chunks. */
#define FLMEM_GLIBC_WALKED_MAX ((uint64_t)2 << 30)
#define FLMEM_GLIBC_PRECISION  128U

/*
 * Sets every field of the report, unknown ones with their reason. Heaps that change while they are
 * read are read again, at most three times. Heaps that cannot be walked in half of the time are
 * sampled (allocators/glibc/glibc_sample.h).
 */
void flmem_glibc_heap_read(const struct flmem_glibc_space *space,
			   const struct flmem_glibc_effort *effort,
			   struct flmem_heap_report *ret_heap);

#endif
