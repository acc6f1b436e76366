/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/heap_figures.h"

#include "base/cleanup.h"

void flmem_heap_add_figure(struct flmem_heap_report *heap, const char *name, struct flmem_u64 bytes)
{
	if (heap->own_count < FLMEM_ARRAY_SIZE(heap->own))
		heap->own[heap->own_count++] = (struct flmem_figure){name, bytes};
}

bool flmem_heap_add_arena(struct flmem_arena_list *list, const struct flmem_arena_report *arena)
{
	if (list->count == FLMEM_ARRAY_SIZE(list->rows))
		return false;
	list->rows[list->count++] = *arena;
	return true;
}
