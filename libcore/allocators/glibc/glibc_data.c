/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_data.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define SEARCH_MAX (UINT64_C(256) << 20) /* a static program's data may have any size */

static bool search_range(struct flmem_peek *peek, uint64_t start, uint64_t end, uint64_t *words,
			 flmem_glibc_visit_piece *visit, void *context)
{
	const uint64_t page = flmem_peek_page_bytes(peek);

	while (start < end) {
		uint64_t pages = (end - start) / page, resident;
		struct flmem_glibc_piece piece = {.words = words, .address = start};

		flmem_peek_prepare(peek, start, end);
		if (pages > FLMEM_PEEK_PAGES_MAX)
			pages = FLMEM_PEEK_PAGES_MAX;
		piece.count = (size_t)(pages * page / sizeof(*words));
		if (!pages || flmem_peek_read_pages(peek, start, (size_t)pages, words, &resident))
			return false;
		if (resident && visit(context, &piece))
			return true;
		if (start + pages * page >= end)
			return false;
		start += (pages - 1) * page;
	}
	return false;
}

static bool is_data(const struct flmem_glibc_space *space, const struct flmem_map *map,
		    uint64_t after)
{
	if (!(map->flags & FLMEM_MAP_WRITE) || map->flags & FLMEM_MAP_SHARED)
		return false;
	if (map->start < space->module_end && map->end > space->module_start)
		return true;
	/* .bss, without a file, follows the mappings of the file. */
	return map->start == after && !map->inode && strcmp(map->name, "[heap]") != 0;
}

bool flmem_glibc_data_search(const struct flmem_glibc_space *space, flmem_glibc_visit_piece *visit,
			     void *context)
{
	const uint64_t page = flmem_peek_page_bytes(space->peek);
	FLMEM_AUTO_FREE uint64_t *words = malloc((size_t)(FLMEM_PEEK_PAGES_MAX * page));
	uint64_t after = space->module_end, left = SEARCH_MAX;

	for (size_t i = 0; words && i < space->maps->count && left; i++) {
		const struct flmem_map *map = &space->maps->rows[i];
		uint64_t length = map->end - map->start;

		if (!is_data(space, map, after))
			continue;
		after = map->end;
		if (length > left)
			length = left;
		left -= length;
		if (search_range(space->peek, map->start, map->start + length, words, visit,
				 context))
			return true;
	}
	return false;
}

struct flmem_glibc_range flmem_glibc_brk(const struct flmem_glibc_space *space)
{
	struct flmem_glibc_range range = {0};

	for (size_t i = 0; i < space->maps->count; i++) {
		const struct flmem_map *map = &space->maps->rows[i];

		if (strcmp(map->name, "[heap]") != 0)
			continue;
		if (range.start == range.end)
			range.start = map->start;
		range.end = map->end;
	}
	return range;
}
