/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_stretches.h"

#include <stdlib.h>

#define HEAPS_MAX  65536U /* limit of heaps of one arena: 4 TiB */
#define GROWTH_MAX ((uint64_t)4 << 30)

void flmem_glibc_stretches_clear(struct flmem_glibc_stretches *stretches)
{
	free(stretches->rows);
	*stretches = (struct flmem_glibc_stretches){0};
}

static enum flmem_glibc_walked add_stretch(struct flmem_glibc_stretches *list,
					   const struct flmem_glibc_stretch *stretch)
{
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 16;
		struct flmem_glibc_stretch *grown = reallocarray(list->rows, room, sizeof(*grown));

		if (!grown)
			return FLMEM_GLIBC_NO_MEMORY;
		list->rows = grown;
		list->room = room;
	}
	list->rows[list->count++] = *stretch;
	return FLMEM_GLIBC_WALKED;
}

static uint64_t align_up_to(uint64_t value)
{
	return (value + FLMEM_GLIBC_ALIGNMENT - 1) & ~(uint64_t)(FLMEM_GLIBC_ALIGNMENT - 1);
}

static bool read_arena_words(const struct flmem_glibc_space *space, uint64_t address,
			     uint64_t *words, size_t count)
{
	return flmem_peek_read(space->peek, address, words, count * sizeof(*words)) == 0;
}

/* Returns the end of the chunk at an arena's end, or 0. */
static uint64_t find_top_end(const struct flmem_glibc_space *space, uint64_t top)
{
	uint64_t head;

	if (top % FLMEM_GLIBC_ALIGNMENT || !read_arena_words(space, top + 8, &head, 1))
		return 0;
	head &= ~(uint64_t)FLMEM_GLIBC_SIZE_BITS;
	return head >= FLMEM_GLIBC_MIN_CHUNK && head < UINT64_MAX - top ? top + head : 0;
}

/*
 * Finds the stretch of main_arena. It grows by brk(2), and by mmap(2) when that fails; then its top
 * is in another mapping, which is assumed to hold nothing else.
 */
static enum flmem_glibc_walked find_main(const struct flmem_glibc_space *space,
					 const struct flmem_glibc *glibc, uint64_t top,
					 struct flmem_glibc_stretches *list)
{
	const struct flmem_glibc_range brk = flmem_glibc_brk(space);
	const struct flmem_map *map = flmem_maps_find(space->maps, top);
	const uint64_t begin = glibc->params.known ? glibc->params.sbrk_base : brk.start;
	struct flmem_glibc_stretch old = {
		.begin = begin, .start = align_up_to(begin), .main = true};
	struct flmem_glibc_stretch last = old;
	enum flmem_glibc_walked walked = FLMEM_GLIBC_WALKED;

	last.end = top;
	last.top_end = find_top_end(space, top);
	/* The heap may have grown since the mappings were read, beyond the last of them. */
	if (!last.top_end || last.top_end > (map ? map->end : brk.end) + GROWTH_MAX)
		return FLMEM_GLIBC_LOST;
	if (begin && top >= last.start && (!map || flmem_glibc_range_has(&brk, top)))
		return add_stretch(list, &last);
	last.begin = last.start = map ? map->start : top;
	old.end = brk.end;
	walked = add_stretch(list, &last);
	if (walked == FLMEM_GLIBC_WALKED && begin && old.end > old.start)
		walked = add_stretch(list, &old);
	return walked;
}

/* Adds one heap of an arena and sets `heap` to the one before it, or 0. */
static enum flmem_glibc_walked add_arena_heap(const struct flmem_glibc_space *space,
					      const struct flmem_glibc *glibc,
					      const struct flmem_glibc_arena *arena, uint64_t *heap,
					      struct flmem_glibc_stretches *list)
{
	struct flmem_glibc_stretch stretch = {
		.begin = *heap,
		.start = *heap + glibc->heap_info_bytes,
	};
	uint64_t info[3]; /* ar_ptr, prev, size */

	if (*heap & (glibc->heap_bytes - 1) || !read_arena_words(space, *heap, info, 3) ||
	    info[0] != arena->address || !info[2] || info[2] % flmem_peek_page_bytes(space->peek) ||
	    info[2] > glibc->heap_bytes)
		return FLMEM_GLIBC_LOST;
	if (stretch.start == arena->address)
		stretch.start += glibc->state_bytes;
	stretch.start = align_up_to(stretch.start);
	stretch.end = *heap + info[2];
	if (arena->top > *heap && arena->top < stretch.end) {
		stretch.top_end = find_top_end(space, arena->top);
		if (stretch.top_end != stretch.end)
			return FLMEM_GLIBC_LOST;
		stretch.end = arena->top;
	}
	if (stretch.start > stretch.end)
		return FLMEM_GLIBC_LOST;
	*heap = info[1];
	return add_stretch(list, &stretch);
}

/* A circular chain is detected at the next power of two (Brent). */
static enum flmem_glibc_walked find_heaps(const struct flmem_glibc_space *space,
					  const struct flmem_glibc *glibc,
					  const struct flmem_glibc_arena *arena,
					  struct flmem_glibc_stretches *list)
{
	uint64_t heap = arena->top & ~(glibc->heap_bytes - 1), seen = 0;

	for (unsigned i = 1; heap; i++) {
		enum flmem_glibc_walked walked;

		if (heap == seen || i > HEAPS_MAX)
			return FLMEM_GLIBC_LOST;
		if ((i & (i - 1)) == 0)
			seen = heap;
		walked = add_arena_heap(space, glibc, arena, &heap, list);
		if (walked != FLMEM_GLIBC_WALKED)
			return walked;
	}
	return FLMEM_GLIBC_WALKED;
}

enum flmem_glibc_walked flmem_glibc_stretches_find(const struct flmem_glibc_space *space,
						   const struct flmem_glibc *glibc, size_t index,
						   const struct flmem_glibc_arena *arena,
						   struct flmem_glibc_stretches *list)
{
	/* The initial top of an arena from which nothing was allocated. */
	const uint64_t initial_top =
		arena->address + glibc->layout->bins + (uint64_t)FLMEM_GLIBC_FROM_BINS_TOP;

	if (arena->top == initial_top)
		return FLMEM_GLIBC_WALKED;
	if (index == 0)
		return find_main(space, glibc, arena->top, list);
	return find_heaps(space, glibc, arena, list);
}
