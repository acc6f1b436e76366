/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_LINKS_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_LINKS_H

/* Steps along glibc's lists of free chunks, each checked as malloc checks before it takes one. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocators/glibc/glibc_layout.h"
#include "proc/peek.h"

/* A chunk that a list leads to. */
struct flmem_glibc_link {
	uint64_t size;
	uint64_t next;	   /* where the list goes on; a bin ends at its head, a fastbin in 0 */
	const char *wrong; /* static: why it is none, or NULL */
	uint64_t word;	   /* the one that is wrong, or the address that could not be read */
};

/* The head of a bin as a chunk: only its fd and bk are there. */
static inline uint64_t flmem_glibc_bin_head(const struct flmem_glibc_layout *layout, uint64_t arena,
					    unsigned bin)
{
	return arena + layout->bins + 16U * bin - 16;
}

/*
 * Looks at a chunk of a bin to which `previous` leads: that it leads back, and that the chunk
 * behind it takes it for free and as large as it says. 0 with `wrong` set or not, or the negative
 * errno of flmem_peek_read().
 */
int flmem_glibc_bin_link(struct flmem_peek *peek, uint64_t chunk, uint64_t previous,
			 struct flmem_glibc_link *ret_link);

/* The same for a chunk of a fastbin, which has to have its size. */
int flmem_glibc_fast_link(struct flmem_peek *peek, const struct flmem_glibc_layout *layout,
			  uint64_t chunk, uint64_t size, struct flmem_glibc_link *ret_link);

/* Size of the chunks in a fastbin. */
static inline uint64_t flmem_glibc_fast_size(unsigned bin)
{
	return 16U * (uint64_t)bin + FLMEM_GLIBC_MIN_CHUNK;
}

/* Tells a list that comes back to where it was (R. P. Brent, BIT 20, 1980). Begins as zeroes. */
struct flmem_glibc_cycle {
	uint64_t marked; /* a place that was passed; a new one after 1, 2, 4, ... steps */
	size_t steps, until;
};

static inline bool flmem_glibc_cycle_ends(struct flmem_glibc_cycle *cycle, uint64_t place)
{
	if (place && place == cycle->marked)
		return true;
	if (cycle->steps++ == cycle->until) {
		cycle->marked = place;
		cycle->until = 2 * cycle->until + 1;
		cycle->steps = 0;
	}
	return false;
}

#endif
