/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/repeat.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "ops/trim/condition_check.h"
#include "proc/process.h"
#include "remote/checks/preflight.h"

/* The state of one process of the list. */
struct trim_state {
	struct flmem_process process;
	bool over;	  /* the process is no longer trimmed */
	int code;	  /* code with which trims of it were refused permanently, or 0 */
	uint64_t next_us; /* monotonic clock: earliest time of the next trim */
	uint64_t trims;
	unsigned ineffective;	     /* ineffective trims in a row */
	bool reported_waiting;	     /* it was reported that the condition does not hold */
	const char *reported_reason; /* the last reported reason why the condition is undecided */
};

struct repeat_state {
	struct flmem_repeat_options options;
	struct trim_state *trim_states;
	struct pollfd *polls; /* the stop descriptor, then the pidfd of each target */
	size_t count;
	size_t opened;
	struct flmem_trim_result *result; /* reused for each trim; too large for the stack */
	uint64_t check_us;		  /* start of the current round of checks */
};

const char *flmem_repeat_event_name(enum flmem_repeat_event_kind kind)
{
	static const char *const names[] = {
#define EVENT_NAME(name, text) text,
		FLMEM_REPEAT_EVENTS(EVENT_NAME)
#undef EVENT_NAME
	};

	return names[(size_t)kind < FLMEM_ARRAY_SIZE(names) ? kind : FLMEM_REPEAT_ENDED];
}

static void report_event(const struct repeat_state *repeat_state,
			 const struct trim_state *trim_state, enum flmem_repeat_event_kind kind,
			 const char *reason, const struct flmem_trim_result *result)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	repeat_state->options.on_event(
		&(struct flmem_repeat_event){
			.kind = kind,
			.time_us = (uint64_t)now.tv_sec * 1000000U + (uint64_t)now.tv_nsec / 1000U,
			.pid = trim_state->process.pid,
			.reason = reason,
			.result = result,
		},
		repeat_state->options.data);
}

static void end_target(const struct repeat_state *repeat_state, struct trim_state *trim_state,
		       enum flmem_repeat_event_kind kind, const char *reason,
		       const struct flmem_trim_result *result)
{
	trim_state->over = true;
	report_event(repeat_state, trim_state, kind, reason, result);
}

/* Reports once that the condition does not hold: otherwise there may be no output for hours. */
static void report_waiting(const struct repeat_state *repeat_state, struct trim_state *trim_state)
{
	char reason[96];

	if (trim_state->reported_waiting || trim_state->trims)
		return;
	trim_state->reported_waiting = true;
	snprintf(reason, sizeof(reason),
		 "the condition does not hold yet; it is checked every %.3g s",
		 (double)repeat_state->options.every_us / 1000000);
	report_event(repeat_state, trim_state, FLMEM_REPEAT_WAITING, reason, NULL);
}

static bool meets_condition(const struct repeat_state *repeat_state, struct trim_state *trim_state)
{
	const char *why;
	enum flmem_truth truth;

	if (!repeat_state->options.when)
		return true;
	truth = flmem_condition_holds(repeat_state->options.when, trim_state->process.pid,
				      repeat_state->options.trim.assume_seccomp, &why);
	if (truth == FLMEM_UNDECIDED && why != trim_state->reported_reason) {
		trim_state->reported_reason = why;
		report_event(repeat_state, trim_state, FLMEM_REPEAT_UNDECIDED, why, NULL);
	}
	if (truth == FLMEM_FALSE)
		report_waiting(repeat_state, trim_state);
	return truth == FLMEM_TRUE;
}

/*
 * Sets the time of the next trim. It counts from the start of the round of checks, so that a slow
 * trim does not cost a whole interval.
 */
static void set_next_trim(const struct repeat_state *repeat_state, struct trim_state *trim_state)
{
	uint64_t pause_us = repeat_state->options.cool_down_us;

	if (trim_state->ineffective && pause_us < repeat_state->options.every_us)
		pause_us = repeat_state->options.every_us;
	for (unsigned i = 0;
	     i < trim_state->ineffective && pause_us < FLMEM_REPEAT_COOL_DOWN_US_MAX; i++)
		pause_us *= 2;
	trim_state->next_us = repeat_state->check_us + pause_us;
}

static void record_trim(const struct repeat_state *repeat_state, struct trim_state *trim_state,
			const struct flmem_trim_result *result)
{
	const struct flmem_repeat_options *options = &repeat_state->options;
	char reason[96], count[FLMEM_TEXT_COUNTED_MAX];

	report_event(repeat_state, trim_state, FLMEM_REPEAT_TRIMMED, NULL, result);
	trim_state->trims++;
	if (!result->released_bytes.unknown &&
	    result->released_bytes.value + result->device_bytes < options->min_release_bytes)
		trim_state->ineffective++;
	else
		trim_state->ineffective = 0;
	set_next_trim(repeat_state, trim_state);
	if (trim_state->ineffective >= options->max_ineffective) {
		snprintf(reason, sizeof(reason), "%s in a row lowered RSS by almost nothing",
			 flmem_text_counted(trim_state->ineffective, "trim", count, sizeof(count)));
		end_target(repeat_state, trim_state, FLMEM_REPEAT_GIVEN_UP, reason, NULL);
	} else if (options->count && trim_state->trims >= options->count) {
		end_target(repeat_state, trim_state, FLMEM_REPEAT_DONE, NULL, NULL);
	}
}

static void trim_target(const struct repeat_state *repeat_state, struct trim_state *trim_state)
{
	struct flmem_trim_options options = repeat_state->options.trim;
	struct flmem_trim_result *result = repeat_state->result;

	options.start_time = trim_state->process.start_time;
	switch (flmem_trim_process(trim_state->process.pid, &options, result, NULL)) {
	case 0:
		record_trim(repeat_state, trim_state, result);
		break;
	case FLMEM_ENOPROC: /* reported when its pidfd becomes readable */
		break;
	case FLMEM_EUNSAFE:
		report_event(repeat_state, trim_state, FLMEM_REPEAT_REFUSED, result->reason,
			     result);
		set_next_trim(repeat_state, trim_state);
		break;
	default:
		trim_state->code = result->code;
		end_target(repeat_state, trim_state, FLMEM_REPEAT_DROPPED, result->reason, result);
	}
}

static void check_target(const struct repeat_state *repeat_state, struct trim_state *trim_state)
{
	if (trim_state->over)
		return;
	if (!flmem_process_alive(&trim_state->process))
		end_target(repeat_state, trim_state, FLMEM_REPEAT_ENDED, NULL, NULL);
	else if (repeat_state->check_us >= trim_state->next_us &&
		 meets_condition(repeat_state, trim_state))
		trim_target(repeat_state, trim_state);
}

static bool all_ended(const struct repeat_state *repeat_state)
{
	for (size_t i = 0; i < repeat_state->count; i++)
		if (!repeat_state->trim_states[i].over)
			return false;
	return true;
}

/* Waits until `until_us`. Returns true if the stop descriptor becomes readable earlier. */
static bool wait_until_next(const struct repeat_state *repeat_state, uint64_t until_us)
{
	uint64_t now_us = flmem_clock_us();

	while (now_us < until_us && !all_ended(repeat_state)) {
		const uint64_t left_us = until_us - now_us;
		const struct timespec time = {.tv_sec = (time_t)(left_us / 1000000U),
					      .tv_nsec = (long)(left_us % 1000000U) * 1000};

		for (size_t i = 0; i < repeat_state->count; i++)
			repeat_state->polls[i + 1].fd =
				repeat_state->trim_states[i].over
					? -1
					: repeat_state->trim_states[i].process.pidfd;
		if (ppoll(repeat_state->polls, repeat_state->count + 1, &time, NULL) > 0) {
			if (repeat_state->polls[0].revents)
				return true;
			for (size_t i = 0; i < repeat_state->count; i++)
				if (repeat_state->polls[i + 1].revents)
					end_target(repeat_state, &repeat_state->trim_states[i],
						   FLMEM_REPEAT_ENDED, NULL, NULL);
		}
		now_us = flmem_clock_us();
	}
	return false;
}

/* Skips rounds whose time has already passed, instead of running them late. */
static uint64_t next_check_us(uint64_t last_us, uint64_t every_us)
{
	uint64_t now_us = flmem_clock_us();

	return last_us + ((now_us - last_us) / every_us + 1) * every_us;
}

static int overall_outcome(const struct repeat_state *repeat_state, struct flmem_error *err)
{
	char count[FLMEM_TEXT_COUNTED_MAX];
	size_t dropped = 0;
	int code = 0;

	for (size_t i = 0; i < repeat_state->count; i++) {
		if (!repeat_state->trim_states[i].code)
			continue;
		dropped++;
		code = repeat_state->trim_states[i].code;
	}
	if (!dropped)
		return 0;
	return flmem_error_set(
		err, dropped < repeat_state->count ? FLMEM_EPARTLY : code, 0,
		"%zu of %s could not be trimmed", dropped,
		flmem_text_counted(repeat_state->count, "process", count, sizeof(count)));
}

static int run_checks(struct repeat_state *repeat_state, struct flmem_error *err)
{
	bool stopped = false;

	repeat_state->check_us = flmem_clock_us();
	while (!stopped) {
		for (size_t i = 0; i < repeat_state->count && !stopped; i++) {
			check_target(repeat_state, &repeat_state->trim_states[i]);
			/*
			 * A trim may take seconds, so check for a stop request before the next one.
			 */
			stopped = poll(repeat_state->polls, 1, 0) > 0;
		}
		if (stopped || all_ended(repeat_state))
			break;
		repeat_state->check_us =
			next_check_us(repeat_state->check_us, repeat_state->options.every_us);
		stopped = wait_until_next(repeat_state, repeat_state->check_us);
	}
	return overall_outcome(repeat_state, err);
}

static void clear_repeat_state(struct repeat_state *repeat_state)
{
	for (size_t i = 0; i < repeat_state->opened; i++)
		flmem_process_close(&repeat_state->trim_states[i].process);
	free(repeat_state->trim_states);
	free(repeat_state->polls);
	free(repeat_state->result);
}

/*
 * Opens a process. One with a start time existed when it was chosen, so it has exited since;
 * without a start time the PID may never have existed.
 */
static void open_target(const struct repeat_state *repeat_state, struct trim_state *trim_state,
			pid_t pid, uint64_t start_time)
{
	struct flmem_error err = {0};
	int rc = flmem_process_open(pid, &trim_state->process, &err);

	/* A zombie can be opened, but nothing of it was ever trimmed. */
	if (!rc && !start_time && !flmem_process_alive(&trim_state->process))
		rc = flmem_preflight_identity(&trim_state->process, &err);
	trim_state->process.pid = pid;
	if (rc && !start_time) {
		trim_state->code = rc;
		end_target(repeat_state, trim_state, FLMEM_REPEAT_DROPPED, err.message, NULL);
	} else if (rc || (start_time && trim_state->process.start_time != start_time)) {
		end_target(repeat_state, trim_state, FLMEM_REPEAT_ENDED, NULL, NULL);
	}
}

static void open_targets(struct repeat_state *repeat_state, const pid_t *pids,
			 const uint64_t *start_times)
{
	for (size_t i = 0; i < repeat_state->count; i++) {
		struct trim_state *trim_state = &repeat_state->trim_states[i];

		trim_state->process = (struct flmem_process)FLMEM_PROCESS_INIT;
		repeat_state->polls[i + 1].events = POLLIN;
		repeat_state->opened++;
		open_target(repeat_state, trim_state, pids[i], start_times[i]);
	}
}

static void fill_repeat_defaults(struct flmem_repeat_options *options)
{
	if (!options->every_us)
		options->every_us = FLMEM_REPEAT_EVERY_US_DEFAULT;
	if (!options->min_release_bytes)
		options->min_release_bytes = FLMEM_REPEAT_MIN_RELEASE_BYTES_DEFAULT;
	if (!options->max_ineffective)
		options->max_ineffective = FLMEM_REPEAT_MAX_INEFFECTIVE_DEFAULT;
}

int flmem_repeat(const pid_t *pids, const uint64_t *start_times, size_t count,
		 const struct flmem_repeat_options *options, struct flmem_error *err)
{
	FLMEM_AUTO(clear_repeat_state)
	struct repeat_state repeat_state = {.options = *options, .count = count};

	fill_repeat_defaults(&repeat_state.options);
	repeat_state.trim_states = calloc(count ? count : 1, sizeof(*repeat_state.trim_states));
	repeat_state.polls = calloc(count + 1, sizeof(*repeat_state.polls));
	repeat_state.result = calloc(1, sizeof(*repeat_state.result));
	if (!repeat_state.trim_states || !repeat_state.polls || !repeat_state.result)
		return flmem_error_nomem(err, "cannot allocate the list of processes");
	repeat_state.polls[0] = (struct pollfd){.fd = options->stop_fd, .events = POLLIN};
	open_targets(&repeat_state, pids, start_times);
	return run_checks(&repeat_state, err);
}
