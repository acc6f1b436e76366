/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_lists.h"

#include <stdlib.h>

#include "allocators/glibc/glibc_links.h"

#define WALKED_UP_TO ((uint64_t)4 << 20) /* arenas up to this length are faster to walk */
/* Lists are followed if they have at most one chunk per so many pages. */
#define PAGES_PER_ITEM 64U
#define LARGE	       ((uint64_t)64 << 10) /* average size from which walking is faster */
#define LARGE_AFTER    16U		    /* chunks that give a usable average size */

struct free_list_walk {
	struct flmem_peek *peek;
	const struct flmem_glibc_stretches *stretches;
	struct flmem_glibc_runs runs;
	uint64_t bytes; /* total size of the chunks */
};

void flmem_glibc_runs_clear(struct flmem_glibc_runs *runs)
{
	free(runs->rows);
	*runs = (struct flmem_glibc_runs){0};
}

static const struct flmem_glibc_stretch *find_stretch(const struct flmem_glibc_stretches *stretches,
						      uint64_t chunk)
{
	for (size_t i = 0; i < stretches->count; i++)
		if (chunk >= stretches->rows[i].start && chunk < stretches->rows[i].end)
			return &stretches->rows[i];
	return NULL;
}

static bool add_chunk(struct free_list_walk *collection, uint64_t chunk, uint64_t head)
{
	const struct flmem_glibc_stretch *stretch = find_stretch(collection->stretches, chunk);
	const uint64_t size = head & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS;
	struct flmem_glibc_runs *runs = &collection->runs;

	if (!stretch || runs->count == runs->room || chunk % FLMEM_GLIBC_ALIGNMENT ||
	    size < FLMEM_GLIBC_MIN_CHUNK || size % FLMEM_GLIBC_ALIGNMENT ||
	    size > stretch->end - chunk)
		return false;
	runs->rows[runs->count++] = (struct flmem_glibc_run){chunk, chunk + size};
	collection->bytes += size;
	return runs->count < LARGE_AFTER || collection->bytes / runs->count < LARGE;
}

/* Follows one bin; `self` is its head as a chunk. */
static bool follow_bin(struct free_list_walk *collection, uint64_t self)
{
	uint64_t chunk, previous = self;

	if (flmem_peek_read(collection->peek, self + 16, &chunk, sizeof(chunk)))
		return false;
	while (chunk != self) {
		struct flmem_glibc_link link;

		if (flmem_glibc_bin_link(collection->peek, chunk, previous, &link) || link.wrong ||
		    !add_chunk(collection, chunk, link.size))
			return false;
		previous = chunk;
		chunk = link.next;
	}
	return true;
}

static bool collect_chunks(struct free_list_walk *collection, const struct flmem_glibc *glibc,
			   const struct flmem_glibc_arena *arena,
			   const struct flmem_glibc_fast *fast)
{
	for (size_t i = 0; i < fast->count; i++) {
		uint64_t head;

		if (flmem_peek_read(collection->peek, fast->chunks[i] + 8, &head, sizeof(head)) ||
		    !add_chunk(collection, fast->chunks[i], head))
			return false;
	}
	flmem_glibc_lists_fetch(&(struct flmem_glibc_fetch){.peek = collection->peek,
							    .layout = glibc->layout,
							    .arenas = &arena->address,
							    .count = 1});
	for (unsigned i = 0; i < FLMEM_GLIBC_BINS; i++)
		if (!follow_bin(collection, flmem_glibc_bin_head(glibc->layout, arena->address, i)))
			return false;
	return true;
}

static int compare_runs(const void *a, const void *b)
{
	const struct flmem_glibc_run *first = a, *second = b;

	return (first->start > second->start) - (first->start < second->start);
}

/* Joins neighbouring runs, as malloc_trim joins the chunks of fastbins; false when any overlap. */
static bool join_runs(struct flmem_glibc_runs *runs)
{
	size_t kept = 0;

	if (runs->count)
		qsort(runs->rows, runs->count, sizeof(*runs->rows), compare_runs);
	for (size_t i = 1; i < runs->count; i++) {
		if (runs->rows[i].start < runs->rows[kept].end)
			return false;
		if (runs->rows[i].start == runs->rows[kept].end)
			runs->rows[kept].end = runs->rows[i].end;
		else
			runs->rows[++kept] = runs->rows[i];
	}
	runs->count = runs->count ? kept + 1 : 0;
	return true;
}

bool flmem_glibc_lists_read(const struct flmem_glibc_space *space, const struct flmem_glibc *glibc,
			    const struct flmem_glibc_arena *arena,
			    const struct flmem_glibc_stretches *stretches,
			    const struct flmem_glibc_fast *fast, struct flmem_glibc_runs *ret_runs)
{
	FLMEM_AUTO_GLIBC_RUNS struct flmem_glibc_runs owned = {0};
	struct free_list_walk collection = {.peek = space->peek, .stretches = stretches};
	uint64_t length = 0;
	bool whole;

	for (size_t i = 0; i < stretches->count; i++)
		length += stretches->rows[i].end - stretches->rows[i].start;
	if (length < WALKED_UP_TO)
		return false;
	collection.runs.room =
		(size_t)(length / PAGES_PER_ITEM / flmem_peek_page_bytes(space->peek)) + 1;
	collection.runs.rows = calloc(collection.runs.room, sizeof(*collection.runs.rows));
	owned.rows = collection.runs.rows;
	whole = owned.rows && fast->count < collection.runs.room &&
		collect_chunks(&collection, glibc, arena, fast) && join_runs(&collection.runs);
	if (!whole)
		return false;
	*ret_runs = collection.runs;
	owned.rows = NULL;
	return true;
}
