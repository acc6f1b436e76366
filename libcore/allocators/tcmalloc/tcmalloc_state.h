/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_TCMALLOC_TCMALLOC_STATE_H
#define FLMEM_ALLOCATORS_TCMALLOC_TCMALLOC_STATE_H

/*
 * Operations plan_state and take_state of tcmalloc: read the figures that both allocators report by
 * name.
 */

#include "allocators/allocator.h"

/* Values of `variant` in struct flmem_allocator; rows of tables are in this order. */
enum flmem_tcmalloc {
	FLMEM_TCMALLOC_GPERFTOOLS,
	FLMEM_TCMALLOC_GOOGLE,
};

uint64_t flmem_tcmalloc_plan_state(const struct flmem_view *view,
				   const struct flmem_allocator *found, const unsigned char *query,
				   struct flmem_chain *chain);
void flmem_tcmalloc_take_state(const struct flmem_allocator *found, const unsigned char *answers,
			       struct flmem_heap_report *ret_heap);

#endif
