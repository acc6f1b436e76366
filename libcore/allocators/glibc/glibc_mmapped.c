/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_mmapped.h"

#include <string.h>

#include "base/clock.h"

#define AHEAD_PAGES 4096U /* asked for at once: which of them are resident */

struct search {
	const struct flmem_glibc_space *space;
	const struct flmem_glibc *glibc;
	uint64_t deadline_ns;
	uint64_t page;
	struct flmem_glibc_mmapped found;
};

static bool has_all(const struct search *search)
{
	const struct flmem_glibc_params *params = &search->glibc->params;

	return params->known && search->found.count >= params->mmapped_count;
}

static bool is_late(const struct search *search)
{
	return search->deadline_ns && flmem_clock_ns() >= search->deadline_ns;
}

/* What the kernel names is no block: [heap], [stack] and the like. Programs name only their own. */
static bool may_hold_blocks(const struct flmem_map *map)
{
	return !map->inode && map->flags & FLMEM_MAP_WRITE && !(map->flags & FLMEM_MAP_SHARED) &&
	       (map->name[0] == '\0' || strncmp(map->name, "[anon", 5) == 0);
}

/* What a chunk begins with. */
struct head {
	uint64_t before, size;
};

/*
 * Length of the block that such a head ends `lead` bytes behind its begin, 0: none. Its size and
 * the room before it, which an alignment leaves, are whole pages together, or are but for a last
 * head's length that is not counted (2.43).
 */
static uint64_t block_length(const struct search *search, const struct head *head, uint64_t lead,
			     uint64_t room)
{
	uint64_t length = lead + (head->size & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS);

	if (head->before != lead || (head->size & FLMEM_GLIBC_SIZE_BITS) != FLMEM_GLIBC_IS_MMAPPED)
		return 0;
	if (length % search->page == search->page - sizeof(*head))
		length += sizeof(*head);
	return length % search->page == 0 && length <= room ? length : 0;
}

/*
 * The block at the begin of a mapping. Whoever aligns one leaves the head of the whole block where
 * it was, in most releases.
 */
static uint64_t first_block(const struct search *search, const struct flmem_map *map)
{
	for (uint64_t lead = 0; lead < search->page; lead += sizeof(struct head)) {
		struct head head;
		uint64_t length;

		if (flmem_peek_read(search->space->peek, map->start + lead, &head, sizeof(head)))
			return 0;
		length = block_length(search, &head, lead, map->end - map->start);
		if (length)
			return length;
	}
	return 0;
}

static void take(struct search *search, uint64_t start, uint64_t length)
{
	flmem_peek_prepare(search->space->peek, start, start + length);
	search->found.count++;
	search->found.bytes += length;
	search->found.resident += flmem_peek_resident(search->space->peek, start, start + length);
}

/* Blocks that stand one behind the other; returns where they end. */
static uint64_t search_chain(struct search *search, const struct flmem_map *map)
{
	uint64_t page = map->start, length = first_block(search, map);

	while (length && !has_all(search)) {
		struct head head;

		take(search, page, length);
		page += length;
		length = 0;
		flmem_peek_prepare(search->space->peek, page, page + search->page);
		if (page < map->end &&
		    flmem_peek_read(search->space->peek, page, &head, sizeof(head)) == 0)
			length = block_length(search, &head, 0, map->end - page);
	}
	return page;
}

/* Heaps of arenas hold none. */
static bool is_heap(const struct search *search, const struct flmem_map *map)
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

/* Blocks that something else stands before: looks at the begin of every page. */
static void search_pages(struct search *search, const struct flmem_map *map, uint64_t page)
{
	struct head heads[FLMEM_PEEK_PAGES_MAX];
	uint64_t prepared = page;

	while (page < map->end && !has_all(search)) {
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
		if (!count || is_late(search) ||
		    flmem_peek_read_pieces(search->space->peek, &pieces, heads, &resident))
			return;
		for (uint64_t i = 0; i < count && !next; i++) {
			uint64_t at = page + i * search->page;
			uint64_t length = block_length(search, &heads[i], 0, map->end - at);

			if (length)
				next = at + length;
			if (length)
				take(search, at, length);
		}
		page = next ? next : page + count * search->page;
	}
}

/* From the top: the kernel maps downwards, and the large blocks that stay are mostly old ones. */
static void search_maps(struct search *search, bool deep)
{
	search->found = (struct flmem_glibc_mmapped){0};
	for (size_t i = search->space->maps->count; i-- > 0 && !has_all(search);) {
		const struct flmem_map *map = &search->space->maps->rows[i];
		uint64_t end;

		if (!may_hold_blocks(map))
			continue;
		flmem_peek_prepare(search->space->peek, map->start, map->start + search->page);
		if (is_heap(search, map))
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
	struct search search = {
		.space = space,
		.glibc = glibc,
		.deadline_ns = deadline_ns,
		.page = flmem_peek_page_bytes(space->peek),
	};
	struct flmem_glibc_mmapped first;

	search_maps(&search, false);
	first = search.found;
	if (glibc->params.known && !has_all(&search) &&
	    first.bytes + negligible < glibc->params.mmapped_bytes) {
		search_maps(&search, true);
		if (search.found.bytes < first.bytes) /* no time was left */
			search.found = first;
	}
	*ret_mmapped = search.found;
}
