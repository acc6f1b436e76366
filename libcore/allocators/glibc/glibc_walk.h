/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_WALK_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_WALK_H

/*
 * Walks the chunks of one of glibc's heaps and adds up free memory and what malloc_trim(0) would
 * release. A chunk is free when the next one marks it so, or when it is in a fastbin, whose chunks
 * malloc_trim frees first. The cost is proportional to the number of chunks, not their size: pages
 * without a chunk's head are not read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocators/glibc/glibc_layout.h"
#include "proc/peek.h"

/* Sums over chunks, in bytes, except for the counts `chunks` and `extents`. */
struct flmem_glibc_sums {
	uint64_t free;
	uint64_t free_resident;
	uint64_t trimmable;
	uint64_t cached; /* bytes in the lists of tcaches whose structures were found */
	uint64_t tcache_structs;
	uint64_t walked; /* length of the memory that was walked */
	uint64_t chunks;
	uint64_t extents; /* number of runs of free chunks */
};

/* The chunks in fastbins, in ascending order. */
struct flmem_glibc_fast {
	uint64_t *chunks;
	size_t count, room;
};

void flmem_glibc_fast_clear(struct flmem_glibc_fast *fast);

#define FLMEM_AUTO_GLIBC_FAST FLMEM_AUTO(flmem_glibc_fast_clear)

enum flmem_glibc_walked {
	FLMEM_GLIBC_WALKED, /* the walk reached the end */
	/* The walk met no valid chunk, or a page without one: dropped or never used. */
	FLMEM_GLIBC_LOST,
	FLMEM_GLIBC_SWAPPED, /* the head of a chunk is swapped out */
	FLMEM_GLIBC_OUT_OF_TIME,
	FLMEM_GLIBC_NO_MEMORY,
};

/* Memory that holds consecutive chunks. */
struct flmem_glibc_stretch {
	uint64_t begin;	  /* start of the memory; glibc's structures are before `start` */
	uint64_t start;	  /* start of the first chunk */
	uint64_t end;	  /* end of the last chunk; the top chunk, if any, begins here */
	uint64_t top_end; /* 0: no top chunk, and fenceposts may end the chunks before `end` */
	bool main;	  /* the stretch belongs to main_arena */
};

/* Returns the end of the stretch's memory. */
static inline uint64_t flmem_glibc_stretch_finish(const struct flmem_glibc_stretch *stretch)
{
	return stretch->top_end ? stretch->top_end : stretch->end;
}

/* Shared by all walks of one heap; about 300 KiB. */
struct flmem_glibc_walker;

struct flmem_glibc_walker_options {
	struct flmem_peek *peek; /* must outlive the walker */
	const struct flmem_glibc_layout *layout;
	uint64_t tcache_count; /* places in each list of a tcache */
	uint64_t top_unit;     /* malloc_trim cuts main_arena's top by multiples of this */
	uint64_t brk_end;      /* smallest size of that top that is cut */
	uint64_t deadline_ns;  /* flmem_clock_ns(); 0: none */
};

/* Allocates a walker; NULL: out of memory. */
struct flmem_glibc_walker *flmem_glibc_walker_new(const struct flmem_glibc_walker_options *options);
void flmem_glibc_walker_free(struct flmem_glibc_walker *walker);

static inline void flmem_cleanup_glibc_walker(struct flmem_glibc_walker **walker)
{
	flmem_glibc_walker_free(*walker);
}

#define FLMEM_AUTO_GLIBC_WALKER FLMEM_AUTO(flmem_cleanup_glibc_walker)

/*
 * Collects the chunks in the fastbins of an arena; FLMEM_GLIBC_LOST if they are more than `limit`.
 */
enum flmem_glibc_walked flmem_glibc_fast_collect(struct flmem_glibc_walker *walker,
						 const uint64_t heads[FLMEM_GLIBC_FASTBINS],
						 size_t limit, struct flmem_glibc_fast *ret_fast);

/*
 * Walks a stretch and adds its content to `sums`; adds nothing if the walk did not reach the end.
 */
enum flmem_glibc_walked flmem_glibc_walk(struct flmem_glibc_walker *walker,
					 const struct flmem_glibc_stretch *stretch,
					 const struct flmem_glibc_fast *fast,
					 struct flmem_glibc_sums *sums);

/* A run of free memory. */
struct flmem_glibc_run {
	uint64_t start, end;
};

/* Runs in ascending order, no two of them adjacent. */
struct flmem_glibc_runs {
	struct flmem_glibc_run *rows;
	size_t count, room;
};

/*
 * Adds the content of the stretch, given all its runs of free chunks. The only tcache counted is
 * one whose structure is the first chunk, at the address of a thread's first request.
 */
void flmem_glibc_walk_runs(struct flmem_glibc_walker *walker,
			   const struct flmem_glibc_stretch *stretch,
			   const struct flmem_glibc_runs *runs, struct flmem_glibc_sums *sums);

/* Adds only the stretch's first chunk, if it is a tcache, and its top chunk. */
void flmem_glibc_walk_ends(struct flmem_glibc_walker *walker,
			   const struct flmem_glibc_stretch *stretch,
			   struct flmem_glibc_sums *sums);

void flmem_glibc_sums_add(struct flmem_glibc_sums *sums, const struct flmem_glibc_sums *more);

#endif
