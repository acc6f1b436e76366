/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/trim/trim_parts.h"

#include <stdio.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "ops/target/madv_free.h"
#include "ops/target/target_guard.h"
#include "ops/target/target_hooks.h"
#include "ops/trim/predict.h"
#include "proc/huge_pages.h"
#include "remote/borrow.h"
#include "runtimes/cpython_waiters.h"

/* State of the allocator part of one trim. */
struct allocator_part {
	struct flmem_trim_job *job;
	const struct flmem_target_inspection *target;
	struct flmem_error *err;
	bool asked[FLMEM_ALLOCATORS_MAX]; /* for each allocator: its query has answers */
	/* For each allocator: offset of its answers in the query's data. */
	uint64_t answers[FLMEM_ALLOCATORS_MAX];
	struct flmem_u64 madv_free_bytes; /* MADV_FREE pages before the trim */
	struct flmem_borrow_options borrow;
	struct flmem_spared_threads spared;
	struct flmem_cpython_waiters waiters;
	struct flmem_syscall_list syscalls;
	struct flmem_chain chain;
};

static int refuse_empty_plan(const struct allocator_part *part)
{
	for (size_t i = 0; i < part->target->allocators.count; i++) {
		const struct flmem_allocator *found = &part->target->allocators.rows[i];

		if (found->ops->trim_advice)
			return flmem_target_guard_refuse(&part->target->view, found, part->err);
	}
	return flmem_error_set(part->err, FLMEM_EUNSUPPORTED, 0,
			       "process %d has no allocator that flmem can trim",
			       (int)part->target->process.pid);
}

/*
 * Runs a first chain of calls, for allocators whose trim call needs values that only a query
 * returns.
 */
static int run_trim_query(struct allocator_part *part, struct flmem_borrow_result *ret_answers)
{
	struct flmem_chain query = {0};

	ret_answers->complete = false;
	for (size_t i = 0; i < part->target->allocators.count; i++) {
		const struct flmem_allocator *found = &part->target->allocators.rows[i];
		size_t before = query.count;

		if (!found->ops->plan_query ||
		    !flmem_target_guard_trims(&part->target->view, found))
			continue;
		part->answers[i] = found->ops->plan_query(&part->target->view, found, &query);
		part->asked[i] = query.count > before;
	}
	if (!query.count || part->job->options->dry_run)
		return 0;
	return flmem_borrow_run(&part->target->view, &query, &part->borrow, ret_answers, part->err);
}

static const unsigned char *query_answers(const struct allocator_part *part, size_t index,
					  const struct flmem_borrow_result *answers)
{
	return answers->complete && part->asked[index] ? answers->data + part->answers[index]
						       : NULL;
}

/*
 * Notes that hooks may be hidden: a dry run makes no calls, and the hooks of some allocators are
 * found only by calls.
 */
static void note_hidden_hooks(const struct allocator_part *part)
{
	const struct flmem_target_inspection *target = part->target;
	char text[160];

	for (size_t i = 0; i < target->allocators.count; i++) {
		const struct flmem_allocator *found = &target->allocators.rows[i];

		if (!found->ops->plan_hooks || !flmem_target_guard_trims(&target->view, found))
			continue;
		snprintf(text, sizeof(text),
			 "only calls of %s show whether the program has set its hooks; the trim "
			 "makes them first, and refuses if it has",
			 flmem_allocator_name(found->ops->kind));
		flmem_trim_job_note(part->job, text);
	}
}

static int check_allocator_hooks(struct allocator_part *part)
{
	const struct flmem_target_inspection *target = part->target;
	uint64_t stopped_us = 0;
	int rc = flmem_target_hooks_check_all(&target->view, &target->allocators,
					      part->job->options->dry_run ? NULL : &part->borrow,
					      &stopped_us, part->err);

	if (stopped_us)
		flmem_trim_job_stopped(part->job, stopped_us, 0);
	return rc;
}

static int plan_trim_chain(struct allocator_part *part)
{
	struct flmem_borrow_result answers;
	int rc = flmem_target_guard_refuse_runtimes(&part->target->view, &part->target->allocators,
						    part->err);

	if (!rc)
		rc = check_allocator_hooks(part);
	if (!rc)
		rc = run_trim_query(part, &answers);
	for (size_t i = 0; i < part->target->allocators.count && !rc; i++) {
		const struct flmem_allocator *found = &part->target->allocators.rows[i];

		if (!flmem_target_guard_trims(&part->target->view, found))
			continue;
		rc = found->ops->plan_trim(&part->target->view, found,
					   query_answers(part, i, &answers), &part->chain,
					   part->err);
	}
	if (!rc && !part->chain.count)
		rc = refuse_empty_plan(part);
	return rc;
}

static void fill_allocator_steps(const struct allocator_part *part,
				 const struct flmem_borrow_result *run)
{
	static const char *const not_made = "the call was not made";

	for (size_t i = 0; i < part->chain.count; i++) {
		struct flmem_trim_step *step =
			flmem_trim_job_step(part->job, part->chain.calls[i].name);

		step->took_us = run->complete ? FLMEM_KNOWN(run->call_ns[i] / 1000U)
					      : FLMEM_UNKNOWN(not_made);
		if (run->complete && part->chain.count > 1)
			step->stopped_us = FLMEM_UNKNOWN("the calls of one chain share one stop");
		else if (run->complete)
			step->stopped_us = FLMEM_KNOWN(run->stopped_ns / 1000U);
		step->thread = run->tid;
		snprintf(step->thread_state, sizeof(step->thread_state), "%s",
			 run->waited_in ? run->waited_in : "");
	}
}

static void add_stop_time(const struct allocator_part *part, const struct flmem_borrow_result *run)
{
	uint64_t inside_ns = 0;

	for (size_t i = 0; i < part->chain.count; i++)
		inside_ns += run->call_ns[i];
	flmem_trim_job_stopped(part->job, run->stopped_ns / 1000U, inside_ns / 1000U);
}

/* Notes memory that the allocator released with MADV_FREE: RSS does not fall yet. */
static void note_madv_free(const struct allocator_part *part)
{
	const struct flmem_target_inspection *target = part->target;
	struct flmem_u64 after = flmem_madv_free_bytes(&target->view, &target->allocators, NULL);
	char size[FLMEM_TEXT_BYTES_MAX], text[160];

	if (part->madv_free_bytes.unknown || after.unknown ||
	    after.value <= part->madv_free_bytes.value)
		return;
	flmem_text_bytes(after.value - part->madv_free_bytes.value, size, sizeof(size));
	snprintf(text, sizeof(text),
		 "%s was released with MADV_FREE: the kernel reclaims it, and RSS falls, under "
		 "memory pressure",
		 size);
	flmem_trim_job_note(part->job, text);
}

static void fill_trim_note(const struct allocator_part *part, const struct flmem_borrow_result *run)
{
	const struct flmem_target_inspection *target = part->target;
	uint64_t rss_bytes = part->job->result->rss_before_bytes.value;
	struct flmem_u64 huge = flmem_huge_bytes(&target->process, &target->maps, rss_bytes);

	for (size_t i = 0; i < target->allocators.count; i++) {
		const struct flmem_allocator *found = &target->allocators.rows[i];

		if (!flmem_target_guard_trims(&target->view, found))
			continue;
		if (found->caveat)
			flmem_trim_job_note(part->job, found->caveat);
		if (found->ops->caveat)
			flmem_trim_job_note(part->job, found->ops->caveat);
	}
	if (!huge.unknown && huge.value)
		flmem_trim_job_note(
			part->job,
			"memory released inside transparent huge pages becomes free only when the "
			"kernel splits those pages, which it does under memory pressure");
	if (!part->job->options->dry_run)
		note_madv_free(part);
	flmem_trim_job_note_late(part->job, run->late_us);
	if (run->unstopped)
		flmem_trim_job_note(part->job,
				    "the thread was not stopped now, because that would restart "
				    "its timeout: what only a stopped thread shows is unknown");
}

int flmem_trim_check(struct flmem_trim_job *job, struct flmem_error *err)
{
	job->checked_us = flmem_clock_us();
	return flmem_target_guard_check(&job->target->view, &job->target->allocators,
					!job->options->dry_run, err);
}

int flmem_trim_check_again(void *context, struct flmem_error *err)
{
	struct flmem_trim_job *job = context;

	return flmem_target_hooks_recheck(&job->target->view, &job->target->allocators, &job->guard,
					  err);
}

/*
 * Predicts the release, before the trim. Querying an allocator stops the borrowed thread once more.
 * A query that fails leaves the prediction unknown, unless a thread still makes its calls.
 */
static int predict_release(const struct allocator_part *part)
{
	struct flmem_trim_job *job = part->job;
	struct flmem_query_report asked;

	job->result->predicted_bytes =
		flmem_predict(job->target, FLMEM_PREDICT_BUDGET_US,
			      job->options->dry_run ? NULL : &part->borrow, &asked);
	if (!asked.tried)
		return 0;
	flmem_trim_job_stopped(job, asked.stopped_us, 0);
	if (asked.unfinished)
		return flmem_error_set(part->err, asked.code, 0, "%s", asked.reason);
	flmem_trim_job_note(job, "the prediction came from a query on a borrowed thread; its time "
				 "is included in the stop time");
	return 0;
}

/*
 * Returns true if the calls take only locks of glibc: other allocators may hold their locks while
 * they wait for one of glibc.
 */
static bool calls_only_glibc(const struct allocator_part *part)
{
	for (size_t i = 0; i < part->target->allocators.count; i++) {
		const struct flmem_allocator *found = &part->target->allocators.rows[i];

		if (found->ops->kind != FLMEM_ALLOCATOR_GLIBC &&
		    flmem_target_guard_trims(&part->target->view, found))
			return false;
	}
	return true;
}

int flmem_trim_allocator(struct flmem_trim_job *job, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct allocator_part *part = calloc(1, sizeof(*part));
	struct flmem_borrow_result run;
	int rc;

	if (!part)
		return flmem_error_nomem(err, "cannot trim the allocator");
	part->job = job;
	part->target = job->target;
	part->err = err;
	part->borrow.timeout_us = job->timeout_us;
	part->borrow.guard = &job->guard;
	part->borrow.repeatable = true;
	part->borrow.spared = &part->spared;
	part->borrow.observe = flmem_trim_job_observe;
	part->borrow.observer = job;
	part->borrow.recheck = flmem_trim_check_again;
	part->borrow.rechecker = job;
	part->borrow.checked_us = &job->checked_us;
	part->borrow.syscalls = &part->syscalls;
	part->borrow.assume_seccomp = job->options->assume_seccomp;
	flmem_target_guard_syscalls(&part->target->view, &part->target->allocators,
				    &part->syscalls);
	rc = plan_trim_chain(part);
	if (!rc && job->options->predict)
		rc = predict_release(part);
	job->unfinished |= rc == FLMEM_EFAILED;
	if (rc)
		return rc;
	part->madv_free_bytes =
		flmem_madv_free_bytes(&part->target->view, &part->target->allocators, NULL);
	part->borrow.cancels = calls_only_glibc(part);
	if (flmem_cpython_waiters_find(&part->target->view, &part->waiters))
		part->borrow.filter = &part->waiters.filter;
	rc = job->options->dry_run
		     ? flmem_borrow_dry_run(&part->target->view, &part->borrow, &run, err)
		     : flmem_borrow_run(&part->target->view, &part->chain, &part->borrow, &run,
					err);
	job->unfinished |= rc == FLMEM_EFAILED && run.started && !run.self_restored;
	flmem_trim_job_thread(job, run.tid, run.waited_in);
	if (run.complete) {
		flmem_trim_job_observe_end(job);
		add_stop_time(part, &run);
	}
	if (rc)
		return rc;
	fill_allocator_steps(part, &run);
	fill_trim_note(part, &run);
	if (job->options->dry_run)
		note_hidden_hooks(part);
	return 0;
}
