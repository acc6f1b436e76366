/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watch/auto_trim.h"

#include <stdio.h>

#include <flmem/repeat.h>
#include <flmem/text.h>

#include "base/cleanup.h"
#include "ops/watch/forecast_state.h"
#include "ops/watch/trim_queue.h"
#include "series/policy.h"

#define CHECK_US	30000000U
#define EVERY_ON_CLIENT 1U
#define EVERY_ON_SERVER 5U

struct flmem_auto {
	struct flmem_watch_auto options;
	uint64_t check_us;
	struct flmem_condition *fallback; /* condition for processes without known rounds */
	struct flmem_trim_queue *queue;
};

/* The automatic trims of one process. */
struct flmem_trim_state {
	struct flmem_policy policy;
	bool busy;		      /* a trim is queued or running */
	bool dropped;		      /* the process is no longer trimmed */
	bool under_pressure;	      /* memory pressure at the last tick */
	const char *undecided_reason; /* the reason that was reported last */
	struct flmem_u64 round;	      /* the last round that ended */
};

static void fill_auto_defaults(struct flmem_auto *a)
{
	struct flmem_watch_auto *o = &a->options;

	if (!o->trim.timeout_us)
		o->trim.timeout_us = FLMEM_WATCH_TRIM_TIMEOUT_US_DEFAULT;
	a->check_us = o->cool_down_us ? o->cool_down_us : CHECK_US;
	if (!o->cool_down_us)
		o->cool_down_us = FLMEM_WATCH_COOL_DOWN_US_DEFAULT;
	if (!o->min_release_bytes)
		o->min_release_bytes = FLMEM_REPEAT_MIN_RELEASE_BYTES_DEFAULT;
	if (!o->max_ineffective)
		o->max_ineffective = FLMEM_REPEAT_MAX_INEFFECTIVE_DEFAULT;
}

int flmem_auto_open(const struct flmem_watch_auto *options, struct flmem_auto **ret_auto,
		    struct flmem_error *err)
{
	struct flmem_auto *a = calloc(1, sizeof(*a));
	int rc = 0;

	if (a) {
		a->options = *options;
		fill_auto_defaults(a);
		a->queue = flmem_trim_queue_new();
		rc = flmem_condition_parse(FLMEM_WATCH_WHEN_DEFAULT, &a->fallback, err);
	}
	if (a && a->queue && !rc) {
		*ret_auto = a;
		return 0;
	}
	flmem_auto_free(a);
	return rc ? rc : flmem_error_nomem(err, "cannot prepare trims");
}

void flmem_auto_free(struct flmem_auto *automatic)
{
	if (!automatic)
		return;
	flmem_trim_queue_free(automatic->queue);
	flmem_condition_free(automatic->fallback);
	free(automatic);
}

static struct flmem_trim_state *target_of(const struct flmem_auto *a,
					  struct flmem_watched_process *watched)
{
	const struct flmem_watch_auto *o = &a->options;
	const struct flmem_policy_rules rules = {
		.every_rounds = o->every_rounds				 ? o->every_rounds
				: flmem_role_is_server(watched->id.role) ? EVERY_ON_SERVER
									 : EVERY_ON_CLIENT,
		.fixed = o->every_rounds != 0,
		.cool_down_us = o->cool_down_us,
		.check_us = a->check_us,
		.min_release_bytes = o->min_release_bytes,
		.max_ineffective = o->max_ineffective,
	};

	if (watched->trim_state)
		return watched->trim_state;
	watched->trim_state = calloc(1, sizeof(*watched->trim_state));
	if (watched->trim_state) {
		flmem_policy_init(&watched->trim_state->policy, &rules);
		watched->trim_state->round = FLMEM_UNKNOWN("no round has ended");
	}
	return watched->trim_state;
}

static struct flmem_watch_action init_action(const struct flmem_watched_process *watched,
					     enum flmem_watch_action_kind kind, const char *reason,
					     const struct flmem_clock_times *moment)
{
	static const char none[] = "no trim was made";

	return (struct flmem_watch_action){
		.process = &watched->id,
		.kind = kind,
		.at_us = moment->at_us,
		.elapsed_us = moment->now_us,
		.round = watched->trim_state->round,
		.every_rounds = watched->trim_state->policy.every,
		.reason = reason,
		.rss_before_bytes = FLMEM_UNKNOWN(none),
		.rss_after_bytes = FLMEM_UNKNOWN(none),
		.released_bytes = FLMEM_UNKNOWN(none),
		.stopped_us = FLMEM_UNKNOWN(none),
	};
}

static void report_change(struct flmem_watch_state *state, struct flmem_watched_process *watched,
			  const struct flmem_policy_decision *decision,
			  const struct flmem_clock_times *moment)
{
	static const enum flmem_watch_action_kind kinds[] = {
		[FLMEM_POLICY_INTERVAL_RAISED] = FLMEM_WATCH_INTERVAL_RAISED,
		[FLMEM_POLICY_INTERVAL_LOWERED] = FLMEM_WATCH_INTERVAL_LOWERED,
		[FLMEM_POLICY_PAUSED] = FLMEM_WATCH_PAUSED,
		[FLMEM_POLICY_RESUMED] = FLMEM_WATCH_RESUMED,
	};
	struct flmem_watch_action action;

	if (decision->change == FLMEM_POLICY_SAME)
		return;
	action = init_action(watched, kinds[decision->change], decision->change_reason, moment);
	flmem_watch_state_action(state, watched, &action);
}

static const struct flmem_condition *condition_for(const struct flmem_auto *a,
						   const struct flmem_watched_process *watched)
{
	if (a->options.when)
		return a->options.when;
	return watched->rounds.any ? NULL : a->fallback;
}

static void ask_for_trim(const struct flmem_auto *a, const struct flmem_watched_process *watched,
			 const char *reason, const struct flmem_condition *when)
{
	struct flmem_trim_request *request = calloc(1, sizeof(*request));

	if (!request)
		return;
	request->pid = watched->id.pid;
	request->start_time = watched->id.start_time;
	request->when = when;
	request->options = a->options.trim;
	snprintf(request->reason, sizeof(request->reason), "%s", reason);
	watched->trim_state->busy = flmem_trim_queue_add(a->queue, request);
}

static void decide_action(const struct flmem_auto *a, struct flmem_watch_state *state,
			  struct flmem_watched_process *watched, struct flmem_policy_inputs *inputs,
			  const struct flmem_clock_times *moment)
{
	struct flmem_policy_decision decision;
	struct flmem_trend trend;

	flmem_forecast_trend(watched, &trend);
	inputs->now_us = moment->now_us;
	inputs->rss_bytes = watched->last_bytes;
	inputs->verdict = trend.verdict;
	flmem_policy_decide(&watched->trim_state->policy, inputs, &decision);
	report_change(state, watched, &decision, moment);
	if (decision.trim && !watched->trim_state->busy)
		ask_for_trim(a, watched, decision.trim_reason,
			     inputs->occasion == FLMEM_POLICY_CONDITION ? condition_for(a, watched)
									: NULL);
}

void flmem_auto_round(struct flmem_auto *automatic, struct flmem_watch_state *watch_state,
		      const struct flmem_pressures *pressures,
		      struct flmem_watched_process *watched, const struct flmem_clock_times *moment)
{
	struct flmem_policy_inputs inputs = {.occasion = FLMEM_POLICY_ROUND};
	struct flmem_trim_state *trim_state = target_of(automatic, watched);

	if (!trim_state || trim_state->dropped)
		return;
	inputs.pressure = flmem_pressures_short(pressures, watched->group, moment->now_us);
	inputs.under_pressure = inputs.pressure != NULL;
	trim_state->round = FLMEM_KNOWN(watched->rounds.last.number);
	decide_action(automatic, watch_state, watched, &inputs, moment);
}

static void check_triggers(const struct flmem_auto *a, struct flmem_watch_state *state,
			   const struct flmem_pressures *pressures,
			   struct flmem_watched_process *watched,
			   const struct flmem_clock_times *moment)
{
	struct flmem_policy_inputs inputs = {.occasion = FLMEM_POLICY_CONDITION};
	struct flmem_trim_state *trim_state = target_of(a, watched);
	bool under_pressure;

	if (!trim_state || trim_state->dropped)
		return;
	inputs.pressure = flmem_pressures_short(pressures, watched->group, moment->now_us);
	inputs.under_pressure = inputs.pressure != NULL;
	under_pressure = inputs.under_pressure && !trim_state->under_pressure;
	trim_state->under_pressure = inputs.under_pressure;
	if (under_pressure)
		inputs.occasion = FLMEM_POLICY_PRESSURE;
	else if (trim_state->busy || !condition_for(a, watched) ||
		 !flmem_policy_may_check(&trim_state->policy, moment->now_us))
		return;
	decide_action(a, state, watched, &inputs, moment);
}

static struct flmem_watched_process *find_target(const struct flmem_watch_state *state,
						 const struct flmem_trim_request *request)
{
	for (size_t i = 0; i < state->count; i++) {
		struct flmem_watched_process *f = state->watched[i];

		if (f->id.pid == request->pid && f->id.start_time == request->start_time)
			return f->trim_state ? f : NULL;
	}
	return NULL;
}

static enum flmem_watch_action_kind action_kind_of(const struct flmem_trim_result *result)
{
	switch (result->code) {
	case 0:
	case FLMEM_EPARTLY:
		return FLMEM_WATCH_TRIMMED;
	case FLMEM_EPERM:
	case FLMEM_EUNSUPPORTED:
		return FLMEM_WATCH_DROPPED;
	default:
		return FLMEM_WATCH_REFUSED;
	}
}

static void report_trim(struct flmem_watch_state *state, struct flmem_watched_process *watched,
			const struct flmem_trim_request *request,
			const struct flmem_clock_times *moment)
{
	const struct flmem_trim_result *result = &request->result;
	char reason[FLMEM_POLICY_REASON_MAX + FLMEM_ERROR_MESSAGE_MAX + 4];
	struct flmem_policy_decision decision;
	struct flmem_watch_action action;
	struct flmem_u64 released;

	action = init_action(watched, action_kind_of(result), reason, moment);
	action.result = result;
	snprintf(reason, sizeof(reason), "%s%s%s", request->reason, result->reason[0] ? ": " : "",
		 result->reason);
	if (action.kind == FLMEM_WATCH_DROPPED)
		watched->trim_state->dropped = true;
	if (action.kind == FLMEM_WATCH_TRIMMED) {
		action.rss_before_bytes = result->rss_before_bytes;
		action.rss_after_bytes = result->rss_after_bytes;
		action.released_bytes = result->released_bytes;
		action.stopped_us = result->stopped_us;
	}
	flmem_watch_state_action(state, watched, &action);
	if (action.kind != FLMEM_WATCH_TRIMMED)
		return;
	released = result->released_bytes;
	released.value += result->device_bytes; /* has no effect on an unknown value */
	flmem_policy_done(&watched->trim_state->policy, moment->now_us, released,
			  result->rss_after_bytes, &decision);
	report_change(state, watched, &decision, moment);
}

static void report_undecided(struct flmem_watch_state *state, struct flmem_watched_process *watched,
			     const struct flmem_trim_request *request,
			     const struct flmem_clock_times *moment)
{
	struct flmem_watch_action action;

	if (!request->why || request->why == watched->trim_state->undecided_reason)
		return;
	watched->trim_state->undecided_reason = request->why;
	action = init_action(watched, FLMEM_WATCH_UNDECIDED, request->why, moment);
	flmem_watch_state_action(state, watched, &action);
}

static void collect_results(const struct flmem_auto *a, struct flmem_watch_state *state,
			    const struct flmem_clock_times *moment)
{
	for (;;) {
		FLMEM_AUTO_FREE struct flmem_trim_request *request =
			flmem_trim_queue_take(a->queue);
		struct flmem_watched_process *watched =
			request ? find_target(state, request) : NULL;

		if (!request)
			return;
		if (!watched)
			continue;
		watched->trim_state->busy = false;
		if (request->truth == FLMEM_UNDECIDED)
			report_undecided(state, watched, request, moment);
		else if (request->truth == FLMEM_TRUE && request->result.code != FLMEM_ENOPROC)
			report_trim(state, watched, request, moment);
	}
}

void flmem_auto_tick(struct flmem_auto *automatic, struct flmem_watch_state *watch_state,
		     const struct flmem_pressures *pressures,
		     const struct flmem_clock_times *moment)
{
	collect_results(automatic, watch_state, moment);
	for (size_t i = 0; i < watch_state->count; i++)
		if (!watch_state->watched[i]->ended)
			check_triggers(automatic, watch_state, pressures, watch_state->watched[i],
				       moment);
}

/*
 * Reports a condition that was never checked: without rounds it is checked at an interval, which
 * the watch may not have reached.
 */
static void report_unchecked(const struct flmem_auto *a, struct flmem_watch_state *state,
			     struct flmem_watched_process *watched,
			     const struct flmem_clock_times *moment)
{
	const struct flmem_trim_state *trim_state = watched->trim_state;
	char reason[FLMEM_POLICY_REASON_MAX], span[FLMEM_TEXT_BYTES_MAX];
	struct flmem_watch_action action;

	if (!trim_state || trim_state->dropped || trim_state->policy.trimmed ||
	    trim_state->policy.checked_us || watched->rounds.any)
		return;
	snprintf(reason, sizeof(reason), "no round ended, and the first check is after %s",
		 flmem_text_span(a->check_us / 1000000, span, sizeof(span)));
	action = init_action(watched, FLMEM_WATCH_UNDECIDED, reason, moment);
	flmem_watch_state_action(state, watched, &action);
}

void flmem_auto_finish(struct flmem_auto *automatic, struct flmem_watch_state *watch_state,
		       const struct flmem_clock_times *moment)
{
	flmem_trim_queue_finish(automatic->queue);
	collect_results(automatic, watch_state, moment);
	for (size_t i = 0; i < watch_state->count; i++)
		report_unchecked(automatic, watch_state, watch_state->watched[i], moment);
}
