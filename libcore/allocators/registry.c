/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/allocator.h"

#include "base/cleanup.h"

extern const struct flmem_allocator_ops flmem_allocator_glibc;

/* The order of probing: glibc last, since it is mapped in nearly every process. */
const struct flmem_allocator_ops *const flmem_allocators[] = {
	&flmem_allocator_glibc,
	NULL,
};

static void probe_module(const struct flmem_view *view, const struct flmem_module *module,
			 struct flmem_allocator_list *list)
{
	for (const struct flmem_allocator_ops *const *ops = flmem_allocators; *ops; ops++) {
		struct flmem_allocator *row = &list->rows[list->count];

		if (list->count == FLMEM_ARRAY_SIZE(list->rows))
			return;
		*row = (struct flmem_allocator){0};
		if (!(*ops)->probe(view, module, row))
			continue;
		row->ops = *ops;
		row->module = module;
		list->count++;
	}
}

void flmem_allocators_find(const struct flmem_view *view, struct flmem_allocator_list *ret_list)
{
	const struct flmem_module *owner = flmem_modules_lookup(view->modules, "malloc", NULL);

	*ret_list = (struct flmem_allocator_list){0};
	for (size_t i = 0; i < view->modules->count; i++)
		probe_module(view, &view->modules->rows[i], ret_list);
	for (size_t i = 0; i < ret_list->count; i++)
		ret_list->rows[i].serves_malloc = ret_list->rows[i].module == owner;
}
