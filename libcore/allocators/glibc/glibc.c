/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "allocators/call_plan.h"
#include "allocators/glibc/glibc_check.h"
#include "allocators/glibc/glibc_find.h"
#include "allocators/glibc/glibc_heap.h"
#include "allocators/module_search.h"
#include "allocators/release_calls.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "elf/image.h"
#include "elf/libc.h"
#include "elf/modules.h"
#include "proc/status.h"

/* Locked memory that is ignored: at most 1/LOCKED_LITTLE of the resident bytes. */
#define LOCKED_LITTLE 64
#define FIND_LOOKS    8U
#define FIND_PAUSE_US 1000U
#define USUAL_MAX     (UINT64_C(1) << 20) /* multiple of the usual effort */

/*
 * malloc_trim and __libc_malloc prove nothing: every libc.so.6 has the first, whichever allocator
 * serves malloc, and tcmalloc and mimalloc export the second.
 */
static bool recognise_glibc(const struct flmem_view *view, const struct flmem_module *module,
			    struct flmem_allocator *ret_found)
{
	struct flmem_allocator found = {.prefix = ""};

	(void)view;
	if (flmem_module_exports(module, "gnu_get_libc_version") &&
	    flmem_module_exports(module, "__libc_start_main") &&
	    flmem_module_exports(module, "malloc")) {
		found.evidence = "libc.so.6 exports gnu_get_libc_version and malloc";
		flmem_libc_glibc_version(flmem_module_image(module, NULL), found.version);
		*ret_found = found;
		return true;
	}
	if (!flmem_module_is_static(module))
		return false;
	if (flmem_module_defines(module, "_int_malloc") &&
	    flmem_module_defines(module, "__libc_malloc")) {
		found.evidence = "the program defines _int_malloc";
	} else if (flmem_module_markers(module) & FLMEM_MARKER_GLIBC) {
		found.evidence = "the program holds the messages of glibc's malloc";
		found.prefix = NULL;
	} else {
		return false;
	}
	*ret_found = found;
	return true;
}

static int plan_glibc_trim(const struct flmem_view *view, const struct flmem_allocator *found,
			   const unsigned char *answers, struct flmem_chain *chain,
			   struct flmem_error *err)
{
	(void)view, (void)answers;
	return flmem_call_plan_call(found, "malloc_trim", 0, chain, err);
}

static int open_space(const struct flmem_view *view, const struct flmem_allocator *found,
		      struct flmem_peek **ret_peek, struct flmem_glibc_space *ret_space,
		      struct flmem_error *err)
{
	int rc = flmem_peek_open(view->process, ret_peek, err);

	if (rc)
		return rc;
	*ret_space = (struct flmem_glibc_space){
		.peek = *ret_peek,
		.maps = view->maps,
		.module_start = found->module->start,
		.module_end = found->module->end,
		.minor = flmem_glibc_minor(found->version),
	};
	return 0;
}

/*
 * A thread that changes a list hides the arena for that moment; a swapped-out page hides the arena
 * in it.
 */
static bool find_arenas(const struct flmem_view *view, const struct flmem_allocator *found,
			bool swaps_in, struct flmem_glibc *ret_glibc, const char **ret_why)
{
	FLMEM_AUTO_PEEK struct flmem_peek *peek = NULL;
	struct flmem_glibc_space space;

	*ret_why = "access to its page map is denied";
	if (open_space(view, found, &peek, &space, NULL))
		return false;
	for (unsigned look = 0; look < FIND_LOOKS; look++) {
		if (look)
			flmem_clock_sleep_us(FIND_PAUSE_US);
		if (look && swaps_in)
			flmem_peek_swap_in(peek);
		else
			flmem_peek_forget(peek);
		if (flmem_glibc_find(&space, ret_glibc, ret_why))
			return true;
	}
	return false;
}

static bool has_swapped(const struct flmem_process *process)
{
	struct flmem_status status;

	return !flmem_status_read(process, &status, NULL) && flmem_u64_or(status.swap_bytes, 1);
}

/* malloc_trim takes the lock of each arena in turn; it is the first word of the arena. */
static void guard_arenas(const struct flmem_view *view, const struct flmem_allocator *found,
			 struct flmem_guard *guard)
{
	FLMEM_AUTO_GLIBC struct flmem_glibc glibc = {0};
	const char *why;

	if (!found->serves_malloc)
		return;
	if (!find_arenas(view, found, !guard->is_for_report, &glibc, &why)) {
		if (!guard->is_for_report || !has_swapped(view->process))
			guard->unread = why;
		return;
	}
	for (size_t i = 0; i < glibc.arena_count; i++)
		flmem_guard_add_word(guard, glibc.arenas[i]);
}

/*
 * The lock of main_arena is in libc's data. A thread that waits for an arena's lock is refused
 * because of the futex value; a static program's data also holds other locks, so it is left out.
 */
static void guard_allocator(const struct flmem_view *view, const struct flmem_allocator *found,
			    struct flmem_guard *guard)
{
	guard_arenas(view, found, guard);
	if (found->linkage == FLMEM_LINKAGE_STATIC)
		return;
	for (size_t i = 0; i < view->maps->count; i++) {
		const struct flmem_map *map = &view->maps->rows[i];

		if (map->end > found->module->start && map->start < found->module->end &&
		    map->flags & FLMEM_MAP_WRITE)
			flmem_guard_add_locks(guard, map->start, map->end);
	}
}

/* madvise(2) does not release locked memory, and which memory is locked is not checked. */
static void allow_for_locks(const struct flmem_process *process, struct flmem_heap_report *heap)
{
	struct flmem_status status;

	if (!heap->method || flmem_status_read(process, &status, NULL) ||
	    status.locked_bytes.unknown || !status.locked_bytes.value)
		return;
	if (status.locked_bytes.value <= heap->resident_bytes.value / LOCKED_LITTLE) {
		heap->error_bytes.value += status.locked_bytes.value;
		return;
	}
	heap->trimmable_bytes = FLMEM_UNKNOWN(
		"memory of the process is locked (mlock), and locked pages stay resident");
	heap->pinned_bytes = heap->trimmable_bytes;
}

/* A budget above the usual second walks larger heaps and takes more exact samples. */
static struct flmem_glibc_effort choose_effort(uint64_t budget_us)
{
	uint64_t usual = budget_us / FLMEM_DETECT_BUDGET_US_DEFAULT;

	if (usual < 1)
		usual = 1;
	if (usual > USUAL_MAX)
		usual = USUAL_MAX;
	return (struct flmem_glibc_effort){
		.budget_us = budget_us,
		.walked_max = usual * FLMEM_GLIBC_WALKED_MAX,
		.precision = usual * FLMEM_GLIBC_PRECISION,
	};
}

/* `*ret_damaged` is false where an error is returned, which means that nothing was checked. */
static int find_damage(const struct flmem_view *view, const struct flmem_allocator *found,
		       const struct flmem_check_limits *limits, bool *ret_damaged,
		       struct flmem_glibc_damage *ret_damage, struct flmem_error *err)
{
	FLMEM_AUTO_PEEK struct flmem_peek *peek = NULL;
	struct flmem_glibc_space space;
	int rc = open_space(view, found, &peek, &space, err);

	if (!rc && limits->swaps_in)
		flmem_peek_swap_in(peek);
	*ret_damaged = !rc && flmem_glibc_is_damaged(&space, limits->budget_us, FLMEM_GLIBC_CHECKS,
						     ret_damage);
	return rc;
}

/* An arena grows into memory that could not be written when the mappings were read. */
static int find_damage_now(const struct flmem_view *view, const struct flmem_allocator *found,
			   const struct flmem_check_limits *limits, bool *ret_damaged,
			   struct flmem_glibc_damage *ret_damage, struct flmem_error *err)
{
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	const struct flmem_view now = {view->process, &maps, view->modules};
	int rc = find_damage(view, found, limits, ret_damaged, ret_damage, err);

	if (rc || !*ret_damaged || !ret_damage->is_protected ||
	    flmem_maps_read(view->process, &maps, NULL))
		return rc;
	return find_damage(&now, found, limits, ret_damaged, ret_damage, err);
}

static int check_heap(const struct flmem_view *view, const struct flmem_allocator *found,
		      const struct flmem_check_limits *limits, struct flmem_error *err)
{
	struct flmem_glibc_damage damage;
	bool damaged;
	int rc = find_damage_now(view, found, limits, &damaged, &damage, err);

	if (rc || !damaged)
		return rc;
	if (damage.is_unseen)
		return flmem_error_set(
			err, FLMEM_EUNSAFE, 0,
			"the free blocks of process %d could not be checked in "
			"time, since the machine is busy or reads them back from "
			"swap, and malloc_trim would crash a damaged heap; try again",
			(int)view->process->pid);
	if (damage.is_protected)
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "process %d has protected memory of its heap (mprotect) at "
				       "0x%" PRIx64 ", where malloc_trim would crash it; try again "
				       "when it may write there",
				       (int)view->process->pid, damage.address);
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "the heap of process %d is damaged, and malloc_trim could crash it "
			       "or corrupt memory: a list of %s points to 0x%" PRIx64 ", and %s. "
			       "Some code wrote past the end of a block or into a freed block: "
			       "the program may crash by itself; restart it",
			       (int)view->process->pid, damage.list, damage.address, damage.what);
}

/*
 * Before 2.34 malloc_trim() calls __morecore, by default __default_morecore(), and
 * __after_morecore_hook (systrim() in malloc/malloc.c); never __malloc_hook and the other hooks.
 */
#define LAST_HOOKS_MINOR 33

static int check_morecore_hooks(const struct flmem_view *view, const struct flmem_allocator *found,
				struct flmem_error *err)
{
	static const char *const hooks[] = {"__after_morecore_hook", "__morecore"};
	int minor = flmem_glibc_minor(found->version);

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(hooks); i++) {
		uint64_t address, function;

		if (minor <= 0 || minor > LAST_HOOKS_MINOR ||
		    !flmem_module_symbol_any(found->module, hooks[i], &address))
			continue;
		if (flmem_process_read_memory(view->process, address, &function, sizeof(function)))
			return flmem_call_plan_refuse_unread(view, found, hooks[i], err);
		if (function && flmem_modules_find(view->modules, function) != found->module)
			return flmem_call_plan_refuse_hook(view, found, hooks[i], err);
	}
	return 0;
}

/* Libraries are not searched: the strings of large ones take milliseconds each. */
static bool program_moves_break(const struct flmem_view *view)
{
	const struct flmem_module *program = flmem_modules_main(view->modules);
	struct flmem_image *image = program ? flmem_module_image(program, NULL) : NULL;
	struct flmem_symbol symbol;

	return image && (flmem_image_find_import(image, "sbrk", &symbol) ||
			 flmem_image_find_import(image, "brk", &symbol));
}

/*
 * sbrk() takes no lock: it reads the break and then moves it. If another thread is between these
 * two steps, systrim() would release that thread's memory, or claim it. If that thread holds a lock
 * of the program under which malloc() is also called, the program itself cannot cause this race,
 * only flmem can.
 */
static int check_break(const struct flmem_view *view, struct flmem_error *err)
{
	struct flmem_status status;

	if (!program_moves_break(view) || (!flmem_status_read(view->process, &status, NULL) &&
					   !status.threads.unknown && status.threads.value == 1))
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "process %d has several threads and calls sbrk() or brk() itself, "
			       "as malloc_trim does to move the end of the heap: it could release "
			       "memory in use",
			       (int)view->process->pid);
}

/*
 * A trim threshold that is not set is raised by free() up to this value
 * (DEFAULT_MMAP_THRESHOLD_MAX, twice).
 */
#define MOVED_MAX (UINT64_C(64) << 20)

/* True also if the settings cannot be read. */
static bool keeps_all_memory(const struct flmem_view *view, const struct flmem_allocator *found)
{
	FLMEM_AUTO_PEEK struct flmem_peek *peek = NULL;
	FLMEM_AUTO_GLIBC struct flmem_glibc glibc = {0};
	struct flmem_glibc_space space;
	const char *why;

	return open_space(view, found, &peek, &space, NULL) ||
	       !flmem_glibc_find(&space, &glibc, &why) || !glibc.params.known ||
	       (glibc.params.fixed && glibc.params.trim_threshold > MOVED_MAX);
}

static int check_registered(const struct flmem_view *view, const struct flmem_allocator *found,
			    struct flmem_error *err)
{
	if (!flmem_call_plan_has_registered(view) || !keeps_all_memory(view, found))
		return 0;
	return flmem_call_plan_refuse_registered(
		view, "has set malloc() to keep freed memory (M_TRIM_THRESHOLD)", err);
}

static int check_glibc_hooks(const struct flmem_view *view, const struct flmem_allocator *found,
			     struct flmem_error *err)
{
	int rc = check_morecore_hooks(view, found, err);

	if (!rc)
		rc = check_registered(view, found, err);
	return rc ? rc : check_break(view, err);
}

static void read_glibc_heap(const struct flmem_view *view, const struct flmem_allocator *found,
			    const struct flmem_heap_limits *limits,
			    struct flmem_heap_report *ret_heap)
{
	FLMEM_AUTO_PEEK struct flmem_peek *peek = NULL;
	struct flmem_glibc_space space;
	const struct flmem_glibc_effort effort = choose_effort(limits->budget_us);

	if (open_space(view, found, &peek, &space, NULL))
		*ret_heap = FLMEM_HEAP_UNKNOWN("access to its page map is denied");
	else
		flmem_glibc_heap_read(&space, &effort, ret_heap);
	allow_for_locks(view->process, ret_heap);
}

/*
 * malloc_trim() of glibc 2.17 to 2.43: mtrim() releases whole pages of free chunks of all arenas
 * (MADV_DONTNEED), systrim() the end of the main one (brk). heap_trim() and shrink_heap(), which
 * unmap or read /proc/sys/vm/overcommit_memory, are called from free() only.
 */
static const struct flmem_syscall glibc_call_rows[] = {
	FLMEM_CALL_MADVISE(MADV_DONTNEED),
	FLMEM_CALL_BRK,
	FLMEM_CALLS_LOCK,
};

static const struct flmem_syscall_table glibc_call_table = {
	.maker = "malloc_trim",
	.rows = glibc_call_rows,
	.count = FLMEM_ARRAY_SIZE(glibc_call_rows),
};

static const struct flmem_syscall_table *list_glibc_syscalls(const struct flmem_allocator *found)
{
	(void)found;
	return &glibc_call_table;
}

const struct flmem_allocator_ops flmem_allocator_glibc = {
	.kind = FLMEM_ALLOCATOR_GLIBC,
	.files = {"libc.so", "libc-2."},
	.recognise = recognise_glibc,
	.plan_trim = plan_glibc_trim,
	.check_hooks = check_glibc_hooks,
	.syscalls = list_glibc_syscalls,
	.guard = guard_allocator,
	.check = check_heap,
	.read_heap = read_glibc_heap,
};
