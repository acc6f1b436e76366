/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc_mmapped.h"

#include <string.h>

#include "base/clock.h"

#define TIME_EVERY 256U
#define HEAD	   16U

struct search {
	const struct flmem_glibc_space *space;
	const struct flmem_glibc_params *params;
	uint64_t deadline_ns;
	uint64_t page;
	struct flmem_glibc_mmapped found;
};

static bool has_all(const struct search *search)
{
	return search->params->known && search->found.count >= search->params->mmapped_count;
}

/* What the kernel names is no block: [heap], [stack] and the like. Programs name only their own. */
static bool may_hold_blocks(const struct flmem_map *map)
{
	return !map->inode && map->flags & FLMEM_MAP_WRITE && !(map->flags & FLMEM_MAP_SHARED) &&
	       (map->name[0] == '\0' || strncmp(map->name, "[anon", 5) == 0);
}

/*
 * Length of the block whose mapping begins at a page, 0: there is none. Its size and the room
 * before it, which an alignment leaves, are whole pages together, or are but for a last head's
 * length that is not counted (2.43). Whoever aligns a block leaves the head of the whole one where
 * it was, in most releases.
 */
static uint64_t block_at(const struct search *search, uint64_t page, uint64_t end, bool deep)
{
	for (uint64_t lead = 0; lead < (deep ? search->page : HEAD); lead += HEAD) {
		uint64_t words[2], length;

		if (flmem_peek_read(search->space->peek, page + lead, words, sizeof(words)))
			return 0;
		if (words[0] != lead ||
		    (words[1] & FLMEM_GLIBC_SIZE_BITS) != FLMEM_GLIBC_IS_MMAPPED)
			continue;
		length = lead + (words[1] & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS);
		if (length % search->page == search->page - HEAD)
			length += HEAD;
		if (length && length % search->page == 0 && length <= end - page)
			return length;
	}
	return 0;
}

static void take(struct search *search, uint64_t start, uint64_t length)
{
	search->found.count++;
	search->found.bytes += length;
	search->found.resident += flmem_peek_resident(search->space->peek, start, start + length);
}

/* Blocks from the begin of the mapping on; with `deep` also those that others stand before. */
static void search_map(struct search *search, const struct flmem_map *map, bool deep)
{
	uint64_t page = map->start;

	for (unsigned i = 1; page < map->end && !has_all(search); i++) {
		uint64_t length = 0;

		if (search->deadline_ns && i % TIME_EVERY == 0 &&
		    flmem_clock_ns() >= search->deadline_ns)
			return;
		if (flmem_peek_is_resident(search->space->peek, page))
			length = block_at(search, page, map->end, page == map->start || deep);
		if (length)
			take(search, page, length);
		else if (!deep)
			return;
		page += length ? length : search->page;
	}
}

static void search_maps(struct search *search, bool deep)
{
	search->found = (struct flmem_glibc_mmapped){0};
	for (size_t i = 0; i < search->space->maps->count && !has_all(search); i++)
		if (may_hold_blocks(&search->space->maps->rows[i]))
			search_map(search, &search->space->maps->rows[i], deep);
}

void flmem_glibc_mmapped_find(const struct flmem_glibc_space *space,
			      const struct flmem_glibc_params *params, uint64_t deadline_ns,
			      struct flmem_glibc_mmapped *ret_mmapped)
{
	struct search search = {
		.space = space,
		.params = params,
		.deadline_ns = deadline_ns,
		.page = flmem_peek_page_bytes(space->peek),
	};
	struct flmem_glibc_mmapped first;

	search_maps(&search, false);
	first = search.found;
	if (params->known && !has_all(&search)) {
		search_maps(&search, true);
		if (search.found.bytes < first.bytes) /* no time was left */
			search.found = first;
	}
	*ret_mmapped = search.found;
}
