/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/probe.h"

static bool probe(const struct flmem_view *view, const struct flmem_module *module,
		  struct flmem_allocator *ret_found)
{
	static const char *const names[] = {"get_malloc_info_v1", "sn_rust_alloc", "sn_malloc"};
	struct flmem_allocator found = {
		.prefix = "",
		.evidence = "it defines a function that only snmalloc has",
	};

	(void)view;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++) {
		if (!flmem_probe_defines(module, names[i]))
			continue;
		*ret_found = found;
		return true;
	}
	return false;
}

const struct flmem_allocator_ops flmem_allocator_snmalloc = {
	.kind = FLMEM_ALLOCATOR_SNMALLOC,
	.files = {"snmalloc"},
	.probe = probe,
	.instead = "snmalloc's release function is a template that builds seldom contain; it gives "
		   "free chunks back by itself. Restart the process to get the rest back",
};
