/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_MMAPPED_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_MMAPPED_H

/* Blocks that glibc's malloc allocated with mmap(2), from the mmap threshold on. */

#include "allocators/glibc/glibc_find.h"

struct flmem_glibc_mmapped {
	uint64_t count;
	uint64_t bytes; /* length of the mapped blocks */
	uint64_t resident;
};

/*
 * Finds the blocks. No list of malloc holds them: they are recognised by their heads at the start
 * of a mapping or after another block, and searched page by page only when malloc counts more than
 * `negligible` further bytes. The search ends at `deadline_ns` (flmem_clock_ns(); 0: none).
 */
void flmem_glibc_mmapped_find(const struct flmem_glibc_space *space,
			      const struct flmem_glibc *glibc, uint64_t negligible,
			      uint64_t deadline_ns, struct flmem_glibc_mmapped *ret_mmapped);

#endif
