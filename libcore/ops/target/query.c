/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/target/query.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "ops/target/target_guard.h"
#include "ops/target/target_hooks.h"

static const char has_no_name[] =
	"this build has no symbols for its functions, or a call of them is refused";
static const char unasked[] = "only the allocator itself can report its state: use --ask-runtime";
static const char nameless[] = "this build is stripped: its functions have no symbols";
static const char closed[] = "flmem cannot read the heap of this allocator from outside";
static const char was_refused[] = "the allocator could not be queried now";

/* Returns true for an allocator that can be queried and that the process uses. */
static bool can_be_asked(const struct flmem_allocator *found)
{
	return found->ops->plan_state && flmem_target_guard_concerns(found);
}

const char *flmem_query_why_closed(const struct flmem_allocator *found, bool answers)
{
	if (found->ops->read_heap)
		return NULL;
	if (found->ops->plan_state)
		return answers ? unasked : nameless;
	return found->ops->unreadable_reason ? found->ops->unreadable_reason : closed;
}

static void add_query_run(struct flmem_query_report *asked, const struct flmem_borrow_result *run)
{
	asked->thread = run->tid;
	asked->stopped_us += run->stopped_ns / 1000U;
	asked->unfinished |= run->started && !run->complete && !run->self_restored;
}

bool flmem_query_must_end(const struct flmem_query_report *asked)
{
	return asked->unfinished || asked->code == FLMEM_EFAILED;
}

void flmem_query_set_failure(struct flmem_query_report *asked, int code,
			     const struct flmem_error *err)
{
	asked->code = code;
	snprintf(asked->reason, sizeof(asked->reason), "%s", err->message);
}

/* Runs the query that the state query depends on, if there is one; *ret_query is then not NULL. */
static int run_first_query(const struct flmem_view *view, const struct flmem_allocator *found,
			   const struct flmem_borrow_options *options,
			   struct flmem_borrow_result *run, const unsigned char **ret_query,
			   struct flmem_error *err)
{
	struct flmem_chain chain = {0};
	uint64_t at;
	int rc;

	if (!found->ops->plan_query)
		return 0;
	at = found->ops->plan_query(view, found, &chain);
	if (!chain.count)
		return 0;
	rc = flmem_borrow_run(view, &chain, options, run, err);
	if (!rc)
		*ret_query = run->data + at;
	return rc;
}

int flmem_query_allocator(const struct flmem_view *view, const struct flmem_allocator *found,
			  const struct flmem_borrow_options *options,
			  struct flmem_heap_report *ret_heap, struct flmem_query_report *asked,
			  struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct flmem_borrow_result *runs = calloc(2, sizeof(*runs));
	struct flmem_chain chain = {.timed_as_one = true};
	const unsigned char *query = NULL;
	uint64_t at;
	int rc;

	if (!runs)
		return flmem_error_nomem(err, "cannot query the allocator");
	rc = run_first_query(view, found, options, &runs[0], &query, err);
	add_query_run(asked, &runs[0]);
	if (rc)
		return rc;
	at = found->ops->plan_state(view, found, query, &chain);
	if (!chain.count)
		return flmem_error_set(
			err, FLMEM_EUNSUPPORTED, 0,
			"the %s of process %d has no symbol of a function that reports its state",
			flmem_allocator_name(found->ops->kind), (int)view->process->pid);
	rc = flmem_borrow_run(view, &chain, options, &runs[1], err);
	add_query_run(asked, &runs[1]);
	if (!rc)
		found->ops->take_state(found, runs[1].data + at, ret_heap);
	return rc;
}

#define ARENA_RUNS_MAX 16 /* chains for the arenas of one allocator */

/*
 * If the arenas cannot be queried, the answers about the whole allocator remain valid; calls that
 * have not ended are a failure.
 */
static void query_arenas(const struct flmem_view *view, const struct flmem_allocator *found,
			 const struct flmem_borrow_options *options, struct flmem_heap_report *heap,
			 struct flmem_query_report *asked)
{
	FLMEM_AUTO_FREE struct flmem_borrow_result *run = calloc(1, sizeof(*run));
	struct flmem_error err = {0};
	uint64_t at, next = 0;

	for (unsigned i = 0; i < ARENA_RUNS_MAX && run; i++) {
		struct flmem_chain chain = {.timed_as_one = true};
		int rc;

		at = found->ops->plan_arenas(found, next, &chain);
		rc = flmem_borrow_run(view, &chain, options, run, &err);
		add_query_run(asked, run);
		if (asked->unfinished)
			flmem_query_set_failure(asked, rc, &err);
		if (rc) {
			heap->arena_list = (struct flmem_arena_list){.unknown = was_refused};
			return;
		}
		next = found->ops->take_arenas(run->data + at, next, heap);
		if (!next)
			return;
	}
}

void flmem_query_all(const struct flmem_view *view, const struct flmem_allocator_list *list,
		     const struct flmem_borrow_options *how, struct flmem_allocator_report *reports,
		     struct flmem_query_report *ret_asked)
{
	FLMEM_AUTO_FREE struct flmem_guard *guard = flmem_target_guard_new(view, list);
	struct flmem_borrow_options options = {.timeout_us = how->timeout_us,
					       .guard = guard,
					       .assume_seccomp = how->assume_seccomp,
					       .repeatable = true};
	struct flmem_query_report asked = {0};
	struct flmem_error err = {0};
	int refused = flmem_target_guard_refuse_runtimes(view, list, &err);

	if (!guard && !refused)
		refused = flmem_error_nomem(&err, "cannot query an allocator");
	for (size_t i = 0; i < list->count; i++) {
		struct flmem_syscall_list syscalls = {0};
		const char *why;
		int rc = refused;

		if (!can_be_asked(&list->rows[i]))
			continue;
		if (flmem_query_must_end(&asked)) {
			reports[i].heap = FLMEM_HEAP_UNKNOWN(was_refused);
			continue;
		}
		asked.tried = true;
		flmem_allocator_add_syscalls(&list->rows[i], &syscalls);
		options.syscalls = &syscalls;
		if (!rc)
			rc = flmem_target_hooks_check(view, list, &list->rows[i], &options,
						      &asked.stopped_us, &err);
		if (!rc)
			rc = flmem_query_allocator(view, &list->rows[i], &options, &reports[i].heap,
						   &asked, &err);
		if (!rc) {
			if (list->rows[i].ops->plan_arenas && !reports[i].heap.arena_list.unknown)
				query_arenas(view, &list->rows[i], &options, &reports[i].heap,
					     &asked);
			continue;
		}
		why = rc == FLMEM_EUNSUPPORTED ? has_no_name : was_refused;
		reports[i].heap = FLMEM_HEAP_UNKNOWN(why);
		/*
		 * A stripped allocator inside some library does not make the query of the others
		 * fail.
		 */
		if (rc != FLMEM_EUNSUPPORTED || list->rows[i].serves_malloc)
			flmem_query_set_failure(&asked, rc, &err);
	}
	*ret_asked = asked;
}
