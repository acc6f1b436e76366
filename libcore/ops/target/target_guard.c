/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/target/target_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/image.h"
#include "elf/modules.h"
#include "proc/limits/cpu_quota.h"
#include "proc/limits/group_room.h"
#include "remote/checks/fork_checks.h"
#include "remote/checks/preflight.h"

/*
 * Limit of processor time for the check: about 3500 free blocks in separate pages, ten times as
 * many if they share pages.
 */
#define CHECK_US 20000U

/* Memory that flmem itself needs at most, its files included, and some room for the program. */
#define OWN_BYTES (UINT64_C(8) << 20)

/* Processor time that a hold may take on a slow machine, several times over. */
#define OWN_QUOTA_US 10000U

/*
 * Checks that the target's control group has room for flmem, if flmem is in it: when memory is out,
 * the kernel kills the largest process.
 */
static int check_own_room(pid_t pid, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	FLMEM_AUTO_PROCESS struct flmem_process own = FLMEM_PROCESS_INIT;
	uint64_t left;

	if (root < 0 || flmem_process_open(getpid(), &own, NULL))
		return 0;
	left = flmem_group_room_left(root, &own, false);
	if (left >= OWN_BYTES)
		return 0;
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "the control group of this flmem leaves %llu MiB (memory.max), and "
			       "flmem may take %llu MiB, for which process %d could be killed; run "
			       "it outside of that group",
			       (unsigned long long)(left >> 20),
			       (unsigned long long)(OWN_BYTES >> 20), (int)pid);
}

/* Checks that the control group of flmem gives it the processor time of a hold, with a reserve. */
static int check_own_quota(pid_t pid, struct flmem_error *err)
{
	const struct flmem_cpu_quota quota = flmem_cpu_quota_read_own();

	if (quota.least_us >= OWN_QUOTA_US)
		return 0;
	return flmem_error_set(
		err, FLMEM_EUNSAFE, 0,
		"the control group of this flmem gives it %llu us of processor time "
		"in a period (cpu.max); with less than %u us a thread of process %d "
		"could be stopped until the next one; run flmem outside of that group",
		(unsigned long long)quota.least_us, OWN_QUOTA_US, (int)pid);
}

int flmem_target_guard_open(struct flmem_target_inspection *target, pid_t pid, uint64_t start_time,
			    struct flmem_error *err)
{
	int rc = flmem_process_open(pid, &target->process, err);

	if (rc)
		return rc;
	if (start_time && start_time != target->process.start_time)
		return flmem_error_set(err, FLMEM_ENOPROC, 0,
				       "process %d has exited and its PID was reused", (int)pid);
	rc = flmem_preflight_identity(&target->process, err);
	if (!rc)
		rc = check_own_room(pid, err);
	if (!rc)
		rc = check_own_quota(pid, err);
	if (!rc)
		rc = flmem_preflight_processor(err);
	/*
	 * Pin the memory before the first read, so that the address space that is checked is the
	 * one that is written.
	 */
	if (!rc)
		rc = flmem_process_pin_memory(&target->process, err);
	if (!rc)
		rc = flmem_target_inspection_read(target, err);
	if (!rc)
		rc = flmem_preflight_rights(&target->process, &target->maps, err);
	/*
	 * A missing permission appears first as EPERM on a private file: find the gate that
	 * refuses.
	 */
	if (rc == FLMEM_EPERM)
		return flmem_preflight_explain(&target->process, -EPERM, err);
	return rc;
}

/* Guards the whole module, for an allocator in a separate library. */
static void guard_module(const struct flmem_maps *maps, const struct flmem_module *module,
			 struct flmem_guard *guard)
{
	for (size_t i = 0; i < maps->count; i++) {
		const struct flmem_map *map = &maps->rows[i];

		if (map->end <= module->start || map->start >= module->end)
			continue;
		if (map->flags & FLMEM_MAP_EXEC)
			flmem_guard_add_code(guard, map->start, map->end);
		if (map->flags & FLMEM_MAP_WRITE)
			flmem_guard_add_locks(guard, map->start, map->end);
	}
}

/*
 * One that serves malloc() was called before any library could register a handler, so that its own
 * runs last, and nothing waits while it holds its locks. Only functions of the program's
 * .preinit_array come before it. glibc takes those of its malloc() after all handlers.
 */
static bool may_fork_with_locks(const struct flmem_view *view, const struct flmem_allocator *found)
{
	const struct flmem_module *program;
	struct flmem_image *image;

	if (found->ops->kind == FLMEM_ALLOCATOR_GLIBC)
		return false;
	if (!found->serves_malloc)
		return true;
	program = flmem_modules_main(view->modules);
	image = program ? flmem_module_image(program, NULL) : NULL;
	return image && flmem_image_runs_first(image);
}

static void guard_fork(const struct flmem_view *view, const struct flmem_allocator *found,
		       struct flmem_guard *guard)
{
	if (may_fork_with_locks(view, found) && flmem_target_guard_trims(view, found) &&
	    !flmem_forks_function(view, &guard->fork))
		guard->unread = "fork(), whose handlers may hold it, is not found";
}

void flmem_target_guard_fill(const struct flmem_view *view, const struct flmem_allocator_list *list,
			     struct flmem_guard *guard)
{
	if (list->is_cut)
		guard->unread = "it has more allocators than flmem knows";
	for (size_t i = 0; i < list->count; i++) {
		const struct flmem_allocator *found = &list->rows[i];

		guard_fork(view, found, guard);
		if (found->ops->guard)
			found->ops->guard(view, found, guard);
		else if (found->linkage == FLMEM_LINKAGE_SHARED)
			guard_module(view->maps, found->module, guard);
		else if (found->ops->kind == FLMEM_ALLOCATOR_JEMALLOC &&
			 flmem_target_guard_trims(view, found))
			guard->may_join_threads = true;
	}
}

static struct flmem_guard *make_guard(const struct flmem_view *view,
				      const struct flmem_allocator_list *list, bool is_for_report)
{
	struct flmem_guard *guard = calloc(1, sizeof(*guard));

	if (!guard)
		return NULL;
	guard->is_for_report = is_for_report;
	flmem_target_guard_fill(view, list, guard);
	return guard;
}

struct flmem_guard *flmem_target_guard_new(const struct flmem_view *view,
					   const struct flmem_allocator_list *list)
{
	return make_guard(view, list, false);
}

/* Arenas are never freed: if fewer locks are found than before, they could not be read now. */
int flmem_target_guard_renew(const struct flmem_view *view, const struct flmem_allocator_list *list,
			     struct flmem_guard *guard, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct flmem_guard *now = make_guard(view, list, guard->is_for_report);

	if (!now)
		return flmem_error_nomem(err, "cannot read the locks of the allocators");
	if (now->word_count >= guard->word_count)
		*guard = *now;
	else
		guard->unread = now->unread ? now->unread : "not all of them were found again";
	return 0;
}

int flmem_target_guard_check(const struct flmem_view *view, const struct flmem_allocator_list *list,
			     bool swaps_in, struct flmem_error *err)
{
	const struct flmem_check_limits limits = {.budget_us = CHECK_US, .swaps_in = swaps_in};
	int rc = 0;

	for (size_t i = 0; i < list->count && !rc; i++) {
		const struct flmem_allocator *found = &list->rows[i];

		if (found->ops->check && flmem_target_guard_trims(view, found))
			rc = found->ops->check(view, found, &limits, err);
	}
	return rc;
}

bool flmem_target_guard_concerns(const struct flmem_allocator *found)
{
	return found->serves_malloc || found->ops->kind != FLMEM_ALLOCATOR_GLIBC;
}

bool flmem_target_guard_trims(const struct flmem_view *view, const struct flmem_allocator *found)
{
	struct flmem_chain trial = {0};

	if (!found->ops->plan_trim || !flmem_target_guard_concerns(found))
		return false;
	return found->serves_malloc ||
	       found->ops->plan_trim(view, found, NULL, &trial, NULL) != FLMEM_EUNSUPPORTED;
}

void flmem_target_guard_syscalls(const struct flmem_view *view,
				 const struct flmem_allocator_list *list,
				 struct flmem_syscall_list *syscalls)
{
	for (size_t i = 0; i < list->count; i++)
		if (flmem_target_guard_trims(view, &list->rows[i]))
			flmem_allocator_add_syscalls(&list->rows[i], syscalls);
}

int flmem_target_guard_refuse(const struct flmem_view *view, const struct flmem_allocator *found,
			      struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "process %d uses %s, which has no call that releases memory: %s",
			       (int)view->process->pid, flmem_allocator_name(found->ops->kind),
			       found->ops->trim_advice);
}

int flmem_target_guard_refuse_runtimes(const struct flmem_view *view,
				       const struct flmem_allocator_list *list,
				       struct flmem_error *err)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->rows[i].ops->is_runtime)
			return flmem_target_guard_refuse(view, &list->rows[i], err);
	return 0;
}
