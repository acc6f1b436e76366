/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/pymalloc.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define CANDIDATES_MAX ((size_t)1 << 16)
#define ARENAS_MAX     ((size_t)1 << 18) /* limit: 256 GiB of small objects */
#define FIRST_OBJECTS  16U		 /* INITIAL_ARENA_OBJECTS: length of the shortest table */
#define POOLS	       64U		 /* most pools of an arena, for both sizes */
#define BLOCK_MAX      512U
#define CLOCK_EVERY    64U /* arenas between two reads of the clock */

/* struct arena_object, unchanged since 2.5. */
struct arena_object {
	uint64_t address;      /* 0: no arena */
	uint64_t pool_address; /* next pool to be carved off */
	uint32_t free_pools;   /* pools that are carved and empty, or not carved yet */
	uint32_t total_pools;
	uint64_t freepools, nextarena, prevarena;
};

/* struct pool_header of 64-bit builds. */
struct pool_header {
	uint32_t count, padding; /* count: blocks in use */
	uint64_t freeblock, nextpool, prevpool;
	uint32_t arenaindex;
	uint32_t szidx;
	uint32_t nextoffset;	/* offset of the first block that was never used */
	uint32_t maxnextoffset; /* offset of the last block */
};

struct arena_geometry {
	uint64_t arena, pool;
};

static const struct arena_geometry geometries[] = {
	{UINT64_C(256) << 10, UINT64_C(4) << 10},
	{UINT64_C(1) << 20, UINT64_C(16) << 10},
};

struct pymalloc_arena {
	uint64_t address; /* address of its first pool */
	uint64_t start;	  /* start of its mapping */
	uint32_t index;
	uint16_t carved;
	uint16_t used;
};

struct pymalloc_arenas {
	struct pymalloc_arena *rows;
	size_t count, capacity;
};

static void free_arenas(const struct pymalloc_arenas *arenas)
{
	free(arenas->rows);
}

static bool is_anonymous_map(const struct flmem_map *map)
{
	const unsigned flags = FLMEM_MAP_READ | FLMEM_MAP_WRITE;

	return map && !map->inode && (map->flags & (flags | FLMEM_MAP_SHARED)) == flags;
}

/* Parses an element of the table. Returns false if it has no valid arena. */
static bool parse_object(const struct flmem_pymalloc_search *search,
			 const struct arena_geometry *geometry, const struct arena_object *object,
			 struct pymalloc_arena *ret_arena)
{
	uint64_t first = (object->address + geometry->pool - 1) & ~(geometry->pool - 1);
	uint64_t end = object->address + geometry->arena;
	uint64_t total, carved;

	if (object->address % flmem_peek_page_bytes(search->peek) || end < object->address ||
	    !is_anonymous_map(flmem_maps_find(search->maps, object->address)) ||
	    !is_anonymous_map(flmem_maps_find(search->maps, end - 1)))
		return false;
	total = (end - first) / geometry->pool;
	if (object->total_pools != total || object->free_pools > total ||
	    object->pool_address < first || object->pool_address % geometry->pool)
		return false;
	carved = (object->pool_address - first) / geometry->pool;
	if (carved > total || object->free_pools < total - carved)
		return false;
	*ret_arena = (struct pymalloc_arena){.address = first,
					     .start = object->address,
					     .carved = (uint16_t)carved,
					     .used = (uint16_t)(total - object->free_pools)};
	return true;
}

static bool is_pool(const struct pool_header *pool, const struct arena_geometry *geometry,
		    uint64_t address, uint32_t index)
{
	uint64_t size = geometry->pool - pool->maxnextoffset;
	uint64_t blocks = address + sizeof(*pool);

	if (pool->arenaindex != index || pool->maxnextoffset >= geometry->pool ||
	    size > BLOCK_MAX || size % 8 ||
	    ((uint64_t)pool->szidx * 16 + 16 != size && (uint64_t)pool->szidx * 8 + 8 != size))
		return false;
	if (pool->count > (geometry->pool - sizeof(*pool)) / size ||
	    pool->nextoffset > pool->maxnextoffset + size ||
	    pool->nextoffset < sizeof(*pool) + size || (pool->nextoffset - sizeof(*pool)) % size)
		return false;
	return !pool->freeblock ||
	       (pool->freeblock >= blocks && pool->freeblock - address <= pool->maxnextoffset &&
		(pool->freeblock - blocks) % size == 0);
}

/* Sums over the pools of an arena. */
struct pool_sums {
	uint64_t good, bad;
	uint64_t block_bytes; /* bytes of blocks in use */
	uint64_t extra_bytes; /* headers and ends of pools with blocks in use */
};

static int read_pools(const struct flmem_pymalloc_search *search,
		      const struct arena_geometry *geometry, const struct pymalloc_arena *arena,
		      struct pool_sums *pools)
{
	struct pool_header headers[POOLS];
	const struct flmem_peek_pieces pieces = {arena->address, geometry->pool, arena->carved,
						 sizeof(headers[0])};
	uint64_t resident;
	int rc = flmem_peek_read_pieces(search->peek, &pieces, headers, &resident);

	if (rc)
		return rc;
	for (size_t i = 0; i < arena->carved; i++) {
		const struct pool_header *pool = &headers[i];
		uint64_t size = geometry->pool - pool->maxnextoffset;

		if (!(resident >> i & 1))
			continue;
		if (!is_pool(pool, geometry, arena->address + i * geometry->pool, arena->index)) {
			pools->bad++;
			continue;
		}
		pools->good++;
		if (!pool->count)
			continue;
		pools->block_bytes += pool->count * size;
		pools->extra_bytes += sizeof(*pool);
		if (pool->nextoffset > pool->maxnextoffset)
			pools->extra_bytes += geometry->pool - pool->nextoffset;
	}
	return 0;
}

/* True for an element without an arena: part of a linked list, whose last link is 0. */
static bool is_unused_object(const struct arena_object *object, uint64_t table, size_t *zeroes)
{
	const uint64_t size = sizeof(*object);

	if (object->address)
		return false;
	if (!object->nextarena)
		return (*zeroes)++ == 0;
	return object->nextarena >= table && object->nextarena - table < ARENAS_MAX * size &&
	       (object->nextarena - table) % size == 0;
}

static int add_pymalloc_arena(struct pymalloc_arenas *arenas, const struct pymalloc_arena *arena)
{
	if (arenas->count == arenas->capacity) {
		size_t capacity = arenas->capacity ? arenas->capacity * 2 : 64;
		struct pymalloc_arena *rows = reallocarray(arenas->rows, capacity, sizeof(*rows));

		if (!rows)
			return -ENOMEM;
		arenas->rows = rows;
		arenas->capacity = capacity;
	}
	arenas->rows[arenas->count++] = *arena;
	return 0;
}

/* Appends the arenas of the table's elements up to the first invalid one. */
static int read_table(const struct flmem_pymalloc_search *search,
		      const struct arena_geometry *geometry, uint64_t table, size_t limit,
		      struct pymalloc_arenas *arenas)
{
	size_t zeroes = 0;

	for (size_t i = 0; i < limit; i++) {
		struct arena_object object;
		struct pymalloc_arena arena;

		if (flmem_peek_read(search->peek, table + i * sizeof(object), &object,
				    sizeof(object)))
			return 0;
		if (is_unused_object(&object, table, &zeroes))
			continue;
		if (!parse_object(search, geometry, &object, &arena))
			return 0;
		arena.index = (uint32_t)i;
		if (add_pymalloc_arena(arenas, &arena))
			return -ENOMEM;
	}
	return 0;
}

/* True if the address is likely a table: it begins with an arena whose pools name their index. */
static bool is_table(const struct flmem_pymalloc_search *search,
		     const struct arena_geometry *geometry, uint64_t table)
{
	FLMEM_AUTO(free_arenas) struct pymalloc_arenas arenas = {0};
	struct pool_sums pools = {0};

	if (read_table(search, geometry, table, FIRST_OBJECTS, &arenas))
		return false;
	for (size_t i = 0; i < arenas.count; i++)
		if (read_pools(search, geometry, &arenas.rows[i], &pools))
			return false;
	return pools.good > pools.bad;
}

/* An address to which the data of the interpreter point, and the place of that pointer. */
struct arena_candidate {
	uint64_t address, place;
};

struct arena_candidates {
	struct arena_candidate *rows;
	size_t count;
};

static void free_candidates(const struct arena_candidates *candidates)
{
	free(candidates->rows);
}

static int compare_addresses(const void *a, const void *b)
{
	uint64_t first = ((const struct arena_candidate *)a)->address;
	uint64_t second = ((const struct arena_candidate *)b)->address;

	return (first > second) - (first < second);
}

/*
 * True for a word that cannot be the address of a table, by a cheap test; that holds for most
 * words.
 */
static bool cannot_be_table(const struct flmem_pymalloc_search *search, uint64_t word)
{
	const struct flmem_maps *maps = search->maps;

	return word % 16 || !maps->count || word < maps->rows[0].start ||
	       word >= maps->rows[maps->count - 1].end ||
	       (word >= search->data_start && word < search->data_end);
}

/* Adds candidates among `words`, which were read from the address `at` on. */
static void pick_candidates(const struct flmem_pymalloc_search *search, uint64_t at,
			    const uint64_t *words, size_t count,
			    struct arena_candidates *candidates)
{
	const struct flmem_map *map = NULL;

	for (size_t i = 0; i < count && candidates->count < CANDIDATES_MAX; i++) {
		if (cannot_be_table(search, words[i]))
			continue;
		if (!map || words[i] < map->start || words[i] >= map->end)
			map = flmem_maps_find(search->maps, words[i]);
		if (is_anonymous_map(map))
			candidates->rows[candidates->count++] =
				(struct arena_candidate){words[i], at + i * sizeof(*words)};
	}
}

static int find_table_candidates(const struct flmem_pymalloc_search *search,
				 struct arena_candidates *ret_candidates)
{
	const uint64_t page = flmem_peek_page_bytes(search->peek);
	uint64_t last = search->data_end & ~(page - 1), at = search->data_start & ~(page - 1);
	size_t window = FLMEM_PEEK_PAGES_MAX;
	FLMEM_AUTO_FREE uint64_t *words = malloc(window * page);

	ret_candidates->rows = calloc(CANDIDATES_MAX, sizeof(*ret_candidates->rows));
	if (!words || !ret_candidates->rows)
		return -ENOMEM;
	for (; at < last; at += window * page) {
		if ((last - at) / page < window)
			window = (size_t)((last - at) / page);
		if (flmem_peek_read_pages(search->peek, at, window, words, NULL) == 0)
			pick_candidates(search, at, words, window * page / sizeof(*words),
					ret_candidates);
	}
	/* Sort them, so that each page of the target is read once. */
	qsort(ret_candidates->rows, ret_candidates->count, sizeof(*ret_candidates->rows),
	      compare_addresses);
	return 0;
}

static int find_table(const struct flmem_pymalloc_search *search,
		      const struct arena_geometry *geometry,
		      const struct arena_candidates *candidates, uint64_t *ret_table)
{
	for (size_t i = 0; i < candidates->count; i++) {
		const struct arena_candidate *row = &candidates->rows[i];

		if (i && row->address == row[-1].address)
			continue;
		if (!is_table(search, geometry, row->address))
			continue;
		*ret_table = row->address;
		if (search->place)
			*search->place = row->place - search->data_start;
		return 0;
	}
	return -ENOENT;
}

/* Tries the place of the table in another process of the same file. */
static bool find_known_table(const struct flmem_pymalloc_search *search,
			     const struct arena_geometry *geometry, uint64_t *ret_table)
{
	uint64_t place = search->place ? *search->place : 0, word;

	if (!place || place >= search->data_end - search->data_start ||
	    flmem_peek_read(search->peek, search->data_start + place, &word, sizeof(word)) ||
	    cannot_be_table(search, word) || !is_table(search, geometry, word))
		return false;
	*ret_table = word;
	return true;
}

static int search_arena_table(const struct flmem_pymalloc_search *search,
			      const struct arena_geometry **geometry, uint64_t *ret_table)
{
	FLMEM_AUTO(free_candidates) struct arena_candidates candidates = {0};

	*geometry = &geometries[search->large];
	if (find_known_table(search, *geometry, ret_table))
		return 0;
	if (find_table_candidates(search, &candidates))
		return -ENOMEM;
	if (find_table(search, *geometry, &candidates, ret_table) == 0)
		return 0;
	/*
	 * Try the other size: builds --without-pymalloc-radix-tree keep the small arenas, or the
	 * reported version is wrong.
	 */
	*geometry = &geometries[!search->large];
	return find_table(search, *geometry, &candidates, ret_table);
}

static int compare_starts(const void *a, const void *b)
{
	uint64_t first = ((const struct pymalloc_arena *)a)->start;
	uint64_t second = ((const struct pymalloc_arena *)b)->start;

	return (first > second) - (first < second);
}

/* Adds up the pools, arena by arena, until the budget is spent. */
static void sum_arenas(const struct flmem_pymalloc_search *search,
		       const struct arena_geometry *geometry, const struct pymalloc_arenas *arenas,
		       struct flmem_pymalloc *sum)
{
	uint64_t began = flmem_clock_us(), used_pools = 0, missed_pools = 0, end = 0;
	bool late = false;
	struct pool_sums pools = {0};

	for (size_t i = 0; i < arenas->count; i++) {
		const struct pymalloc_arena *arena = &arenas->rows[i];

		if (arena->start < end) /* only in a corrupted table: count memory once */
			continue;
		end = arena->start + geometry->arena;
		sum->arenas++;
		sum->resident_bytes += flmem_peek_resident(search->peek, arena->start, end);
		late = late || (i % CLOCK_EVERY == CLOCK_EVERY - 1 &&
				flmem_clock_us() - began > search->budget_us);
		if (late || read_pools(search, geometry, arena, &pools))
			missed_pools += arena->used;
		else
			used_pools += arena->used;
	}
	missed_pools += pools.bad;
	if (used_pools) {
		double more = 1 + (double)missed_pools / (double)used_pools;

		pools.block_bytes = (uint64_t)((double)pools.block_bytes * more);
		pools.extra_bytes = (uint64_t)((double)pools.extra_bytes * more);
	}
	sum->block_bytes = pools.block_bytes;
	sum->used_bytes = pools.block_bytes + pools.extra_bytes;
	sum->error_bytes = missed_pools * geometry->pool;
}

int flmem_pymalloc_read(const struct flmem_pymalloc_search *search,
			struct flmem_pymalloc *ret_pymalloc)
{
	FLMEM_AUTO(free_arenas) struct pymalloc_arenas arenas = {0};
	const struct arena_geometry *geometry;
	struct flmem_pymalloc sum = {0};
	uint64_t table;
	int rc = search_arena_table(search, &geometry, &table);

	if (rc)
		return rc;
	if (read_table(search, geometry, table, ARENAS_MAX, &arenas))
		return -ENOMEM;
	if (!arenas.count) /* the arenas were freed since the table was found */
		return -ENOENT;
	qsort(arenas.rows, arenas.count, sizeof(*arenas.rows), compare_starts);
	sum_arenas(search, geometry, &arenas, &sum);
	if (sum.used_bytes > sum.resident_bytes)
		/* The pools were swapped out, or changed meanwhile. */
		sum.used_bytes = sum.resident_bytes;
	if (sum.block_bytes > sum.used_bytes)
		sum.block_bytes = sum.used_bytes;
	sum.free_bytes = sum.resident_bytes - sum.used_bytes;
	*ret_pymalloc = sum;
	return 0;
}
