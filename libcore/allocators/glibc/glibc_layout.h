/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_LAYOUT_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_LAYOUT_H

/*
 * The layout of glibc's malloc data: byte offsets on 64-bit machines with 8-byte words, by release,
 * from malloc/malloc.c and malloc/arena.c of each. None of it is an interface, so users of a row
 * check what they read with it.
 */

#include <stdbool.h>
#include <stdint.h>

/* Sizes that are the same in every release so far. */
enum {
	FLMEM_GLIBC_BINS = 127,	       /* pairs of fd and bk */
	FLMEM_GLIBC_FASTBINS = 10,     /* number of heads */
	FLMEM_GLIBC_ALIGNMENT = 16,    /* MALLOC_ALIGNMENT */
	FLMEM_GLIBC_MIN_CHUNK = 32,    /* MINSIZE */
	FLMEM_GLIBC_CHUNK_STRUCT = 48, /* sizeof(struct malloc_chunk) */
	FLMEM_GLIBC_TCACHE_BINS_MAX = 76,
	FLMEM_GLIBC_TCACHE_CHUNK_MAX = 0x300,

	/* Flags in the low bits of a chunk's size. */
	FLMEM_GLIBC_PREV_INUSE = 1,
	FLMEM_GLIBC_IS_MMAPPED = 2,
	FLMEM_GLIBC_NON_MAIN = 4,
	FLMEM_GLIBC_SIZE_BITS = 7,

	/*
	 * Offsets in malloc_state relative to its bins; the offsets from its start differ by
	 * release.
	 */
	FLMEM_GLIBC_FROM_BINS_TOP = -16,
	FLMEM_GLIBC_FROM_BINS_NEXT = 2048,
	FLMEM_GLIBC_FROM_BINS_ATTACHED = 2064, /* system_mem before 2.23 and its backports */

	/* Offsets in malloc_par that are the same in all releases. */
	FLMEM_GLIBC_MP_TRIM_THRESHOLD = 0,
	FLMEM_GLIBC_MP_TOP_PAD = 8,
	FLMEM_GLIBC_MP_MMAP_THRESHOLD = 16,
	FLMEM_GLIBC_MP_ARENA_TEST = 24,
	FLMEM_GLIBC_MP_ARENA_MAX = 32,
	FLMEM_GLIBC_MP_BYTES = 160, /* more than the size of the largest malloc_par */
};

/* Offsets in malloc_state and malloc_par for a range of consecutive releases. */
struct flmem_glibc_layout {
	int minor;	   /* the first release of the range, 2.minor */
	unsigned bins;	   /* malloc_state.bins */
	unsigned fastbins; /* malloc_state.fastbinsY; 0: there are none (2.43) */
	bool mangles;	   /* links of fastbins and tcache are xored with their address (2.32) */
	struct {
		unsigned thp_pagesize;	   /* 0: absent (before 2.35) */
		unsigned n_mmaps;	   /* int; n_mmaps_max and max_n_mmaps follow it */
		unsigned no_dyn_threshold; /* int */
		unsigned mmapped_mem;	   /* max_mmapped_mem follows it */
		unsigned sbrk_base;
		unsigned tcache_count; /* 0: no tcache (before 2.26) */
	} mp;
	struct {
		unsigned chunk_bytes; /* length of the chunk that holds a tcache_perthread_struct */
		unsigned bins;
		unsigned count_bytes; /* of each count; the entries follow the counts */
		bool counts_free;     /* the counts are those of free places (2.42) */
	} tcache;
};

/* Newest first; ends in a row whose minor is 0. */
extern const struct flmem_glibc_layout flmem_glibc_layouts[];

/* Returns 36 for "2.36"; -1 when the text is not a version of glibc 2. */
int flmem_glibc_minor(const char *version);

/* Returns the row for 2.minor; NULL for releases before 2.17. */
const struct flmem_glibc_layout *flmem_glibc_layout_of(int minor);

#endif
