/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/plan.h"
#include "allocators/probe.h"
#include "base/cleanup.h"
#include "elf/libc.h"

/*
 * malloc.c's functions lie together, the hidden ones (_int_malloc, sysmalloc) before malloc; in
 * glibc 2.36 they begin 0x40e0 bytes before it. More than that only makes flmem choose another
 * thread now and then.
 */
#define CODE_BEFORE 0x6000U
#define CODE_BEHIND 0x1000U

/*
 * malloc_trim and __libc_malloc prove nothing: the first is in every libc.so.6 whoever serves
 * malloc, and tcmalloc and mimalloc export the second.
 */
static bool probe(const struct flmem_view *view, const struct flmem_module *module,
		  struct flmem_allocator *ret_found)
{
	struct flmem_allocator found = {.prefix = ""};

	(void)view;
	if (flmem_probe_exports(module, "gnu_get_libc_version") &&
	    flmem_probe_exports(module, "__libc_start_main") &&
	    flmem_probe_exports(module, "malloc")) {
		found.evidence = "libc.so.6 exports gnu_get_libc_version and malloc";
		flmem_libc_glibc_version(flmem_module_image(module, NULL), found.version);
		*ret_found = found;
		return true;
	}
	if (!flmem_probe_is_static(module))
		return false;
	if (flmem_probe_defines(module, "_int_malloc") &&
	    flmem_probe_defines(module, "__libc_malloc")) {
		found.evidence = "the program defines _int_malloc";
	} else if (flmem_probe_markers(module) & FLMEM_MARKER_GLIBC) {
		found.evidence = "the program holds the messages of glibc's malloc";
		found.prefix = NULL;
	} else {
		return false;
	}
	*ret_found = found;
	return true;
}

static int plan_trim(const struct flmem_view *view, const struct flmem_allocator *found,
		     const unsigned char *answers, struct flmem_chain *chain,
		     struct flmem_error *err)
{
	(void)view, (void)answers;
	return flmem_plan_call(found, "malloc_trim", 0, chain, err);
}

static void guard_code(const struct flmem_allocator *found, struct flmem_guard *guard)
{
	static const char *const names[] = {"malloc",	     "free",	      "calloc",
					    "realloc",	     "memalign",      "malloc_trim",
					    "malloc_stats",  "malloc_info",   "mallopt",
					    "__libc_malloc", "posix_memalign"};
	uint64_t low = UINT64_MAX, high = 0, address;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++) {
		if (!flmem_module_symbol_any(found->module, names[i], &address))
			continue;
		low = address < low ? address : low;
		high = address > high ? address : high;
	}
	if (high)
		flmem_guard_add(guard->code, &guard->code_count, low - CODE_BEFORE,
				high + CODE_BEHIND);
}

/* The arenas' mutexes: main_arena's in libc's data, the others in mapped heaps, where every lock
 * wait is refused by its futex value alone. */
static void guard_all(const struct flmem_view *view, const struct flmem_allocator *found,
		      struct flmem_guard *guard)
{
	guard_code(found, guard);
	for (size_t i = 0; i < view->maps->count; i++) {
		const struct flmem_map *map = &view->maps->rows[i];

		if (map->end > found->module->start && map->start < found->module->end &&
		    map->flags & FLMEM_MAP_WRITE)
			flmem_guard_add(guard->locks, &guard->lock_count, map->start, map->end);
	}
}

const struct flmem_allocator_ops flmem_allocator_glibc = {
	.kind = FLMEM_ALLOCATOR_GLIBC,
	.files = {"libc.so", "libc-2."},
	.probe = probe,
	.plan_trim = plan_trim,
	.guard = guard_all,
};
