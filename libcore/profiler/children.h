/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_CHILDREN_H
#define FLMEM_PROFILER_CHILDREN_H

/*
 * The tree of all stacks with links from the root outwards; the nodes of a profile only know their
 * parents.
 */

#include <flmem/heap_profile.h>

#include "base/cleanup.h"

#define FLMEM_NODE_NONE UINT32_MAX

struct flmem_heap_children {
	/* First child, and next sibling, of each node; FLMEM_NODE_NONE: there is none. */
	uint32_t *first, *next;
};

/* Makes the links. Returns false if memory is out. */
bool flmem_heap_children_make(const struct flmem_heap_profile *profile,
			      struct flmem_heap_children *ret_children);
void flmem_heap_children_clear(struct flmem_heap_children *children);

#define FLMEM_AUTO_CHILDREN FLMEM_AUTO(flmem_heap_children_clear)

#endif
