/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/trim/trim_parts.h"

#include <stdio.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "ops/target/madv_free.h"
#include "ops/target/target_guard.h"
#include "ops/trim/predict.h"
#include "proc/huge.h"
#include "remote/borrow.h"

/* Some 3500 free blocks in pages of their own, ten times as many where pages have more. */
#define CHECK_US 20000U

/* The allocator's part of one trim. */
struct part {
	struct flmem_trim_job *job;
	const struct flmem_inspection *target;
	struct flmem_error *err;
	bool asked[FLMEM_ALLOCATORS_MAX];	/* has answers */
	uint64_t answers[FLMEM_ALLOCATORS_MAX]; /* where in the query's data */
	struct flmem_u64 lazy_bytes;		/* before the trim */
	struct flmem_borrow_options borrow;
	struct flmem_syscall_list syscalls;
	struct flmem_chain chain;
};

static int nothing_to_call(const struct part *part)
{
	for (size_t i = 0; i < part->target->allocators.count; i++) {
		const struct flmem_allocator *found = &part->target->allocators.rows[i];

		if (found->ops->instead)
			return flmem_target_guard_refuse(&part->target->view, found, part->err);
	}
	return flmem_error_set(part->err, FLMEM_EUNSUPPORTED, 0,
			       "process %d has no allocator that flmem knows how to ask",
			       (int)part->target->process.pid);
}

/* A first chain, for allocators that have to be asked before they can be told. */
static int run_query(struct part *part, struct flmem_borrow_result *ret_answers)
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

static const unsigned char *answers_of(const struct part *part, size_t index,
				       const struct flmem_borrow_result *answers)
{
	return answers->complete && part->asked[index] ? answers->data + part->answers[index]
						       : NULL;
}

static int plan(struct part *part)
{
	struct flmem_borrow_result answers;
	int rc = flmem_target_guard_refuse_runtimes(&part->target->view, &part->target->allocators,
						    part->err);

	if (!rc)
		rc = run_query(part, &answers);
	for (size_t i = 0; i < part->target->allocators.count && !rc; i++) {
		const struct flmem_allocator *found = &part->target->allocators.rows[i];

		if (!flmem_target_guard_trims(&part->target->view, found))
			continue;
		rc = found->ops->plan_trim(&part->target->view, found,
					   answers_of(part, i, &answers), &part->chain, part->err);
	}
	if (!rc && !part->chain.count)
		rc = nothing_to_call(part);
	return rc;
}

static void fill_steps(const struct part *part, const struct flmem_borrow_result *run)
{
	static const char *const not_made = "the call was not made";

	for (size_t i = 0; i < part->chain.count; i++) {
		struct flmem_trim_step *step =
			flmem_trim_job_step(part->job, part->chain.calls[i].name);

		step->took_us = run->complete ? FLMEM_KNOWN(run->call_ns[i] / 1000U)
					      : FLMEM_UNKNOWN(not_made);
		if (run->complete && part->chain.count > 1)
			step->stopped_us =
				FLMEM_UNKNOWN("the calls of one chain are stopped for together");
		else if (run->complete)
			step->stopped_us = FLMEM_KNOWN(run->stopped_ns / 1000U);
		step->thread = run->tid;
		snprintf(step->thread_state, sizeof(step->thread_state), "%s",
			 run->waited_in ? run->waited_in : "");
	}
}

static void count_time(const struct part *part, const struct flmem_borrow_result *run)
{
	uint64_t inside_ns = 0;

	for (size_t i = 0; i < part->chain.count; i++)
		inside_ns += run->call_ns[i];
	flmem_trim_job_stopped(part->job, run->stopped_ns / 1000U, inside_ns / 1000U);
}

/* What the allocator has given back without RSS falling. */
static void note_lazy(const struct part *part)
{
	const struct flmem_inspection *target = part->target;
	struct flmem_u64 after = flmem_madv_free_bytes(&target->view, &target->allocators, NULL);
	char size[FLMEM_TEXT_BYTES_MAX], text[160];

	if (part->lazy_bytes.unknown || after.unknown || after.value <= part->lazy_bytes.value)
		return;
	flmem_text_bytes(after.value - part->lazy_bytes.value, size, sizeof(size));
	snprintf(text, sizeof(text),
		 "%s was marked for the kernel, which takes it, and lowers RSS, when memory is "
		 "short",
		 size);
	flmem_trim_job_note(part->job, text);
}

static void fill_note(const struct part *part, const struct flmem_borrow_result *run)
{
	const struct flmem_inspection *target = part->target;
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
			"RSS given back from within transparent huge pages becomes free memory "
			"only when the kernel splits them, which it does when memory is short");
	if (!part->job->options->dry_run)
		note_lazy(part);
	flmem_trim_job_note_late(part->job, run->late_us);
}

int flmem_trim_check(const struct flmem_trim_job *job, struct flmem_error *err)
{
	/* Without a prediction the caller wants low latency: use the short heap check. */
	return flmem_target_guard_check(
		&job->target->view, &job->target->allocators,
		job->options->predict ? CHECK_US : FLMEM_TARGET_GUARD_QUICK_US, err);
}

/* Before the trim. Asking an allocator is a stop of its own. */
static void predict(const struct part *part)
{
	struct flmem_trim_job *job = part->job;
	struct flmem_asked asked;

	job->result->predicted_bytes =
		flmem_predict(job->target, FLMEM_PREDICT_BUDGET_US,
			      job->options->dry_run ? NULL : &part->borrow, &asked);
	if (!asked.tried)
		return;
	flmem_trim_job_stopped(job, asked.stopped_us, 0);
	flmem_trim_job_note(job, "the allocator was asked first, on a borrowed thread, what it has "
				 "to release; the time is in that of the stop");
}

int flmem_trim_allocator(struct flmem_trim_job *job, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct part *part = calloc(1, sizeof(*part));
	struct flmem_borrow_result run;
	int rc;

	if (!part)
		return flmem_error_set(err, FLMEM_EFAILED, 0, "out of memory");
	part->job = job;
	part->target = job->target;
	part->err = err;
	part->borrow.timeout_us = job->timeout_us;
	part->borrow.guard = job->guard;
	part->borrow.repeatable = true;
	part->borrow.syscalls = &part->syscalls;
	part->borrow.assume_seccomp = job->options->assume_seccomp;
	flmem_target_guard_syscalls(&part->target->view, &part->target->allocators,
				    &part->syscalls);
	rc = plan(part);
	if (rc)
		return rc;
	if (job->options->predict)
		predict(part);
	part->lazy_bytes =
		flmem_madv_free_bytes(&part->target->view, &part->target->allocators, NULL);
	rc = job->options->dry_run
		     ? flmem_borrow_plan(&part->target->view, &part->borrow, &run, err)
		     : flmem_borrow_run(&part->target->view, &part->chain, &part->borrow, &run,
					err);
	flmem_trim_job_thread(job, run.tid, run.waited_in);
	if (run.complete)
		count_time(part, &run);
	if (rc)
		return rc;
	fill_steps(part, &run);
	fill_note(part, &run);
	return 0;
}
