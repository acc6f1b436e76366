/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/module_search.h"

static bool recognise_rpmalloc(const struct flmem_view *view, const struct flmem_module *module,
			       struct flmem_allocator *ret_found)
{
	(void)view;
	if (!flmem_module_defines(module, "rpmalloc_initialize") ||
	    !flmem_module_defines(module, "rpfree"))
		return false;
	*ret_found = (struct flmem_allocator){
		.prefix = "",
		.evidence = "it defines rpmalloc_initialize and rpfree",
	};
	return true;
}

const struct flmem_allocator_ops flmem_allocator_rpmalloc = {
	.kind = FLMEM_ALLOCATOR_RPMALLOC,
	.files = {"rpmalloc"},
	.recognise = recognise_rpmalloc,
	.unreadable_reason =
		"rpmalloc keeps statistics only in builds configured for it, and per thread",
	.trim_advice =
		"rpmalloc_thread_collect() works on the calling thread's heap only; have each "
		"thread of the program call it when it goes idle, or restart",
};
