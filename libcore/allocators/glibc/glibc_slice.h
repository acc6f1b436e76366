/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_SLICE_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_SLICE_H

/*
 * Reads a slice from the middle of a stretch of chunks, where the start of a chunk is unknown. The
 * first address from which a dozen consistent chunks follow each other counts as a start: chains
 * from wrong addresses break off or join the right one. Chunks in fastbins are recognised by their
 * links, as the lists are too long to follow for a slice. The figures are therefore estimates.
 */

#include <stdbool.h>

#include "allocators/glibc/glibc_walk.h"

#define FLMEM_GLIBC_SLICE_MAX ((uint64_t)1 << 20)

struct flmem_glibc_slicer_options {
	struct flmem_peek *peek; /* must outlive the slicer */
	const struct flmem_glibc_layout *layout;
	uint64_t tcache_count;
	uint64_t fast_max;  /* the largest chunk in a fastbin; 0: all are empty */
	uint64_t low, high; /* all chunks are between these addresses */
};

struct flmem_glibc_slicer; /* about 1 MiB */

/* Allocates a slicer; NULL: out of memory. */
struct flmem_glibc_slicer *flmem_glibc_slicer_new(const struct flmem_glibc_slicer_options *options);
void flmem_glibc_slicer_free(struct flmem_glibc_slicer *slicer);

static inline void flmem_cleanup_glibc_slicer(struct flmem_glibc_slicer **slicer)
{
	flmem_glibc_slicer_free(*slicer);
}

#define FLMEM_AUTO_GLIBC_SLICER FLMEM_AUTO(flmem_cleanup_glibc_slicer)

/*
 * Counts what the slice holds, which is at most FLMEM_GLIBC_SLICE_MAX long. Of a chunk that reaches
 * out of the slice only the part inside counts. The first chunk of a stretch does not count as a
 * tcache. False when no start of a chunk was found.
 */
bool flmem_glibc_slice_read(struct flmem_glibc_slicer *slicer,
			    const struct flmem_glibc_stretch *stretch, uint64_t from, uint64_t to,
			    struct flmem_glibc_sums *ret_sums);

#endif
