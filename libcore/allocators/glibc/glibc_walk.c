/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/glibc/glibc_links.h"
#include "allocators/glibc/glibc_tcache.h"
#include "base/clock.h"

#define BLOCK_PAGES_MAX FLMEM_PEEK_PAGES_MAX
#define NEAR_PAGES	4U /* a jump of up to this many pages does not shrink the block */
#define FAST_ROOM_MAX	((size_t)2 << 20)
#define TIME_EVERY	1024U
#define LINK_AT		16U /* offset of the link to the next chunk in a free chunk */

struct flmem_glibc_walker {
	struct flmem_glibc_walker_options o;
	uint64_t page;
	unsigned char *block;
	uint64_t block_start, block_end; /* the address range that `block` holds */
	uint64_t block_resident;	 /* bit per page of `block` */
	uint64_t block_pages;		 /* number of pages of the next block */
};

/* State of walking one stretch. */
struct heap_walk {
	struct flmem_glibc_walker *walker;
	const struct flmem_glibc_stretch *stretch;
	const struct flmem_glibc_fast *fast;
	size_t fast_next;
	struct flmem_glibc_sums sums;
	bool previous_fast;
	uint64_t run; /* start of the run of free chunks before the current one; 0: none */
};

struct flmem_glibc_walker *flmem_glibc_walker_new(const struct flmem_glibc_walker_options *options)
{
	struct flmem_glibc_walker *walker = calloc(1, sizeof(*walker));

	if (!walker)
		return NULL;
	walker->o = *options;
	walker->page = flmem_peek_page_bytes(options->peek);
	walker->block = malloc((size_t)(BLOCK_PAGES_MAX * walker->page));
	if (!walker->block) {
		free(walker);
		return NULL;
	}
	return walker;
}

void flmem_glibc_walker_free(struct flmem_glibc_walker *walker)
{
	if (!walker)
		return;
	free(walker->block);
	free(walker);
}

void flmem_glibc_fast_clear(struct flmem_glibc_fast *fast)
{
	free(fast->chunks);
	*fast = (struct flmem_glibc_fast){0};
}

static bool is_walk_late(const struct flmem_glibc_walker *walker)
{
	return walker->o.deadline_ns && flmem_clock_ns() >= walker->o.deadline_ns;
}

static bool add_fast_chunk(struct flmem_glibc_fast *fast, uint64_t chunk)
{
	if (fast->count == fast->room) {
		size_t room = fast->room ? 2 * fast->room : 1024;
		uint64_t *grown = reallocarray(fast->chunks, room, sizeof(*grown));

		if (!grown)
			return false;
		fast->chunks = grown;
		fast->room = room;
	}
	fast->chunks[fast->count++] = chunk;
	return true;
}

/* Explains why the first words of a chunk, which may be in two pages, cannot be read. */
static enum flmem_glibc_walked explain_absent_chunk(const struct flmem_glibc_walker *walker,
						    uint64_t chunk)
{
	return flmem_peek_is_swapped(walker->o.peek, chunk) ||
			       flmem_peek_is_swapped(walker->o.peek, chunk + LINK_AT)
		       ? FLMEM_GLIBC_SWAPPED
		       : FLMEM_GLIBC_LOST;
}

/*
 * Reads a chunk's link. If its page is not resident, asks the kernel again: the program may have
 * touched the page since.
 */
static int read_fast_link(struct flmem_glibc_walker *walker, uint64_t chunk, uint64_t size,
			  struct flmem_glibc_link *ret_link)
{
	struct flmem_peek *peek = walker->o.peek;
	int rc = flmem_glibc_fast_link(peek, walker->o.layout, chunk, size, ret_link);

	if (rc == -ENODATA && flmem_peek_renew(peek, chunk, chunk + 1) &&
	    flmem_peek_renew(peek, chunk + LINK_AT, chunk + LINK_AT + 1))
		rc = flmem_glibc_fast_link(peek, walker->o.layout, chunk, size, ret_link);
	return rc;
}

/*
 * Takes one chunk, which `place` points to, from the list of a size class, and sets `place` to the
 * next one.
 */
static enum flmem_glibc_walked take_fast_chunk(struct flmem_glibc_walker *walker, uint64_t size,
					       uint64_t *place, struct flmem_glibc_fast *fast)
{
	struct flmem_glibc_link link;
	int rc = read_fast_link(walker, *place, size, &link);

	if (rc == -ENODATA)
		return explain_absent_chunk(walker, *place);
	if (rc || link.wrong)
		return FLMEM_GLIBC_LOST;
	if (!add_fast_chunk(fast, *place))
		return FLMEM_GLIBC_NO_MEMORY;
	*place = link.next;
	return FLMEM_GLIBC_WALKED;
}

/*
 * Follows all lists together, always the one at the highest address. Chunks freed in the order of
 * their allocation are listed from last to first, so each part of memory is read once.
 */
static enum flmem_glibc_walked follow_fastbins(struct flmem_glibc_walker *walker,
					       uint64_t places[FLMEM_GLIBC_FASTBINS], size_t limit,
					       struct flmem_glibc_fast *fast)
{
	struct flmem_glibc_cycle cycles[FLMEM_GLIBC_FASTBINS] = {0};

	for (;;) {
		enum flmem_glibc_walked walked;
		unsigned highest = 0;

		for (unsigned i = 1; i < FLMEM_GLIBC_FASTBINS; i++)
			if (places[i] > places[highest])
				highest = i;
		if (!places[highest])
			return FLMEM_GLIBC_WALKED;
		if (fast->count >= limit ||
		    flmem_glibc_cycle_ends(&cycles[highest], places[highest]))
			return FLMEM_GLIBC_LOST;
		if (fast->count == FAST_ROOM_MAX ||
		    (fast->count % TIME_EVERY == 0 && is_walk_late(walker)))
			return FLMEM_GLIBC_OUT_OF_TIME;
		walked = take_fast_chunk(walker, flmem_glibc_fast_size(highest), &places[highest],
					 fast);
		if (walked != FLMEM_GLIBC_WALKED)
			return walked;
	}
}

/* Radix sort from the lowest byte; addresses have at most 57 bits, and their lowest 4 are zero. */
static bool sort_ascending(uint64_t *values, size_t count)
{
	FLMEM_AUTO_FREE uint64_t *other = NULL;
	uint64_t *from = values, *to, all = 0;

	if (count < 2)
		return true;
	other = malloc(count * sizeof(*other));
	if (!other)
		return false;
	to = other;
	for (size_t i = 0; i < count; i++)
		all |= values[i] ^ values[0];
	for (unsigned shift = 4; shift < 64; shift += 12) {
		size_t counts[4096] = {0}, place = 0;
		uint64_t *swap = from;

		if (!(all >> shift & 4095))
			continue;
		for (size_t i = 0; i < count; i++)
			counts[from[i] >> shift & 4095]++;
		for (size_t i = 0; i < 4096; i++) {
			size_t here = counts[i];

			counts[i] = place;
			place += here;
		}
		for (size_t i = 0; i < count; i++)
			to[counts[from[i] >> shift & 4095]++] = from[i];
		from = to;
		to = swap;
	}
	if (from != values)
		memcpy(values, from, count * sizeof(*values));
	return true;
}

enum flmem_glibc_walked flmem_glibc_fast_collect(struct flmem_glibc_walker *walker,
						 const uint64_t heads[FLMEM_GLIBC_FASTBINS],
						 size_t limit, struct flmem_glibc_fast *ret_fast)
{
	FLMEM_AUTO_GLIBC_FAST struct flmem_glibc_fast fast = {0};
	uint64_t places[FLMEM_GLIBC_FASTBINS];
	enum flmem_glibc_walked walked;

	memcpy(places, heads, sizeof(places));
	walked = follow_fastbins(walker, places, limit, &fast);
	if (walked != FLMEM_GLIBC_WALKED)
		return walked;
	if (!sort_ascending(fast.chunks, fast.count))
		return FLMEM_GLIBC_NO_MEMORY;
	for (size_t i = 1; i < fast.count; i++)
		if (fast.chunks[i] == fast.chunks[i - 1])
			return FLMEM_GLIBC_LOST;
	*ret_fast = fast;
	fast = (struct flmem_glibc_fast){0};
	return FLMEM_GLIBC_WALKED;
}

/*
 * Loads the page of a chunk's head into the block. Blocks grow while chunks are read in sequence
 * and shrink when chunks skip much of what was read.
 */
static enum flmem_glibc_walked fetch_page(struct heap_walk *walk, uint64_t chunk)
{
	struct flmem_glibc_walker *w = walk->walker;
	const uint64_t start = chunk & ~(w->page - 1);
	const uint64_t gap = start - w->block_end;
	/* The head of a top chunk is read, too. */
	const uint64_t stop = walk->stretch->end + (walk->stretch->top_end ? 16 : 0);
	uint64_t left = (stop - start + w->page - 1) / w->page;
	int rc;

	if (is_walk_late(w))
		return FLMEM_GLIBC_OUT_OF_TIME;
	if (w->block_end && gap <= NEAR_PAGES * w->page)
		w->block_pages = 2 * w->block_pages;
	else
		w->block_pages /= 2;
	if (w->block_pages < 1)
		w->block_pages = 1;
	if (w->block_pages > BLOCK_PAGES_MAX)
		w->block_pages = BLOCK_PAGES_MAX;
	if (left > w->block_pages)
		left = w->block_pages;
	w->block_end = 0;
	/*
	 * The program may have touched the page since the kernel was asked which pages are
	 * resident.
	 */
	if (!flmem_peek_is_resident(w->o.peek, start))
		(void)flmem_peek_renew(w->o.peek, start, stop);
	rc = flmem_peek_read_pages(w->o.peek, start, (size_t)left, w->block, &w->block_resident);
	if (rc)
		return FLMEM_GLIBC_LOST;
	w->block_start = start;
	w->block_end = start + left * w->page;
	return FLMEM_GLIBC_WALKED;
}

/*
 * Reports whether the block holds the page; one that was not resident when the block was read may
 * be by now.
 */
static bool has_block_page(const struct flmem_glibc_walker *w, uint64_t chunk)
{
	return chunk - w->block_start < w->block_end - w->block_start &&
	       w->block_resident >> (chunk - w->block_start) / w->page & 1;
}

/* Counts the whole pages after the head of the run's first chunk (mtrim in malloc.c). */
static uint64_t count_run_trimmable(const struct heap_walk *walk, uint64_t start, uint64_t end)
{
	const uint64_t page = walk->walker->page;
	uint64_t first;

	if (end - start <= page - 1 + FLMEM_GLIBC_CHUNK_STRUCT)
		return 0;
	first = (start + FLMEM_GLIBC_CHUNK_STRUCT + page - 1) & ~(page - 1);
	end &= ~(page - 1);
	return first < end ? flmem_peek_resident(walk->walker->o.peek, first, end) : 0;
}

static void close_walked_run(struct heap_walk *walk, uint64_t end)
{
	walk->sums.free += end - walk->run;
	walk->sums.free_resident += flmem_peek_resident(walk->walker->o.peek, walk->run, end);
	walk->sums.trimmable += count_run_trimmable(walk, walk->run, end);
	walk->sums.extents++;
	walk->run = 0;
}

/*
 * Adds the top chunk with the free chunks before it, which are merged with it. malloc_trim cuts it
 * in main_arena only, and leaves a minimal chunk and a byte (systrim in malloc.c).
 */
static void add_top(struct heap_walk *walk)
{
	const struct flmem_glibc_walker_options *o = &walk->walker->o;
	const uint64_t start = walk->run ? walk->run : walk->stretch->end;
	const uint64_t end = walk->stretch->top_end;
	uint64_t cut = end - start;

	walk->sums.free += end - start;
	walk->sums.free_resident += flmem_peek_resident(o->peek, start, end);
	walk->run = 0;
	if (!walk->stretch->main || end < o->brk_end || cut <= FLMEM_GLIBC_MIN_CHUNK + 1)
		return;
	cut = (cut - FLMEM_GLIBC_MIN_CHUNK - 1) / o->top_unit * o->top_unit;
	walk->sums.trimmable += flmem_peek_resident(o->peek, end - cut, end);
}

static bool is_next_in_fast(struct heap_walk *walk, uint64_t chunk)
{
	if (walk->fast_next == walk->fast->count || walk->fast->chunks[walk->fast_next] != chunk)
		return false;
	walk->fast_next++;
	return true;
}

static void check_walked_tcache(struct heap_walk *walk, uint64_t chunk)
{
	const struct flmem_glibc_walker *w = walk->walker;
	unsigned char copy[FLMEM_GLIBC_TCACHE_CHUNK_MAX];
	const unsigned length = w->o.layout->tcache.chunk_bytes - 16;
	const unsigned char *bytes = w->block + (chunk + 16 - w->block_start);

	if (chunk < w->block_start || chunk + 16 + length > w->block_end) {
		if (flmem_peek_read(w->o.peek, chunk + 16, copy, length))
			return;
		bytes = copy;
	}
	if (flmem_glibc_tcache_read(w->o.peek, w->o.layout, w->o.tcache_count, bytes,
				    &walk->sums.cached))
		walk->sums.tcache_structs += length + 16;
}

/* Whether the size of a chunk is plausible. */
static bool is_sane_size(const struct heap_walk *walk, uint64_t chunk, uint64_t head)
{
	const uint64_t size = head & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS;

	return size >= FLMEM_GLIBC_MIN_CHUNK && size % FLMEM_GLIBC_ALIGNMENT == 0 &&
	       size <= walk->stretch->end - chunk && !(head & FLMEM_GLIBC_IS_MMAPPED) &&
	       !(walk->stretch->main && head & FLMEM_GLIBC_NON_MAIN);
}

/*
 * Reports whether the head is that of a fencepost, one of two chunks of an impossible size: 16 or 0
 * bytes (sysmalloc in malloc.c). Fenceposts end a heap whose arena continues in another one.
 */
static bool is_fencepost(const struct heap_walk *walk, uint64_t head)
{
	const uint64_t size = head & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS;

	return !walk->stretch->top_end && (size == 0 || size == 16);
}

/* Explains an invalid chunk: a page that is not resident reads as zeroes, never as a chunk. */
static enum flmem_glibc_walked explain_lost(const struct heap_walk *walk, uint64_t chunk)
{
	return flmem_peek_is_resident(walk->walker->o.peek, chunk)
		       ? FLMEM_GLIBC_LOST
		       : explain_absent_chunk(walk->walker, chunk);
}

/* Reports whether the previous chunk, if free, has the length that its last word gives. */
static bool matches_previous(const unsigned char *here, uint64_t previous, uint64_t chunk)
{
	uint64_t size;

	memcpy(&size, here, sizeof(size));
	return previous && size == chunk - previous;
}

/* Opens, extends or closes the run of free chunks that ends where this chunk begins. */
static bool update_free_run(struct heap_walk *walk, const unsigned char *here, uint64_t head,
			    uint64_t previous, uint64_t chunk)
{
	const bool is_fast = walk->previous_fast;
	const bool is_free = !(head & FLMEM_GLIBC_PREV_INUSE);

	if (is_free && !matches_previous(here, previous, chunk))
		return false;
	if ((is_free || is_fast) && !walk->run)
		walk->run = previous;
	else if (!is_free && !is_fast && walk->run)
		close_walked_run(walk, previous);
	return true;
}

static enum flmem_glibc_walked walk_chunks(struct heap_walk *walk)
{
	struct flmem_glibc_walker *const w = walk->walker;
	const uint64_t end = walk->stretch->end;
	const uint64_t tcache_bytes = w->o.layout->tcache.chunk_bytes;
	uint64_t chunk = walk->stretch->start, previous = 0;

	while (chunk < end || walk->stretch->top_end) {
		const unsigned char *here;
		uint64_t head, size;

		if (!has_block_page(w, chunk)) {
			enum flmem_glibc_walked got = fetch_page(walk, chunk);

			if (got != FLMEM_GLIBC_WALKED)
				return got;
		}
		here = w->block + (chunk - w->block_start);
		memcpy(&head, here + 8, sizeof(head));
		size = head & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS;
		if (!update_free_run(walk, here, head, previous, chunk))
			return explain_lost(walk, chunk);
		if (chunk == end)
			return FLMEM_GLIBC_WALKED;
		if (!is_sane_size(walk, chunk, head)) {
			if (!is_fencepost(walk, head))
				return explain_lost(walk, chunk);
			if (walk->run)
				close_walked_run(walk, chunk);
			return FLMEM_GLIBC_WALKED;
		}
		previous = chunk;
		walk->previous_fast = is_next_in_fast(walk, chunk);
		if (size == tcache_bytes)
			check_walked_tcache(walk, chunk);
		chunk += size;
		walk->sums.chunks++;
	}
	return FLMEM_GLIBC_LOST;
}

void flmem_glibc_sums_add(struct flmem_glibc_sums *sums, const struct flmem_glibc_sums *more)
{
	sums->free += more->free;
	sums->free_resident += more->free_resident;
	sums->trimmable += more->trimmable;
	sums->cached += more->cached;
	sums->tcache_structs += more->tcache_structs;
	sums->walked += more->walked;
	sums->chunks += more->chunks;
	sums->extents += more->extents;
}

enum flmem_glibc_walked flmem_glibc_walk(struct flmem_glibc_walker *walker,
					 const struct flmem_glibc_stretch *stretch,
					 const struct flmem_glibc_fast *fast,
					 struct flmem_glibc_sums *sums)
{
	struct heap_walk walk = {.walker = walker, .stretch = stretch, .fast = fast};
	enum flmem_glibc_walked walked;

	/* Skip chunks below the stretch. */
	while (walk.fast_next < fast->count && fast->chunks[walk.fast_next] < stretch->start)
		walk.fast_next++;
	walker->block_end = walker->block_start = 0;
	walker->block_pages = 1;
	walked = walk_chunks(&walk);
	if (walked != FLMEM_GLIBC_WALKED)
		return walked;
	/* A listed chunk was not found by the walk: the list or the chunks are invalid. */
	if (walk.fast_next < fast->count && fast->chunks[walk.fast_next] < stretch->end)
		return FLMEM_GLIBC_LOST;
	if (stretch->top_end)
		add_top(&walk);
	walk.sums.walked = stretch->end - stretch->start;
	flmem_glibc_sums_add(sums, &walk.sums);
	return FLMEM_GLIBC_WALKED;
}

/* Adds the top, and a tcache at the address of a thread's first request. */
static void add_ends(struct heap_walk *walk)
{
	const struct flmem_glibc_stretch *stretch = walk->stretch;
	struct flmem_glibc_walker *const w = walk->walker;
	uint64_t head;

	w->block_end = w->block_start = 0;
	if (stretch->top_end)
		add_top(walk);
	if (stretch->start < stretch->end && w->o.layout->tcache.chunk_bytes &&
	    !flmem_peek_read(w->o.peek, stretch->start + 8, &head, sizeof(head)) &&
	    (head & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS) == w->o.layout->tcache.chunk_bytes)
		check_walked_tcache(walk, stretch->start);
}

void flmem_glibc_walk_runs(struct flmem_glibc_walker *walker,
			   const struct flmem_glibc_stretch *stretch,
			   const struct flmem_glibc_runs *runs, struct flmem_glibc_sums *sums)
{
	struct heap_walk walk = {.walker = walker, .stretch = stretch};

	for (size_t i = 0; i < runs->count; i++) {
		const struct flmem_glibc_run *run = &runs->rows[i];

		if (run->start < stretch->start || run->end > stretch->end)
			continue;
		walk.run = run->start;
		/* The last run may be merged with the top, where add_top() counts it. */
		if (run->end < stretch->end || !stretch->top_end)
			close_walked_run(&walk, run->end);
	}
	add_ends(&walk);
	walk.sums.walked = stretch->end - stretch->start;
	flmem_glibc_sums_add(sums, &walk.sums);
}

void flmem_glibc_walk_ends(struct flmem_glibc_walker *walker,
			   const struct flmem_glibc_stretch *stretch, struct flmem_glibc_sums *sums)
{
	struct heap_walk walk = {.walker = walker, .stretch = stretch};

	add_ends(&walk);
	flmem_glibc_sums_add(sums, &walk.sums);
}
