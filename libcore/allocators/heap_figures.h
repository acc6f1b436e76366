/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_HEAP_FIGURES_H
#define FLMEM_ALLOCATORS_HEAP_FIGURES_H

/* Fills the report of a heap; entries that exceed its fixed lists are dropped. */

#include "allocators/allocator.h"

/* Adds a figure under the allocator's name for it (static). */
void flmem_heap_add_figure(struct flmem_heap_report *heap, const char *name,
			   struct flmem_u64 bytes);

/* Adds an arena to a known list; false when the list is full. */
bool flmem_heap_add_arena(struct flmem_arena_list *list, const struct flmem_arena_report *arena);

#endif
