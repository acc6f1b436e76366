/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/call_plan.h"
#include "allocators/jemalloc/jemalloc_hooks.h"
#include "allocators/jemalloc/jemalloc_state.h"
#include "allocators/module_search.h"
#include "allocators/release_calls.h"
#include "base/cleanup.h"
#include "base/text/text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#define VERSION_LEAD_MAX 24U /* enough for "5.3.0-1234" */

/* Prefixes of the public symbols, and of the environment variable, as configure creates them. */
static const struct {
	const char *symbols;
	const char *variable;
} jemalloc_prefixes[] = {{"", ""}, {"je_", "JE_"}, {"_rjem_", "_RJEM_"}};

/*
 * All three names must exist, because other libraries export some of them for programs that detect
 * jemalloc (snmalloc's shim: mallctl and mallctlbymib, which accept no name).
 */
static bool has_symbols(const struct flmem_module *module, const char *prefix)
{
	static const char *const names[] = {"mallctl", "mallctlbymib", "malloc_stats_print"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++) {
		char name[64];

		snprintf(name, sizeof(name), "%s%s", prefix, names[i]);
		if (!flmem_module_defines(module, name))
			return false;
	}
	return true;
}

static bool find_prefix(const struct flmem_module *module, const char **ret_prefix)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(jemalloc_prefixes); i++) {
		if (!has_symbols(module, jemalloc_prefixes[i].symbols))
			continue;
		*ret_prefix = jemalloc_prefixes[i].symbols;
		return true;
	}
	return false;
}

/*
 * "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c" (configure's jemalloc_version): checks
 * whether an occurrence of "-g" is in the middle of such a text.
 */
static bool copy_jemalloc_version(struct flmem_image *image, uint64_t offset, void *data)
{
	char before[VERSION_LEAD_MAX + 1] = "", after[48] = "";
	size_t start = VERSION_LEAD_MAX, dots = 0, dashes = 0, hex;
	char *version = data;

	if (offset < VERSION_LEAD_MAX ||
	    !flmem_image_read(image, offset - VERSION_LEAD_MAX, before, VERSION_LEAD_MAX) ||
	    !flmem_image_read(image, offset + 2, after, sizeof(after) - 1))
		return false;
	while (start && (isdigit((unsigned char)before[start - 1]) || before[start - 1] == '.' ||
			 before[start - 1] == '-')) {
		start--;
		dots += before[start] == '.';
		dashes += before[start] == '-';
	}
	hex = strspn(after, "0123456789abcdef");
	if (dots != 2 || dashes != 1 || !isdigit((unsigned char)before[start]) || !hex ||
	    after[hex])
		return false;
	snprintf(version, FLMEM_ALLOCATOR_VERSION_MAX, "%s-g%s", before + start, after);
	return true;
}

/*
 * Reads the version; false if the module holds none. The text "0.0.0", of sources copied without a
 * version (configure.ac), counts as unknown.
 */
static bool read_jemalloc_version(const struct flmem_module *module, struct flmem_allocator *found)
{
	struct flmem_image *image = flmem_module_image(module, NULL);

	if (!image || !flmem_image_search(image, "-g", 2, copy_jemalloc_version, found->version))
		return false;
	if (flmem_text_starts(found->version, "0.0.0-"))
		found->version[0] = '\0';
	return true;
}

/*
 * Takes the prefix from the name of jemalloc's variable: "MALLOC_CONF" has the prefix in capitals
 * before it.
 */
static bool copy_variable(struct flmem_image *image, uint64_t offset, void *data)
{
	const char **prefix = data;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(jemalloc_prefixes); i++) {
		/* The name and the NUL before it. */
		size_t length = strlen(jemalloc_prefixes[i].variable) + 1;
		char before[16];

		if (offset < length || !flmem_image_read(image, offset - length, before, length) ||
		    before[0] || memcmp(before + 1, jemalloc_prefixes[i].variable, length - 1) != 0)
			continue;
		*prefix = jemalloc_prefixes[i].symbols;
		return true;
	}
	return false;
}

static const char *find_prefix_by_variable(const struct flmem_module *module)
{
	static const char variable[] = "MALLOC_CONF";
	const char *prefix = NULL;

	flmem_image_search(flmem_module_image(module, NULL), variable, sizeof(variable),
			   copy_variable, &prefix);
	/*
	 * An empty prefix without an exported malloc means that the symbols were renamed after
	 * compiling.
	 */
	if (prefix && !*prefix && !flmem_module_is_static(module) &&
	    !flmem_module_exports(module, "malloc"))
		return NULL;
	return prefix;
}

/*
 * 4.4 and 4.5 purge with MADV_FREE if their build's C library has it (4.4.0's ChangeLog). Earlier
 * ones use MADV_DONTNEED on Linux; later ones count such pages as muzzy.
 */
static void note_release_method(struct flmem_allocator *found)
{
	static const char lazy[] = "jemalloc 4.4 and 4.5 release memory with MADV_FREE: the kernel "
				   "reclaims it, and RSS falls, under memory pressure";

	if (flmem_text_starts(found->version, "4.4.") || flmem_text_starts(found->version, "4.5."))
		found->unpredictable = lazy;
	found->leaves_pages = found->unpredictable || !found->version[0];
}

static bool recognise_jemalloc(const struct flmem_view *view, const struct flmem_module *module,
			       struct flmem_allocator *ret_found)
{
	struct flmem_allocator found = {0};

	(void)view;
	if (flmem_module_is_deep(module) && !(flmem_module_markers(module) & FLMEM_MARKER_JEMALLOC))
		return false;
	if (find_prefix(module, &found.prefix)) {
		if (!flmem_module_has_marker(module, FLMEM_MARKER_INDEX_JEMALLOC))
			return false;
		(void)read_jemalloc_version(module, &found);
		found.evidence = "it defines mallctl and holds jemalloc's messages";
	} else {
		/* A program that reads jemalloc's output may contain the message as well. */
		if (!(flmem_module_markers(module) & FLMEM_MARKER_JEMALLOC) ||
		    !read_jemalloc_version(module, &found))
			return false;
		found.prefix = find_prefix_by_variable(module);
		found.evidence =
			"it holds jemalloc's messages and version; its symbols are stripped";
	}
	note_release_method(&found);
	*ret_found = found;
	return true;
}

/* MALLCTL_ARENAS_ALL means all arenas from 5.0 on (jemalloc_macros.h). */
#define ARENAS_ALL     4096U
#define ARENAS_ALL_MIN 5

/* mallctl(name, NULL, NULL, NULL, 0) */
static void add_mallctl(struct flmem_chain *chain, const char *step, uint64_t function,
			const char *name)
{
	struct flmem_call *call = flmem_chain_add(chain, step, function);

	call->args[0] = flmem_chain_put_string(chain, name);
	call->data_args = 1U;
}

/*
 * Queries the number of arenas: as an index it means all of them, before 5.0 and still in later
 * versions.
 */
static uint64_t plan_jemalloc_query(const struct flmem_view *view,
				    const struct flmem_allocator *found, struct flmem_chain *chain)
{
	const uint64_t length = sizeof(uint32_t);
	uint64_t function, out;
	struct flmem_call *call;

	(void)view;
	if (flmem_jemalloc_major(found) >= ARENAS_ALL_MIN ||
	    flmem_call_plan_function(found, "mallctl", &function, NULL))
		return 0;
	out = flmem_chain_put(chain, NULL, sizeof(uint32_t));
	add_mallctl(chain, "arenas.narenas", function, "arenas.narenas");
	call = &chain->calls[chain->count - 1];
	call->args[1] = out;
	call->args[2] = flmem_chain_put(chain, &length, sizeof(length));
	call->data_args = 7U;
	return out;
}

static uint64_t plan_jemalloc_state(const struct flmem_view *view,
				    const struct flmem_allocator *found, const unsigned char *query,
				    struct flmem_chain *chain)
{
	uint32_t index = ARENAS_ALL;

	(void)view;
	if (query)
		memcpy(&index, query, sizeof(index));
	return flmem_jemalloc_plan_state(found, index, chain);
}

/*
 * Before 4.1 and from 5.0 on one call purges everything. In between, with purging by the ratio of
 * dirty pages, the stashed pages are counted twice, and when half of them equal the rest, the call
 * ends early (arena_stash_dirty() in src/arena.c). A second early end is rare.
 */
static unsigned count_purges(const struct flmem_allocator *found)
{
	const bool whole = flmem_jemalloc_major(found) >= ARENAS_ALL_MIN ||
			   flmem_jemalloc_major(found) == 3 ||
			   flmem_text_starts(found->version, "4.0.");

	return whole ? 1 : 3;
}

/*
 * Flushes the borrowed thread's cache first, so that its contents can be purged, too. For a thread
 * without a cache the flush fails with EFAULT, which is harmless.
 */
static int plan_jemalloc_trim(const struct flmem_view *view, const struct flmem_allocator *found,
			      const unsigned char *answers, struct flmem_chain *chain,
			      struct flmem_error *err)
{
	uint32_t index = ARENAS_ALL;
	uint64_t function;
	char name[48];
	int rc = flmem_call_plan_function(found, "mallctl", &function, err);

	(void)view;
	if (rc)
		return rc;
	if (answers)
		memcpy(&index, answers, sizeof(index));
	if (!index)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "jemalloc did not report its number of arenas");
	snprintf(name, sizeof(name), "arena.%" PRIu32 ".purge", index);
	add_mallctl(chain, "thread.tcache.flush", function, "thread.tcache.flush");
	for (unsigned i = 0; i < count_purges(found); i++)
		add_mallctl(chain, i ? "arenas.purge, again" : "arenas.purge", function, name);
	return 0;
}

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* linux/prctl.h, since 5.17 */
#endif

/* Newer than some headers that flmem is built with (asm-generic/mman-common.h, unistd.h). */
#define ADVICE_COLLAPSE	     25
#define CALL_PROCESS_MADVISE 440

/*
 * Calls made by purging (pages_purge_forced(), pages_purge_lazy()), by releasing the extents that
 * become free (unmapped without opt.retain, made inaccessible where memory is not overcommitted),
 * by new metadata, and by the advice for huge pages and core dumps. 5.3 was observed to call
 * madvise and futex only.
 */
static const struct flmem_syscall jemalloc_call_rows[] = {
	FLMEM_CALL_MADVISE(MADV_DONTNEED),
	FLMEM_CALL_MADVISE(MADV_FREE),
	FLMEM_CALL_HINT(MADV_HUGEPAGE),
	FLMEM_CALL_HINT(MADV_NOHUGEPAGE),
	FLMEM_CALL_HINT(MADV_DONTDUMP),
	FLMEM_CALL_HINT(MADV_DODUMP),
	FLMEM_CALL_HINT(ADVICE_COLLAPSE),
	FLMEM_CALL_MUNMAP,
	FLMEM_CALL_MMAP,
	FLMEM_CALL_MPROTECT,
	FLMEM_CALL_BRK,
	FLMEM_CALLS_LOCK,
	FLMEM_CALL_CLOCK,
	FLMEM_CALL_PLAIN(sched_yield),
	{SYS_prctl, "prctl", FLMEM_FAILURE_FINE, {FLMEM_ARG_IS(PR_SET_VMA)}},
	/* Used by 5.4 and later, if built in: one call for many ranges instead of madvise. */
	{CALL_PROCESS_MADVISE, "process_madvise", FLMEM_FAILURE_FINE, {{0}}},
};

static const struct flmem_syscall_table jemalloc_call_table = {
	.maker = "jemalloc",
	.rows = jemalloc_call_rows,
	.count = FLMEM_ARRAY_SIZE(jemalloc_call_rows),
};

static const struct flmem_syscall_table *list_jemalloc_syscalls(const struct flmem_allocator *found)
{
	(void)found;
	return &jemalloc_call_table;
}

const struct flmem_allocator_ops flmem_allocator_jemalloc = {
	.kind = FLMEM_ALLOCATOR_JEMALLOC,
	.files = {"jemalloc"},
	.recognise = recognise_jemalloc,
	.plan_query = plan_jemalloc_query,
	.plan_trim = plan_jemalloc_trim,
	.check_hooks = flmem_jemalloc_check_registered,
	.plan_hooks = flmem_jemalloc_plan_hooks,
	.take_hooks = flmem_jemalloc_take_hooks,
	.syscalls = list_jemalloc_syscalls,
	.plan_state = plan_jemalloc_state,
	.take_state = flmem_jemalloc_take_state,
	.plan_arenas = flmem_jemalloc_plan_arenas,
	.take_arenas = flmem_jemalloc_take_arenas,
};
