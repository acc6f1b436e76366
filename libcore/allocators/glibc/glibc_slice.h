/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_SLICE_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_SLICE_H

/*
 * Reads a slice out of the middle of a stretch of chunks, where no chunk is known to begin. The
 * first place from which a dozen chunks follow each other with nothing odd about them is taken for
 * one: chains from wrong places break off or join the right one. Which chunks are in fastbins is
 * told by their links, as the lists are too long to follow for a slice. So the figures are
 * estimates.
 */

#include <stdbool.h>

#include "allocators/glibc/glibc_walk.h"

#define FLMEM_GLIBC_SLICE_MAX ((uint64_t)1 << 20)

struct flmem_glibc_slicer_options {
	struct flmem_peek *peek; /* must outlive the slicer */
	const struct flmem_glibc_layout *layout;
	uint64_t tcache_count;
	uint64_t fast_max;  /* the largest chunk in a fastbin; 0: all are empty */
	uint64_t low, high; /* all chunks lie between */
};

struct flmem_glibc_slicer; /* about 1 MiB */

/* NULL: out of memory. */
struct flmem_glibc_slicer *flmem_glibc_slicer_new(const struct flmem_glibc_slicer_options *options);
void flmem_glibc_slicer_free(struct flmem_glibc_slicer *slicer);

static inline void flmem_cleanup_glibc_slicer(struct flmem_glibc_slicer **slicer)
{
	flmem_glibc_slicer_free(*slicer);
}

#define FLMEM_AUTO_GLIBC_SLICER FLMEM_AUTO(flmem_cleanup_glibc_slicer)

/*
 * What lies in the slice, at most FLMEM_GLIBC_SLICE_MAX long: parts of chunks that reach out of it
 * count as far as they are in. The first chunk of a stretch is not taken for a tcache. False when
 * no chunk begins there that could be found.
 */
bool flmem_glibc_slice_read(struct flmem_glibc_slicer *slicer,
			    const struct flmem_glibc_stretch *stretch, uint64_t from, uint64_t to,
			    struct flmem_glibc_sums *ret_sums);

#endif
