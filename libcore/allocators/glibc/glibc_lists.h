/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_LISTS_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_LISTS_H

/*
 * What is free of an arena by its lists alone. They are the same chunks that a walk over all chunks
 * finds, for a fraction of the reading where nearly all are in use: a list is followed from place
 * to place, so many chunks are sooner walked over, and so are large ones, which a walk jumps over.
 */

#include "allocators/glibc/glibc_find.h"
#include "allocators/glibc/glibc_stretches.h"
#include "allocators/glibc/glibc_walk.h"

void flmem_glibc_runs_clear(struct flmem_glibc_runs *runs);

#define FLMEM_AUTO_GLIBC_RUNS FLMEM_AUTO(flmem_glibc_runs_clear)

/*
 * Collects the runs of free chunks that the bins and `fast` list; each is looked at from both ends,
 * as malloc does before it takes one. False when there are too many, or too large ones, or a list
 * is not what it should be: walk over the chunks then.
 */
bool flmem_glibc_lists_read(const struct flmem_glibc_space *space, const struct flmem_glibc *glibc,
			    const struct flmem_glibc_arena *arena,
			    const struct flmem_glibc_stretches *stretches,
			    const struct flmem_glibc_fast *fast, struct flmem_glibc_runs *ret_runs);

#endif
