/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/module_search.h"

/* Functions of a build outside of templates; most of snmalloc is templates without stable names. */
static const struct {
	const char *name, *prefix;
} snmalloc_symbols[] = {{"get_malloc_info_v1", ""}, {"sn_malloc", "sn_"}, {"sn_rust_alloc", "sn_"}};

static bool recognise_snmalloc(const struct flmem_view *view, const struct flmem_module *module,
			       struct flmem_allocator *ret_found)
{
	(void)view;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(snmalloc_symbols); i++) {
		if (!flmem_module_defines(module, snmalloc_symbols[i].name))
			continue;
		*ret_found = (struct flmem_allocator){
			.prefix = snmalloc_symbols[i].prefix,
			.evidence = "it defines a function that exists only in snmalloc",
		};
		return true;
	}
	if (!(flmem_module_markers(module) & FLMEM_MARKER_SNMALLOC))
		return false;
	*ret_found = (struct flmem_allocator){
		.prefix = flmem_module_exports(module, "malloc") ? "" : NULL,
		.evidence = "it holds snmalloc's messages",
	};
	return true;
}

const struct flmem_allocator_ops flmem_allocator_snmalloc = {
	.kind = FLMEM_ALLOCATOR_SNMALLOC,
	.files = {"snmalloc"},
	.recognise = recognise_snmalloc,
	.unreadable_reason = "snmalloc has no call that reports the state of its heap",
	.trim_advice =
		"snmalloc's release function is a template that few builds contain; snmalloc "
		"releases free chunks automatically; restart the process to release the rest",
};
