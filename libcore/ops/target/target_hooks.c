/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/target/target_hooks.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "ops/target/target_guard.h"

#define RUNS_MAX 300U /* 4096 arenas, 15 at once */

static int query_hooks(const struct flmem_view *view, const struct flmem_allocator *found,
		       const struct flmem_borrow_options *options, uint64_t *stopped_us,
		       struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct flmem_borrow_result *run = calloc(1, sizeof(*run));
	uint64_t next = 0;

	if (!run)
		return flmem_error_nomem(err, "cannot read the hooks of the allocator");
	for (unsigned i = 0; i < RUNS_MAX; i++) {
		struct flmem_chain chain = {.timed_as_one = true};
		uint64_t at = found->ops->plan_hooks(found, next, &chain);
		int rc;

		if (!chain.count)
			return 0;
		rc = flmem_borrow_run(view, &chain, options, run, err);
		*stopped_us += run->stopped_ns / 1000U;
		if (!rc)
			rc = found->ops->take_hooks(view, found, run->data + at, &next, err);
		if (rc || !next)
			return rc;
	}
	return flmem_error_set(err, FLMEM_EFAILED, 0,
			       "the hooks of the %s of process %d could not be read to the end",
			       flmem_allocator_name(found->ops->kind), (int)view->process->pid);
}

int flmem_target_hooks_check(const struct flmem_view *view, const struct flmem_allocator *found,
			     const struct flmem_borrow_options *options, uint64_t *stopped_us,
			     struct flmem_error *err)
{
	int rc = found->ops->check_hooks ? found->ops->check_hooks(view, found, err) : 0;

	if (rc || !options || !found->ops->plan_hooks)
		return rc;
	return query_hooks(view, found, options, stopped_us, err);
}

int flmem_target_hooks_check_all(const struct flmem_view *view,
				 const struct flmem_allocator_list *list,
				 const struct flmem_borrow_options *options, uint64_t *stopped_us,
				 struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < list->count && !rc; i++)
		if (flmem_target_guard_trims(view, &list->rows[i]))
			rc = flmem_target_hooks_check(view, &list->rows[i], options, stopped_us,
						      err);
	return rc;
}

struct hooks_start {
	struct flmem_borrow_options borrow;
	struct flmem_syscall_list syscalls;
};

int flmem_target_hooks_check_start(const struct flmem_view *view,
				   const struct flmem_allocator_list *list,
				   const struct flmem_cpython_call *call, uint64_t *stopped_us,
				   struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct hooks_start *start = calloc(1, sizeof(*start));
	int rc;

	if (!start)
		return flmem_error_nomem(err, "cannot read the hooks of the allocators");
	start->borrow = (struct flmem_borrow_options){
		.timeout_us = call->timeout_us,
		.single_pass = true,
		.repeatable = true,
		.guard = *call->guard,
		.syscalls = &start->syscalls,
		.assume_seccomp = call->assume_seccomp,
	};
	flmem_target_guard_syscalls(view, list, &start->syscalls);
	rc = flmem_target_hooks_check_all(view, list, call->dry_run ? NULL : &start->borrow,
					  stopped_us, err);
	if (rc != FLMEM_EUNSAFE)
		return rc;
	flmem_error_clear(err);
	return 0;
}
