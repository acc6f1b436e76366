/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/children.h"

#include <stdlib.h>
#include <string.h>

void flmem_heap_children_clear(struct flmem_heap_children *children)
{
	free(children->first);
	free(children->next);
	*children = (struct flmem_heap_children){0};
}

bool flmem_heap_children_make(const struct flmem_heap_profile *profile,
			      struct flmem_heap_children *ret_children)
{
	size_t count = profile->node_count;
	struct flmem_heap_children made = {
		.first = malloc(count * sizeof(*made.first)),
		.next = malloc(count * sizeof(*made.next)),
	};

	if (!made.first || !made.next) {
		flmem_heap_children_clear(&made);
		return false;
	}
	memset(made.first, 0xff, count * sizeof(*made.first));
	memset(made.next, 0xff, count * sizeof(*made.next));
	for (size_t i = count; i-- > 1;) {
		uint32_t parent = profile->nodes[i].parent;

		made.next[i] = made.first[parent];
		made.first[parent] = (uint32_t)i;
	}
	*ret_children = made;
	return true;
}
