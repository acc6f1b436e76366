/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/module_search.h"

#include "elf/libc.h"

static bool recognise_shared_musl(const struct flmem_module *module, struct flmem_allocator *found)
{
	if (!flmem_module_exports(module, "malloc") ||
	    !flmem_module_exports(module, "__libc_start_main") ||
	    flmem_module_exports(module, "gnu_get_libc_version") ||
	    !flmem_module_has_marker(module, FLMEM_MARKER_INDEX_MUSL))
		return false;
	flmem_libc_musl_version(flmem_module_image(module, NULL), found->version);
	found->evidence = "musl: its libc exports malloc";
	if (flmem_module_has_marker(module, FLMEM_MARKER_INDEX_MUSL_NG))
		found->evidence = "musl with mallocng: its libc holds its size classes";
	else if (flmem_module_has_marker(module, FLMEM_MARKER_INDEX_MUSL_OLD))
		found->evidence = "musl with oldmalloc: its libc holds its bins";
	return true;
}

static bool recognise_static_musl(const struct flmem_module *module, struct flmem_allocator *found)
{
	bool named = flmem_module_defines(module, "__libc_malloc_impl");
	uint32_t markers = flmem_module_markers(module);

	if (!flmem_module_is_static(module))
		return false;
	if (markers & FLMEM_MARKER_MUSL_NG)
		found->evidence = "musl with mallocng: the program holds its size classes";
	else if (markers & FLMEM_MARKER_MUSL_OLD)
		found->evidence = "musl with oldmalloc: the program holds its bins";
	else if (named)
		found->evidence = "musl: the program defines __libc_malloc_impl";
	else
		return false;
	if (!named)
		found->prefix = NULL;
	return true;
}

static bool recognise_musl(const struct flmem_view *view, const struct flmem_module *module,
			   struct flmem_allocator *ret_found)
{
	struct flmem_allocator found = {.prefix = ""};

	(void)view;
	if (!recognise_shared_musl(module, &found) && !recognise_static_musl(module, &found))
		return false;
	*ret_found = found;
	return true;
}

const struct flmem_allocator_ops flmem_allocator_musl = {
	.kind = FLMEM_ALLOCATOR_MUSL,
	.files = {"ld-musl", "libc.musl", "libc.so"},
	.recognise = recognise_musl,
	.unreadable_reason = "musl keeps no statistics of its heap",
	.trim_advice = "mallocng unmaps completely free groups automatically; preload jemalloc or "
		       "mimalloc built for musl, or restart",
};
