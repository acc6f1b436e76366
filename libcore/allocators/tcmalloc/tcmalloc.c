/* SPDX-License-Identifier: Apache-2.0 */
/* Two allocators of the same name: gperftools' and google/tcmalloc, which share no code. */
#include "allocators/call_plan.h"
#include "allocators/module_search.h"
#include "allocators/release_calls.h"
#include "allocators/tcmalloc/tcmalloc_hooks.h"
#include "allocators/tcmalloc/tcmalloc_state.h"
#include "base/cleanup.h"

static bool recognise_gperftools(const struct flmem_module *module, struct flmem_allocator *found)
{
	bool named = flmem_module_defines(module, "tc_malloc") &&
		     flmem_module_defines(module, "tc_version");
	bool versioned;

	if (!named && !(flmem_module_markers(module) & FLMEM_MARKER_GPERFTOOLS))
		return false;
	versioned = flmem_module_text_after_marker(module, FLMEM_MARKER_INDEX_GPERFTOOLS,
						   "0123456789.", found->version);
	if (!named && !versioned)
		return false;
	found->variant = FLMEM_TCMALLOC_GPERFTOOLS;
	found->prefix = named ? "" : NULL;
	found->caveat = "tcmalloc releases its page heap, not the contents of its thread caches";
	found->evidence = named ? "gperftools: it defines tc_malloc and tc_version"
				: "gperftools: it holds its version; its symbols are stripped";
	return true;
}

static bool recognise_google(const struct flmem_module *module, struct flmem_allocator *found)
{
	const uint32_t both = FLMEM_MARKER_TCMALLOC | FLMEM_MARKER_TCMALLOC_MMAP;

	found->variant = FLMEM_TCMALLOC_GOOGLE;
	if (flmem_module_defines(module, "TCMallocInternalMalloc") ||
	    flmem_module_defines(module, "MallocExtension_Internal_ReleaseMemoryToSystem")) {
		found->prefix = "";
		found->evidence = "google/tcmalloc: it defines its internal functions";
		found->caveat = "google/tcmalloc releases only whole huge pages that recent demand "
				"does not need";
		return true;
	}
	if ((flmem_module_markers(module) & both) != both)
		return false;
	found->evidence = "google/tcmalloc: it holds its messages; its symbols are stripped";
	return true;
}

static bool recognise_tcmalloc(const struct flmem_view *view, const struct flmem_module *module,
			       struct flmem_allocator *ret_found)
{
	struct flmem_allocator found = {0};

	(void)view;
	if (!recognise_gperftools(module, &found) && !recognise_google(module, &found))
		return false;
	*ret_found = found;
	return true;
}

/* gperftools' call takes no argument; google's takes the largest number of bytes to release. */
static int plan_tcmalloc_trim(const struct flmem_view *view, const struct flmem_allocator *found,
			      const unsigned char *answers, struct flmem_chain *chain,
			      struct flmem_error *err)
{
	static const struct {
		const char *function, *step;
		uint64_t argument;
	} ways[] = {
		[FLMEM_TCMALLOC_GPERFTOOLS] = {"MallocExtension_ReleaseFreeMemory",
					       "ReleaseFreeMemory", 0},
		[FLMEM_TCMALLOC_GOOGLE] = {"MallocExtension_Internal_ReleaseMemoryToSystem",
					   "ReleaseMemoryToSystem", SIZE_MAX},
	};
	uint64_t function;
	int rc = flmem_call_plan_function(found, ways[found->variant].function, &function, err);

	(void)view, (void)answers;
	if (!rc)
		flmem_chain_add(chain, ways[found->variant].step, function)->args[0] =
			ways[found->variant].argument;
	return rc;
}

/*
 * Calls made by gperftools 2.x: TCMalloc_SystemRelease() with its spin locks
 * (base/spinlock_internal.cc). The calls of google's tcmalloc (hugepage-aware memory, per-processor
 * caches) have not been listed.
 */
static const struct flmem_syscall tcmalloc_call_rows[] = {
	FLMEM_CALL_MADVISE(MADV_DONTNEED),
	FLMEM_CALL_MADVISE(MADV_FREE),
	FLMEM_CALL_MUNMAP,
	FLMEM_CALL_MMAP,
	FLMEM_CALL_BRK,
	FLMEM_CALLS_LOCK,
	FLMEM_CALL_FUTEX(FUTEX_WAIT),
	FLMEM_CALL_FUTEX(FUTEX_WAKE),
	FLMEM_CALL_PLAIN(sched_yield),
	FLMEM_CALL_PLAIN(nanosleep),
	FLMEM_CALL_PLAIN(clock_nanosleep),
};

static const struct flmem_syscall_table tcmalloc_call_table = {
	.maker = "ReleaseFreeMemory",
	.rows = tcmalloc_call_rows,
	.count = FLMEM_ARRAY_SIZE(tcmalloc_call_rows),
};

static const struct flmem_syscall_table *list_tcmalloc_syscalls(const struct flmem_allocator *found)
{
	return found->variant == FLMEM_TCMALLOC_GPERFTOOLS ? &tcmalloc_call_table : NULL;
}

const struct flmem_allocator_ops flmem_allocator_tcmalloc = {
	.kind = FLMEM_ALLOCATOR_TCMALLOC,
	.files = {"tcmalloc"},
	.recognise = recognise_tcmalloc,
	.plan_trim = plan_tcmalloc_trim,
	.check_hooks = flmem_tcmalloc_check_hooks,
	.check_malloc_hooks = flmem_tcmalloc_check_malloc_hooks,
	.syscalls = list_tcmalloc_syscalls,
	.plan_state = flmem_tcmalloc_plan_state,
	.take_state = flmem_tcmalloc_take_state,
};
