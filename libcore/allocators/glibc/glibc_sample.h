/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_SAMPLE_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_SAMPLE_H

/*
 * Estimates what heaps hold that are too large to be walked: slices of 1 MiB are read in random
 * order until the figures are as exact as is asked for, all are read, or time is up. How much is
 * resident in each slice is asked of all of them up to 8 GiB, so it is what slices hold in
 * proportion to it that is estimated, in up to 48 strata of neighbours; beyond that what is
 * resident is estimated, too. The error is that of 99 of 100 such samples, by the spread among the
 * slices read. Tops are counted, not estimated, and so are tcaches that lie first in a stretch.
 */

#include "allocators/glibc/glibc_stretches.h"
#include "allocators/glibc/glibc_walk.h"

#define FLMEM_GLIBC_LARGE_MAX 4096U

/* Free chunks of 1 MiB and more, ascending: no chunk begins in slices within them. */
struct flmem_glibc_large {
	uint64_t chunks[FLMEM_GLIBC_LARGE_MAX];
	size_t count;
};

/* Adds those of an arena. They are in two of its lists. */
void flmem_glibc_large_find(struct flmem_peek *peek, const struct flmem_glibc *glibc,
			    uint64_t arena, struct flmem_glibc_large *large);

struct flmem_glibc_sampling {
	struct flmem_peek *peek;
	const struct flmem_glibc *glibc;
	struct flmem_glibc_walker *walker; /* for the tops */
	const struct flmem_glibc_stretch *stretches;
	size_t stretch_count;
	const struct flmem_glibc_large *large;
	uint64_t fast_max;  /* the largest chunk in a fastbin; 0: all are empty */
	uint64_t precision; /* good is what is off by one part in so many of what is resident */
	uint64_t deadline_ns;
};

struct flmem_glibc_estimate {
	struct flmem_glibc_sums sums;
	uint64_t resident;
	uint64_t error; /* no figure is further off, in 99 of 100 samples */
};

/* A few slices of every part are read in any case, however late it is. */
enum flmem_glibc_walked flmem_glibc_sample(const struct flmem_glibc_sampling *sampling,
					   struct flmem_glibc_estimate *ret_estimate);

#endif
