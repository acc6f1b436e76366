/* SPDX-License-Identifier: Apache-2.0 */
/* Two allocators of one name: that of gperftools, and google/tcmalloc, which share no code. */
#include "allocators/probe.h"

static bool probe_gperftools(const struct flmem_module *module, struct flmem_allocator *found)
{
	bool named = flmem_probe_defines(module, "tc_malloc") &&
		     flmem_probe_defines(module, "tc_version");
	bool versioned;

	if (!named && !(flmem_probe_markers(module) & FLMEM_MARKER_GPERFTOOLS))
		return false;
	versioned = flmem_probe_text_after_marker(module, FLMEM_MARKER_INDEX_GPERFTOOLS,
						  "0123456789.", found->version);
	if (!named && !versioned)
		return false;
	found->prefix = named ? "" : NULL;
	found->evidence = named ? "gperftools: it defines tc_malloc and tc_version"
				: "gperftools: it holds its version; its names are stripped";
	return true;
}

static bool probe_google(const struct flmem_module *module, struct flmem_allocator *found)
{
	const uint32_t both = FLMEM_MARKER_TCMALLOC | FLMEM_MARKER_TCMALLOC_MMAP;

	if (flmem_probe_defines(module, "TCMallocInternalMalloc") ||
	    flmem_probe_defines(module, "MallocExtension_Internal_ReleaseMemoryToSystem")) {
		found->prefix = "";
		found->evidence = "google/tcmalloc: it defines its internal functions";
		return true;
	}
	if ((flmem_probe_markers(module) & both) != both)
		return false;
	found->evidence = "google/tcmalloc: it holds its messages; its names are stripped";
	return true;
}

static bool probe(const struct flmem_view *view, const struct flmem_module *module,
		  struct flmem_allocator *ret_found)
{
	struct flmem_allocator found = {0};

	(void)view;
	if (!probe_gperftools(module, &found) && !probe_google(module, &found))
		return false;
	*ret_found = found;
	return true;
}

const struct flmem_allocator_ops flmem_allocator_tcmalloc = {
	.kind = FLMEM_ALLOCATOR_TCMALLOC,
	.files = {"tcmalloc"},
	.probe = probe,
};
