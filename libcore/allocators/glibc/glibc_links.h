/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_LINKS_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_LINKS_H

/* Follows glibc's lists of free chunks, with the checks that malloc makes before it uses one. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocators/glibc/glibc_layout.h"
#include "proc/peek.h"

/* A chunk that a list points to. */
struct flmem_glibc_link {
	uint64_t size;
	uint64_t next;	   /* the next chunk; a bin ends at its head, a fastbin in 0 */
	const char *wrong; /* static: why it is not a valid chunk, or NULL */
	uint64_t word;	   /* the wrong word, or the address that could not be read */
};

/* Address of a bin's head seen as a chunk, of which only fd and bk exist. */
static inline uint64_t flmem_glibc_bin_head(const struct flmem_glibc_layout *layout, uint64_t arena,
					    unsigned bin)
{
	return arena + layout->bins + 16U * bin - 16;
}

/*
 * Checks a chunk of a bin that `previous` links to: its back pointer must be right, and the next
 * chunk in memory must mark it as free with the same size. Returns 0 with `wrong` set or not, or
 * the negative errno of flmem_peek_read().
 */
int flmem_glibc_bin_link(struct flmem_peek *peek, uint64_t chunk, uint64_t previous,
			 struct flmem_glibc_link *ret_link);

/* Arenas whose lists are read together. */
struct flmem_glibc_fetch {
	struct flmem_peek *peek;
	const struct flmem_glibc_layout *layout;
	const uint64_t *arenas;
	size_t count;
	bool (*is_late)(void *context); /* true: read no more; may be NULL */
	void *context;
};

/*
 * Reads the chunks in the bins and fastbins of arenas, and what follows those of the bins, into
 * the cache of `peek`, as far as they fit: all lists at once, bins from both ends, because each
 * call can read many places. It checks nothing.
 */
void flmem_glibc_lists_fetch(const struct flmem_glibc_fetch *wanted);

/* Like flmem_glibc_bin_link(), for a chunk of a fastbin, whose size must match the bin. */
int flmem_glibc_fast_link(struct flmem_peek *peek, const struct flmem_glibc_layout *layout,
			  uint64_t chunk, uint64_t size, struct flmem_glibc_link *ret_link);

/* Size of the chunks in a fastbin. */
static inline uint64_t flmem_glibc_fast_size(unsigned bin)
{
	return 16U * (uint64_t)bin + FLMEM_GLIBC_MIN_CHUNK;
}

/* Detects a circular list (R. P. Brent, BIT 20, 1980). Initialise to zeroes. */
struct flmem_glibc_cycle {
	uint64_t marked; /* an earlier element; replaced after 1, 2, 4, ... steps */
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
