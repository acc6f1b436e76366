/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/trim.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "ops/errand.h"
#include "ops/inspection.h"
#include "ops/predict.h"
#include "proc/huge.h"
#include "proc/status.h"
#include "remote/borrow.h"

/* One trim from start to end. */
struct job {
	const struct flmem_trim_options *options;
	struct flmem_trim_result *result;
	struct flmem_error *err; /* never NULL */
	struct flmem_inspection *target;
	bool asked[FLMEM_ALLOCATORS_MAX];	/* has answers */
	uint64_t answers[FLMEM_ALLOCATORS_MAX]; /* where in the query's data */
	struct flmem_borrow_options borrow;
	struct flmem_chain chain;
};

const char *flmem_trim_outcome_name(enum flmem_trim_outcome outcome)
{
	static const char *const names[] = {
#define OUTCOME_NAME(name, text) text,
		FLMEM_TRIM_OUTCOMES(OUTCOME_NAME)
#undef OUTCOME_NAME
	};

	return (size_t)outcome < FLMEM_ARRAY_SIZE(names) ? names[outcome]
							 : names[FLMEM_TRIM_FAILED];
}

static int open_target(struct job *job, pid_t pid)
{
	int rc = flmem_errand_open(job->target, pid, job->options->start_time, job->err);

	job->result->start_time = job->target->process.start_time;
	return rc;
}

static bool is_worth_trimming(const struct flmem_allocator *found)
{
	return found->ops->plan_trim && flmem_errand_concerns(found);
}

static int nothing_to_call(const struct job *job)
{
	for (size_t i = 0; i < job->target->allocators.count; i++) {
		const struct flmem_allocator *found = &job->target->allocators.rows[i];

		if (found->ops->instead)
			return flmem_errand_refuse(&job->target->view, found, job->err);
	}
	return flmem_error_set(job->err, FLMEM_EUNSUPPORTED, 0,
			       "process %d has no allocator that flmem knows how to ask",
			       (int)job->target->process.pid);
}

/* A first chain, for allocators that have to be asked before they can be told. */
static int run_query(struct job *job, struct flmem_borrow_result *ret_answers)
{
	struct flmem_chain query = {0};

	ret_answers->complete = false;
	for (size_t i = 0; i < job->target->allocators.count; i++) {
		const struct flmem_allocator *found = &job->target->allocators.rows[i];
		size_t before = query.count;

		if (!is_worth_trimming(found) || !found->ops->plan_query)
			continue;
		job->answers[i] = found->ops->plan_query(&job->target->view, found, &query);
		job->asked[i] = query.count > before;
	}
	if (!query.count || job->options->dry_run)
		return 0;
	return flmem_borrow_run(&job->target->view, &query, &job->borrow, ret_answers, job->err);
}

static const unsigned char *answers_of(const struct job *job, size_t index,
				       const struct flmem_borrow_result *answers)
{
	return answers->complete && job->asked[index] ? answers->data + job->answers[index] : NULL;
}

static int plan(struct job *job)
{
	struct flmem_borrow_result answers;
	int rc = flmem_errand_refuse_runtimes(&job->target->view, &job->target->allocators,
					      job->err);

	if (!rc)
		rc = run_query(job, &answers);
	for (size_t i = 0; i < job->target->allocators.count && !rc; i++) {
		const struct flmem_allocator *found = &job->target->allocators.rows[i];

		if (!is_worth_trimming(found))
			continue;
		rc = found->ops->plan_trim(&job->target->view, found, answers_of(job, i, &answers),
					   &job->chain, job->err);
		/* A nameless one inside some library must not keep the others from it. */
		if (rc == FLMEM_EUNSUPPORTED && !found->serves_malloc)
			rc = 0;
	}
	if (!rc && !job->chain.count)
		rc = nothing_to_call(job);
	return rc;
}

static struct flmem_u64 read_rss(const struct job *job)
{
	struct flmem_status status;

	if (flmem_status_read(&job->target->process, &status, NULL))
		return FLMEM_UNKNOWN("the process has ended");
	return status.rss_bytes;
}

static void fill_steps(struct job *job, const struct flmem_borrow_result *run,
		       enum flmem_trim_outcome outcome)
{
	struct flmem_trim_result *result = job->result;

	for (size_t i = 0; i < job->chain.count && i < FLMEM_TRIM_STEPS_MAX; i++) {
		struct flmem_trim_step *step = &result->steps[result->step_count++];

		step->name = job->chain.calls[i].name;
		step->outcome = outcome;
		step->took_us = run->complete ? FLMEM_KNOWN(run->call_ns[i] / 1000U)
					      : FLMEM_UNKNOWN("the call was not made");
	}
}

static void fill_thread(struct flmem_trim_result *result, const struct flmem_borrow_result *run,
			size_t calls)
{
	uint64_t inside_ns = 0;

	result->thread = run->tid;
	snprintf(result->thread_state, sizeof(result->thread_state), "%s",
		 run->waited_in ? run->waited_in : "");
	if (!run->complete)
		return;
	for (size_t i = 0; i < calls; i++)
		inside_ns += run->call_ns[i];
	result->stopped_us = FLMEM_KNOWN(run->stopped_ns / 1000U);
	result->overhead_us = FLMEM_KNOWN(
		run->stopped_ns > inside_ns ? (run->stopped_ns - inside_ns) / 1000U : 0);
}

static void add_note(struct flmem_trim_result *result, const char *text)
{
	size_t used = strlen(result->note);

	snprintf(result->note + used, sizeof(result->note) - used, "%s%s", used ? "; " : "", text);
}

static void fill_note(struct job *job, const struct flmem_borrow_result *run)
{
	uint64_t rss_bytes = job->result->rss_before_bytes.value;
	struct flmem_u64 huge =
		flmem_huge_bytes(&job->target->process, &job->target->maps, rss_bytes);
	char text[128];

	for (size_t i = 0; i < job->target->allocators.count; i++)
		if (is_worth_trimming(&job->target->allocators.rows[i]) &&
		    job->target->allocators.rows[i].ops->caveat)
			add_note(job->result, job->target->allocators.rows[i].ops->caveat);
	if (!huge.unknown && huge.value)
		add_note(job->result,
			 "RSS given back from within transparent huge pages becomes free memory "
			 "only when the kernel splits them, which it does when memory is short");
	if (!run->late_us)
		return;
	snprintf(text, sizeof(text),
		 "the borrowed thread's timeout starts again, so it may end up to %llu ms late",
		 (unsigned long long)(run->late_us / 1000U));
	add_note(job->result, text);
}

static void measure(struct job *job, const struct flmem_borrow_result *run)
{
	struct flmem_trim_result *result = job->result;

	if (job->options->settle_us)
		flmem_clock_sleep_us(job->options->settle_us);
	result->rss_after_bytes = read_rss(job);
	result->outcome = FLMEM_TRIM_NOTHING;
	if (result->rss_before_bytes.unknown || result->rss_after_bytes.unknown) {
		result->released_bytes = FLMEM_UNKNOWN("RSS could not be read");
	} else {
		uint64_t before = result->rss_before_bytes.value;
		uint64_t after = result->rss_after_bytes.value;

		result->released_bytes = FLMEM_KNOWN(before > after ? before - after : 0);
		if (before > after)
			result->outcome = FLMEM_TRIM_RELEASED;
	}
	fill_steps(job, run, result->outcome);
}

static int carry_out(struct job *job)
{
	bool dry = job->options->dry_run;
	struct flmem_borrow_result run;
	int rc;

	job->result->rss_before_bytes = read_rss(job);
	rc = dry ? flmem_borrow_plan(&job->target->view, &job->borrow, &run, job->err)
		 : flmem_borrow_run(&job->target->view, &job->chain, &job->borrow, &run, job->err);
	fill_thread(job->result, &run, job->chain.count);
	if (rc)
		return rc;
	if (dry) {
		job->result->outcome = FLMEM_TRIM_PLANNED;
		fill_steps(job, &run, FLMEM_TRIM_PLANNED);
	} else {
		measure(job, &run);
	}
	fill_note(job, &run);
	return 0;
}

/* Before the trim. Asking an allocator is a stop of its own. */
static void predict(struct job *job)
{
	struct flmem_asked asked;

	job->result->predicted_bytes =
		flmem_predict(job->target, FLMEM_PREDICT_BUDGET_US,
			      job->options->dry_run ? NULL : &job->borrow, &asked);
	if (asked.tried)
		add_note(job->result, "the allocator was asked first, on a borrowed thread, what "
				      "it has to release");
}

static int work(struct job *job, pid_t pid)
{
	int rc = open_target(job, pid);

	if (rc)
		return rc;
	flmem_errand_guard(&job->target->view, &job->target->allocators, &job->borrow.guard);
	rc = plan(job);
	if (!rc && job->options->predict)
		predict(job);
	return rc ? rc : carry_out(job);
}

static void init_result(struct flmem_trim_result *result, pid_t pid)
{
	static const char *const none = "nothing was called";

	*result = (struct flmem_trim_result){
		.pid = pid,
		.rss_before_bytes = FLMEM_UNKNOWN("not measured"),
		.rss_after_bytes = FLMEM_UNKNOWN(none),
		.released_bytes = FLMEM_UNKNOWN(none),
		.predicted_bytes = FLMEM_UNKNOWN("not read beforehand"),
		.stopped_us = FLMEM_UNKNOWN(none),
		.overhead_us = FLMEM_UNKNOWN(none),
	};
}

static void fill_refusal(struct flmem_trim_result *result, int code, const struct flmem_error *err)
{
	result->code = code;
	result->outcome = code == FLMEM_EFAILED ? FLMEM_TRIM_FAILED : FLMEM_TRIM_REFUSED;
	snprintf(result->reason, sizeof(result->reason), "%s", err->message);
}

int flmem_trim_process(pid_t pid, const struct flmem_trim_options *options,
		       struct flmem_trim_result *ret_result, struct flmem_error *err)
{
	FLMEM_AUTO_INSPECTION struct flmem_inspection *target = NULL;
	FLMEM_AUTO_FREE struct job *job = calloc(1, sizeof(*job));
	struct flmem_error local = {0};
	int rc = FLMEM_EFAILED;

	if (!err)
		err = &local;
	flmem_error_clear(err);
	init_result(ret_result, pid);
	target = flmem_inspection_new(err);
	if (!job)
		flmem_error_set(err, rc, ENOMEM, "cannot trim process %d", (int)pid);
	if (job && target) {
		job->target = target;
		job->options = options;
		job->result = ret_result;
		job->err = err;
		job->borrow.timeout_us =
			options->timeout_us ? options->timeout_us : FLMEM_TRIM_TIMEOUT_US_DEFAULT;
		rc = work(job, pid);
	}
	if (rc)
		fill_refusal(ret_result, rc, err);
	return rc;
}
