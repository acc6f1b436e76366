/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_mmapped.h"

#include <string.h>

#include "base/clock.h"

#define AHEAD_PAGES 4096U /* pages whose residency is queried together */

struct mmapped_search {
	const struct flmem_glibc_space *space;
	const struct flmem_glibc *glibc;
	uint64_t deadline_ns;
	uint64_t page;
	struct flmem_glibc_mmapped found;
};

static bool has_found_all_mmapped(const struct mmapped_search *search)
{
	const struct flmem_glibc_params *params = &search->glibc->params;

	return params->known && search->found.count >= params->mmapped_count;
}

static bool is_search_late(const struct mmapped_search *search)
{
	return search->deadline_ns && flmem_clock_ns() >= search->deadline_ns;
}

/*
 * A mapping with a kernel name ([heap], [stack]) is not a block. Programs can only set "[anon:...]"
 * names.
 */
static bool may_hold_blocks(const struct flmem_map *map)
{
	return !map->inode && map->flags & FLMEM_MAP_WRITE && !(map->flags & FLMEM_MAP_SHARED) &&
	       (map->name[0] == '\0' || strncmp(map->name, "[anon", 5) == 0);
}

/* The first words of a chunk. */
struct mmapped_head {
	uint64_t before, size;
};

/*
 * Returns the length of the block whose head is `lead` bytes after its start, 0 if there is none.
 * Its size and the space before it, left by an alignment, add up to whole pages; in 2.43 the length
 * of one head is not counted.
 */
static uint64_t measure_mmapped_block(const struct mmapped_search *search,
				      const struct mmapped_head *head, uint64_t lead, uint64_t room)
{
	uint64_t length = lead + (head->size & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS);

	if (head->before != lead || (head->size & FLMEM_GLIBC_SIZE_BITS) != FLMEM_GLIBC_IS_MMAPPED)
		return 0;
	if (length % search->page == search->page - sizeof(*head))
		length += sizeof(*head);
	return length % search->page == 0 && length <= room ? length : 0;
}

/*
 * Measures the block at the start of a mapping. In most releases aligning a block leaves the head
 * of the whole block in place.
 */
static uint64_t measure_first_block(const struct mmapped_search *search,
				    const struct flmem_map *map)
{
	for (uint64_t lead = 0; lead < search->page; lead += sizeof(struct mmapped_head)) {
		struct mmapped_head head;
		uint64_t length;

		if (flmem_peek_read(search->space->peek, map->start + lead, &head, sizeof(head)))
			return 0;
		length = measure_mmapped_block(search, &head, lead, map->end - map->start);
		if (length)
			return length;
	}
	return 0;
}

static void add_mmapped_block(struct mmapped_search *search, uint64_t start, uint64_t length)
{
	flmem_peek_prepare(search->space->peek, start, start + length);
	search->found.count++;
	search->found.bytes += length;
	search->found.resident += flmem_peek_resident(search->space->peek, start, start + length);
}

/* Follows consecutive blocks; returns their end. */
static uint64_t search_chain(struct mmapped_search *search, const struct flmem_map *map)
{
	uint64_t page = map->start, length = measure_first_block(search, map);

	while (length && !has_found_all_mmapped(search)) {
		struct mmapped_head head;

		add_mmapped_block(search, page, length);
		page += length;
		length = 0;
		flmem_peek_prepare(search->space->peek, page, page + search->page);
		if (page < map->end &&
		    flmem_peek_read(search->space->peek, page, &head, sizeof(head)) == 0)
			length = measure_mmapped_block(search, &head, 0, map->end - page);
	}
	return page;
}

/* Reports whether the mapping is a heap of an arena: those hold no such blocks. */
static bool is_arena_heap(const struct mmapped_search *search, const struct flmem_map *map)
{
	const struct flmem_glibc *glibc = search->glibc;
	uint64_t owner;

	if (!glibc->heap_bytes || map->start % glibc->heap_bytes ||
	    flmem_peek_read(search->space->peek, map->start, &owner, sizeof(owner)))
		return false;
	for (size_t i = 0; i < glibc->arena_count; i++)
		if (glibc->arenas[i] == owner)
			return true;
	return false;
}

/*
 * Searches a mapping for blocks that have other memory before them: checks the start of every page.
 */
static void search_pages(struct mmapped_search *search, const struct flmem_map *map, uint64_t page)
{
	struct mmapped_head heads[FLMEM_PEEK_PAGES_MAX];
	uint64_t prepared = page;

	while (page < map->end && !has_found_all_mmapped(search)) {
		uint64_t count = (map->end - page) / search->page, resident = 0, next = 0;
		struct flmem_peek_pieces pieces = {page, search->page, 0, sizeof(heads[0])};

		if (count > FLMEM_PEEK_PAGES_MAX)
			count = FLMEM_PEEK_PAGES_MAX;
		pieces.count = (size_t)count;
		if (page + count * search->page > prepared) {
			prepared = page + AHEAD_PAGES * search->page;
			prepared = prepared < map->end ? prepared : map->end;
			flmem_peek_prepare(search->space->peek, page, prepared);
		}
		if (!count || is_search_late(search) ||
		    flmem_peek_read_pieces(search->space->peek, &pieces, heads, &resident))
			return;
		for (uint64_t i = 0; i < count && !next; i++) {
			uint64_t at = page + i * search->page;
			uint64_t length =
				measure_mmapped_block(search, &heads[i], 0, map->end - at);

			if (length)
				next = at + length;
			if (length)
				add_mmapped_block(search, at, length);
		}
		page = next ? next : page + count * search->page;
	}
}

/*
 * Searches from the highest address: the kernel maps downwards, and large blocks that stay are
 * mostly old.
 */
static void search_maps(struct mmapped_search *search, bool deep)
{
	search->found = (struct flmem_glibc_mmapped){0};
	for (size_t i = search->space->maps->count; i-- > 0 && !has_found_all_mmapped(search);) {
		const struct flmem_map *map = &search->space->maps->rows[i];
		uint64_t end;

		if (!may_hold_blocks(map))
			continue;
		flmem_peek_prepare(search->space->peek, map->start, map->start + search->page);
		if (is_arena_heap(search, map))
			continue;
		end = search_chain(search, map);
		if (deep)
			search_pages(search, map, end);
	}
}

void flmem_glibc_mmapped_find(const struct flmem_glibc_space *space,
			      const struct flmem_glibc *glibc, uint64_t negligible,
			      uint64_t deadline_ns, struct flmem_glibc_mmapped *ret_mmapped)
{
	struct mmapped_search search = {
		.space = space,
		.glibc = glibc,
		.deadline_ns = deadline_ns,
		.page = flmem_peek_page_bytes(space->peek),
	};
	struct flmem_glibc_mmapped first;

	search_maps(&search, false);
	first = search.found;
	if (glibc->params.known && !has_found_all_mmapped(&search) &&
	    first.bytes + negligible < glibc->params.mmapped_bytes) {
		search_maps(&search, true);
		/* The deep search was misled by something that looks like a block. */
		if (search.found.bytes < first.bytes)
			search.found = first;
	}
	*ret_mmapped = search.found;
}
