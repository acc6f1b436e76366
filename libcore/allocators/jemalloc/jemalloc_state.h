/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_JEMALLOC_JEMALLOC_STATE_H
#define FLMEM_ALLOCATORS_JEMALLOC_JEMALLOC_STATE_H

/* Operations of jemalloc that read the figures reported by mallctl. */

#include "allocators/allocator.h"

/*
 * Appends mallctl(name, out, &length, NULL, 0); `out` and `length` are offsets in the chain's data.
 */
void flmem_jemalloc_add_read(struct flmem_chain *chain, uint64_t function, const char *name,
			     uint64_t out, uint64_t length);

/*
 * Appends the queries of the state. `index` is the one that means all arenas together: 4096 from
 * 5.0 on, before that the number of arenas.
 */
uint64_t flmem_jemalloc_plan_state(const struct flmem_allocator *found, uint32_t index,
				   struct flmem_chain *chain);
void flmem_jemalloc_take_state(const struct flmem_allocator *found, const unsigned char *answers,
			       struct flmem_heap_report *ret_heap);

uint64_t flmem_jemalloc_plan_arenas(const struct flmem_allocator *found, uint64_t first,
				    struct flmem_chain *chain);
uint64_t flmem_jemalloc_take_arenas(const unsigned char *answers, uint64_t first,
				    struct flmem_heap_report *heap);

#endif
