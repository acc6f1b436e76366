/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/trim.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attempt.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "ops/target/inspection.h"
#include "ops/target/target_guard.h"
#include "ops/trim/trim_parts.h"
#include "proc/status.h"
#include "remote/interrupts.h"
#include "runtimes/cpython_call.h"

#define LOADING_US 5000U /* pause between two checks of a process that is just starting */
#define OBSERVE_US 1000U /* interval of reading RSS while calls are made */
/*
 * If RSS grows by less than this while calls are made, the cause may be other than a program that
 * allocates.
 */
#define GROWTH_BYTES (UINT64_C(1) << 20)

void flmem_trim_limit_hold(bool limited)
{
	flmem_interrupts_limit_hold(limited);
}

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

struct flmem_trim_step *flmem_trim_job_step(struct flmem_trim_job *job, const char *name)
{
	static const char *const not_made = "the call was not made";
	struct flmem_trim_result *result = job->result;
	struct flmem_trim_step *step;

	if (result->step_count < FLMEM_TRIM_STEPS_MAX)
		result->step_count++;
	step = &result->steps[result->step_count - 1];
	*step = (struct flmem_trim_step){
		.name = name,
		.outcome = job->options->dry_run ? FLMEM_TRIM_PLANNED : FLMEM_TRIM_NOTHING,
		.took_us = FLMEM_UNKNOWN(not_made),
		.stopped_us = FLMEM_UNKNOWN(not_made),
		.released_bytes = FLMEM_UNKNOWN(not_made),
	};
	return step;
}

void flmem_trim_job_stopped(struct flmem_trim_job *job, uint64_t stopped_us, uint64_t inside_us)
{
	struct flmem_trim_result *result = job->result;
	uint64_t before_us = flmem_u64_or(result->stopped_us, 0);
	uint64_t whole_us = before_us + stopped_us;

	job->inside_us += inside_us;
	result->stopped_us = FLMEM_KNOWN(whole_us);
	result->overhead_us =
		FLMEM_KNOWN(whole_us > job->inside_us ? whole_us - job->inside_us : 0);
}

void flmem_trim_job_thread(struct flmem_trim_job *job, pid_t tid, const char *waited_in)
{
	struct flmem_trim_result *result = job->result;

	if (!tid)
		return;
	result->thread = tid;
	snprintf(result->thread_state, sizeof(result->thread_state), "%s",
		 waited_in ? waited_in : "");
}

void flmem_trim_job_note(struct flmem_trim_job *job, const char *text)
{
	struct flmem_trim_result *result = job->result;
	size_t used = strlen(result->note);

	if (strstr(result->note, text))
		return;
	snprintf(result->note + used, sizeof(result->note) - used, "%s%s", used ? "; " : "", text);
}

void flmem_trim_job_note_late(struct flmem_trim_job *job, uint64_t late_us)
{
	char text[128];

	if (!late_us)
		return;
	snprintf(text, sizeof(text),
		 "the borrowed thread's timeout restarts, so it may end up to %llu ms late",
		 (unsigned long long)(late_us / 1000U));
	flmem_trim_job_note(job, text);
}

static const char unread[] = "RSS could not be read";
static const char hidden[] =
	"the program took more memory while the calls were made than they returned";

static struct flmem_u64 read_rss(const struct flmem_trim_job *job)
{
	struct flmem_status status;

	if (flmem_status_read(&job->target->process, &status, NULL))
		return FLMEM_UNKNOWN("the process has ended");
	return status.rss_bytes;
}

static struct flmem_u64 released_difference(struct flmem_u64 before, struct flmem_u64 after)
{
	if (before.unknown || after.unknown)
		return FLMEM_UNKNOWN(unread);
	return FLMEM_KNOWN(before.value > after.value ? before.value - after.value : 0);
}

static enum flmem_trim_outcome outcome_of(struct flmem_u64 released)
{
	return !released.unknown && released.value ? FLMEM_TRIM_RELEASED : FLMEM_TRIM_NOTHING;
}

/* A value unknown for one part stays unknown, unless another part returned memory. */
static void add_returned(struct flmem_trim_job *job, struct flmem_u64 released)
{
	struct flmem_u64 *sum = &job->result->returned_bytes;

	if (released.unknown)
		*sum = flmem_u64_or(*sum, 0) ? *sum : released;
	else if (sum->unknown != hidden || released.value)
		*sum = FLMEM_KNOWN(flmem_u64_or(*sum, 0) + released.value);
}

static void note_lowest_rss(struct flmem_trim_rss *rss, struct flmem_u64 now)
{
	if (rss->lowest.unknown || (!now.unknown && now.value < rss->lowest.value))
		rss->lowest = now;
}

void flmem_trim_job_observe(void *context, bool running)
{
	struct flmem_trim_job *job = context;
	struct flmem_trim_rss *rss = &job->rss;
	const uint64_t now_us = flmem_clock_us();

	if (running && now_us < rss->next_us)
		return;
	if (running)
		note_lowest_rss(rss, read_rss(job));
	else
		*rss = (struct flmem_trim_rss){.before = read_rss(job),
					       .lowest = FLMEM_UNKNOWN(unread)};
	rss->next_us = now_us + OBSERVE_US;
}

void flmem_trim_job_observe_end(struct flmem_trim_job *job)
{
	note_lowest_rss(&job->rss, read_rss(job));
	job->rss.seen = true;
}

/*
 * Returns the decrease of RSS while a part made its calls. Unknown if RSS grew instead: the program
 * allocates, so that part of the release, or all of it, is hidden.
 */
static struct flmem_u64 fall_of_rss(const struct flmem_trim_rss *rss)
{
	const struct flmem_u64 fall = released_difference(rss->before, rss->lowest);

	if (rss->seen && !fall.unknown && rss->lowest.value > rss->before.value + GROWTH_BYTES)
		return FLMEM_UNKNOWN(hidden);
	return fall;
}

static enum flmem_trim_outcome outcome_of_step(struct flmem_u64 released)
{
	return released.unknown == hidden ? FLMEM_TRIM_UNMEASURED : outcome_of(released);
}

/* Sets the decrease of RSS in the steps that a part appended and whose calls were made. */
static void measure_steps(struct flmem_trim_job *job, size_t first)
{
	struct flmem_trim_result *result = job->result;
	const struct flmem_u64 released = fall_of_rss(&job->rss);
	bool together = result->step_count - first > 1, made = false;

	for (size_t i = first; i < result->step_count; i++) {
		struct flmem_trim_step *step = &result->steps[i];

		if (step->took_us.unknown)
			continue;
		made = true;
		step->released_bytes =
			together ? FLMEM_UNKNOWN("the calls of one chain are measured together")
				 : released;
		if (step->outcome == FLMEM_TRIM_NOTHING)
			step->outcome = outcome_of_step(released);
	}
	if (made)
		add_returned(job, released);
}

struct trim_part {
	const char *name; /* name of the step if the part appended none */
	bool wanted;
	int (*run)(struct flmem_trim_job *job, struct flmem_error *err);
};

/* The outcomes of all parts. */
struct part_outcomes {
	size_t done, failed;
	int code; /* code of the first part that failed */
};

/* Returns true if no later part can succeed: the process has exited or access is denied. */
static bool is_final_code(int code)
{
	return code == FLMEM_ENOPROC || code == FLMEM_EPERM;
}

/*
 * Reads the process again: the code that ran in it may have mapped memory, unmapped it or loaded
 * modules.
 */
static int renew_inspection(struct flmem_trim_job *job, struct flmem_error *err)
{
	int rc = flmem_target_inspection_renew(job->target, err);

	job->guard = (struct flmem_guard){.is_for_report = job->options->dry_run};
	if (!rc)
		flmem_target_guard_fill(&job->target->view, &job->target->allocators, &job->guard);
	return rc;
}

/* Returns true if there is only one part; the result itself then holds its outcome. */
static bool has_one_part(const struct flmem_trim_job *job)
{
	return !job->options->python && !job->options->collect && !job->options->cuda;
}

static bool malloc_is_glibc(const struct flmem_allocator_list *list)
{
	const struct flmem_allocator *found = flmem_allocators_serving(list);

	return found && found->ops->kind == FLMEM_ALLOCATOR_GLIBC;
}

/*
 * Runs the allocator part. If Python code can run but no thread is idle, the Python code calls
 * malloc_trim() itself.
 */
static int run_allocator_part(struct flmem_trim_job *job, struct flmem_error *err)
{
	struct flmem_error inside = {0};
	int rc = flmem_trim_check(job, err);

	if (rc)
		return rc;
	rc = flmem_trim_allocator(job, err);
	if (rc != FLMEM_EUNSAFE || has_one_part(job) || job->options->dry_run ||
	    !malloc_is_glibc(&job->target->allocators) || flmem_trim_check_again(job, &inside) ||
	    flmem_trim_inside(job, &inside))
		return rc;
	flmem_error_clear(err);
	return 0;
}

static void fill_failed_step(struct flmem_trim_step *step, int code, const struct flmem_error *err)
{
	step->outcome = code == FLMEM_EFAILED ? FLMEM_TRIM_FAILED : FLMEM_TRIM_REFUSED;
	snprintf(step->detail, sizeof(step->detail), "%.*s", (int)sizeof(step->detail) - 1,
		 err->message);
}

static int run_trim_part(struct flmem_trim_job *job, const struct trim_part *part,
			 struct part_outcomes *sum, struct flmem_error *err)
{
	size_t first = job->result->step_count;
	struct flmem_error own = {0};
	int rc;

	job->rss =
		(struct flmem_trim_rss){.before = read_rss(job), .lowest = FLMEM_UNKNOWN(unread)};
	rc = sum->done ? renew_inspection(job, &own) : 0;
	/*
	 * The process is already reported as not trimmed: do not touch it even if it answers now.
	 */
	if (!rc && flmem_attempt_is_lost())
		rc = flmem_error_set(&own, FLMEM_EUNSAFE, 0,
				     "a read of its memory was not answered in time");
	if (!rc)
		rc = part->run(job, &own);
	if (rc && job->result->step_count == first && !has_one_part(job))
		fill_failed_step(flmem_trim_job_step(job, part->name), rc, &own);
	if (!job->options->dry_run) {
		if (!job->rss.seen)
			note_lowest_rss(&job->rss, read_rss(job));
		measure_steps(job, first);
	}
	if (rc) {
		if (!sum->failed++) {
			sum->code = rc;
			*err = own;
		}
		return rc;
	}
	sum->done++;
	return 0;
}

static int run_trim_parts(struct flmem_trim_job *job, struct flmem_error *err)
{
	const struct trim_part parts[] = {
		{"python", job->options->python != NULL, flmem_trim_python},
		{"gc.collect", job->options->collect, flmem_trim_collect},
		{"allocator", true, run_allocator_part},
		{"cuda", job->options->cuda, flmem_trim_cuda},
	};
	struct part_outcomes sum = {0};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(parts); i++)
		if (parts[i].wanted &&
		    (is_final_code(run_trim_part(job, &parts[i], &sum, err)) || job->unfinished))
			break;
	if (!sum.failed)
		return 0;
	if (!sum.done)
		return sum.code;
	return flmem_error_prefix(err, FLMEM_EPARTLY, "partly done");
}

static enum flmem_trim_outcome outcome_of_result(const struct flmem_trim_result *result)
{
	if (result->device_bytes || outcome_of(result->released_bytes) == FLMEM_TRIM_RELEASED)
		return FLMEM_TRIM_RELEASED;
	return outcome_of_step(result->returned_bytes);
}

/*
 * Returns the growth of RSS outside of the calls: RSS after = RSS before - decrease during the
 * calls + growth.
 */
static struct flmem_u64 growth_besides(const struct flmem_trim_result *result)
{
	const struct flmem_u64 before = result->rss_before_bytes, after = result->rss_after_bytes;
	const struct flmem_u64 fell = result->returned_bytes;

	if (fell.unknown || before.unknown || after.unknown)
		return FLMEM_UNKNOWN(fell.unknown ? fell.unknown : unread);
	return released_difference(FLMEM_KNOWN(after.value + fell.value), before);
}

static void measure_result(struct flmem_trim_job *job)
{
	struct flmem_trim_result *result = job->result;

	if (job->options->settle_us)
		flmem_clock_sleep_us(job->options->settle_us);
	/* The process may have changed much during the wait for a safe moment. */
	if (has_one_part(job) && job->rss.seen && !job->rss.before.unknown)
		result->rss_before_bytes = job->rss.before;
	result->rss_after_bytes = read_rss(job);
	result->released_bytes =
		released_difference(result->rss_before_bytes, result->rss_after_bytes);
	result->taken_bytes = growth_besides(result);
	for (size_t i = 0; i < result->step_count; i++)
		result->device_bytes += result->steps[i].device_bytes;
	result->outcome = outcome_of_result(result);
}

/*
 * Waits for the libraries: in a process that has just executed its program, neither Python nor an
 * allocator is mapped yet.
 */
static int await_libraries(struct flmem_trim_job *job, struct flmem_error *err)
{
	const uint64_t start_us = flmem_clock_us();
	int rc = 0;

	while (!rc && flmem_modules_are_loading(&job->target->modules)) {
		if (flmem_clock_us() - start_us + LOADING_US > job->timeout_us)
			return flmem_error_set(err, FLMEM_EUNSAFE, 0,
					       "process %d is loading libraries, as programs do "
					       "when they start; try again",
					       (int)job->target->process.pid);
		flmem_clock_sleep_us(LOADING_US);
		rc = flmem_target_inspection_renew(job->target, err);
	}
	return rc;
}

/*
 * Explains a failure of a process that is ending: it has released its memory, so no library is
 * found in it.
 */
static int explain_missing(const struct flmem_trim_job *job, int rc, struct flmem_error *err)
{
	const struct flmem_process *process = &job->target->process;

	if (rc != FLMEM_EUNSUPPORTED || process->kernel_thread || !read_rss(job).unknown)
		return rc;
	return flmem_error_set(err, FLMEM_ENOPROC, 0, "process %d ended before it was trimmed",
			       (int)process->pid);
}

static int trim_open_process(struct flmem_trim_job *job, pid_t pid, struct flmem_error *err)
{
	int rc = flmem_target_guard_open(job->target, pid, job->options->start_time, err);

	job->result->start_time = job->target->process.start_time;
	if (!rc)
		rc = await_libraries(job, err);
	if (rc)
		return rc;
	job->guard.is_for_report = job->options->dry_run;
	flmem_target_guard_fill(&job->target->view, &job->target->allocators, &job->guard);
	job->result->rss_before_bytes = read_rss(job);
	rc = run_trim_parts(job, err);
	if (rc && rc != FLMEM_EPARTLY)
		return explain_missing(job, rc, err);
	if (job->options->dry_run)
		job->result->outcome = FLMEM_TRIM_PLANNED;
	else
		measure_result(job);
	return rc;
}

static void init_trim_result(struct flmem_trim_result *result, pid_t pid)
{
	static const char *const none = "nothing was called";

	*result = (struct flmem_trim_result){
		.pid = pid,
		.rss_before_bytes = FLMEM_UNKNOWN("not measured"),
		.rss_after_bytes = FLMEM_UNKNOWN(none),
		.released_bytes = FLMEM_UNKNOWN(none),
		.returned_bytes = FLMEM_UNKNOWN(none),
		.taken_bytes = FLMEM_UNKNOWN(none),
		.predicted_bytes = FLMEM_UNKNOWN("not predicted"),
		.stopped_us = FLMEM_UNKNOWN(none),
		.overhead_us = FLMEM_UNKNOWN(none),
	};
}

static void fill_failed_result(struct flmem_trim_result *result, int code,
			       const struct flmem_error *err)
{
	result->code = code;
	if (code != FLMEM_EPARTLY)
		result->outcome = code == FLMEM_EFAILED ? FLMEM_TRIM_FAILED : FLMEM_TRIM_REFUSED;
	snprintf(result->reason, sizeof(result->reason), "%s", err->message);
}

/*
 * One trim and all its data, allocated on the heap: if a read of the process is never answered, the
 * thread outlives the caller.
 */
struct trim_attempt {
	pid_t pid;
	struct flmem_trim_options options;
	struct flmem_trim_code code; /* owns its strings */
	struct flmem_trim_result result;
};

static void free_trim_attempt(void *context)
{
	struct trim_attempt *trim_attempt = context;

	free((char *)(uintptr_t)trim_attempt->code.name);
	free((char *)(uintptr_t)trim_attempt->code.text);
	free(trim_attempt);
}

static void cleanup_trim_attempt(struct trim_attempt **trim_attempt)
{
	if (*trim_attempt)
		free_trim_attempt(*trim_attempt);
}

static char *copy_code_text(const char *bytes, size_t length)
{
	char *copy = malloc(length + 1);

	if (!copy)
		return NULL;
	memcpy(copy, bytes, length);
	copy[length] = '\0';
	return copy;
}

static struct trim_attempt *new_trim_attempt(pid_t pid, const struct flmem_trim_options *options)
{
	FLMEM_AUTO(cleanup_trim_attempt)
	struct trim_attempt *trim_attempt = calloc(1, sizeof(*trim_attempt));
	const struct flmem_trim_code *code = options->python;

	if (!trim_attempt)
		return NULL;
	trim_attempt->pid = pid;
	trim_attempt->options = *options;
	init_trim_result(&trim_attempt->result, pid);
	if (!code)
		return FLMEM_TAKE(trim_attempt);
	trim_attempt->options.python = &trim_attempt->code;
	trim_attempt->code.length = code->length;
	trim_attempt->code.name = code->name ? strdup(code->name) : NULL;
	trim_attempt->code.text = copy_code_text(code->text, code->length);
	if ((code->name && !trim_attempt->code.name) || !trim_attempt->code.text)
		return NULL;
	return FLMEM_TAKE(trim_attempt);
}

static int run_trim_attempt(void *context, struct flmem_error *err)
{
	FLMEM_AUTO_INSPECTION struct flmem_target_inspection *target =
		flmem_target_inspection_new(err);
	struct trim_attempt *trim_attempt = context;
	const struct flmem_trim_options *options = &trim_attempt->options;
	struct flmem_trim_job job = {
		.options = options,
		.result = &trim_attempt->result,
		.target = target,
		.timeout_us =
			options->timeout_us ? options->timeout_us : FLMEM_TRIM_TIMEOUT_US_DEFAULT,
	};

	if (!target)
		return FLMEM_EFAILED;
	return flmem_process_failure(&target->process,
				     trim_open_process(&job, trim_attempt->pid, err), err);
}

/*
 * Makes one attempt. Reading comes first, so a read that is never answered happens before anything
 * is touched. If the thread is abandoned later, the target is affected as by a flmem that is killed
 * at that moment.
 */
static int attempt_trim(pid_t pid, const struct flmem_trim_options *options,
			struct flmem_trim_result *ret_result, struct flmem_error *err)
{
	const struct flmem_attempt how = {
		.run = run_trim_attempt, .release = free_trim_attempt, .subject = pid};
	FLMEM_AUTO(cleanup_trim_attempt)
	struct trim_attempt *trim_attempt = new_trim_attempt(pid, options);
	bool lost = false;
	int rc;

	if (!trim_attempt)
		return flmem_error_nomem(err, "cannot trim a process");
	rc = flmem_attempt_run(&how, trim_attempt, &lost, err);
	if (lost) {
		(void)FLMEM_TAKE(trim_attempt);
		return flmem_error_prefix(err, rc, "process %d is not touched", (int)pid);
	}
	*ret_result = trim_attempt->result;
	return rc;
}

/* Checks the code before the process is touched, and before other parts of the trim are made. */
static int check_code_size(const struct flmem_trim_code *code, struct flmem_error *err)
{
	return code ? flmem_cpython_code_check(
			      &(struct flmem_cpython_code){code->name, code->text, code->length},
			      err)
		    : 0;
}

int flmem_trim_process(pid_t pid, const struct flmem_trim_options *options,
		       struct flmem_trim_result *ret_result, struct flmem_error *err)
{
	struct flmem_error local = {0};
	int rc;

	if (!err)
		err = &local;
	flmem_error_clear(err);
	init_trim_result(ret_result, pid);
	rc = check_code_size(options->python, err);
	if (!rc)
		rc = attempt_trim(pid, options, ret_result, err);
	if (rc)
		fill_failed_result(ret_result, rc, err);
	return rc;
}
