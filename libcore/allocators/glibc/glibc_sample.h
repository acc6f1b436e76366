/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_SAMPLE_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_SAMPLE_H

/*
 * Estimates the content of heaps that are too large to be walked. Slices of 1 MiB are read in
 * random order until the figures are as exact as requested, all are read, or time is up. Up to 8
 * GiB the resident bytes of every slice are queried, and the content is estimated in proportion to
 * them, in up to 48 strata of neighbours; beyond that the resident bytes are estimated, too. The
 * error has confidence 99 %, computed from the variance among the slices read. Tops are counted,
 * not estimated, and so are tcaches at the start of a stretch.
 */

#include "allocators/glibc/glibc_stretches.h"
#include "allocators/glibc/glibc_walk.h"

#define FLMEM_GLIBC_LARGE_MAX 4096U

/*
 * Free chunks of 1 MiB and more, ascending: no chunk begins in a slice that lies within one of
 * them.
 */
struct flmem_glibc_large {
	uint64_t chunks[FLMEM_GLIBC_LARGE_MAX];
	size_t count;
};

/* Adds the large free chunks of an arena, from two of its lists. */
void flmem_glibc_large_find(struct flmem_peek *peek, const struct flmem_glibc *glibc,
			    uint64_t arena, struct flmem_glibc_large *large);

struct flmem_glibc_sampling {
	struct flmem_peek *peek;
	const struct flmem_glibc *glibc;
	struct flmem_glibc_walker *walker; /* measures the top chunks */
	const struct flmem_glibc_stretch *stretches;
	size_t stretch_count;
	const struct flmem_glibc_large *large;
	uint64_t fast_max;  /* the largest chunk in a fastbin; 0: all are empty */
	uint64_t precision; /* accepted error: this fraction of the resident bytes (1/n) */
	uint64_t deadline_ns;
};

struct flmem_glibc_estimate {
	struct flmem_glibc_sums sums;
	uint64_t resident;
	uint64_t error; /* the largest error of a figure, confidence 99 % */
};

/* A few slices of every stratum are always read, even after the deadline. */
enum flmem_glibc_walked flmem_glibc_sample(const struct flmem_glibc_sampling *sampling,
					   struct flmem_glibc_estimate *ret_estimate);

#endif
