/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_LISTS_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_LISTS_H

/*
 * Finds the free chunks of an arena from its lists alone. They are the same chunks that a walk
 * finds, at a fraction of the cost where nearly all chunks are in use. A list jumps through memory,
 * so walking is faster for many free chunks, and for large ones, which a walk skips.
 */

#include "allocators/glibc/glibc_find.h"
#include "allocators/glibc/glibc_stretches.h"
#include "allocators/glibc/glibc_walk.h"

void flmem_glibc_runs_clear(struct flmem_glibc_runs *runs);

#define FLMEM_AUTO_GLIBC_RUNS FLMEM_AUTO(flmem_glibc_runs_clear)

/*
 * Collects the runs of free chunks in the bins and in `fast`. Each chunk is checked from both ends,
 * as malloc does before it uses one. Returns false when there are too many or too large chunks, or
 * a list is invalid: the caller then walks the chunks.
 */
bool flmem_glibc_lists_read(const struct flmem_glibc_space *space, const struct flmem_glibc *glibc,
			    const struct flmem_glibc_arena *arena,
			    const struct flmem_glibc_stretches *stretches,
			    const struct flmem_glibc_fast *fast, struct flmem_glibc_runs *ret_runs);

#endif
