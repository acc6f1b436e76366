/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watch/forecast_state.h"

#include "ops/watch/pressures.h"
#include "proc/host_facts.h"
#include "proc/limits/cgroup.h"

static const char exceeded_limit[] = "its resident memory was above the limit";
static const char passed_growth[] = "it grows faster than the limit";

/* Below this, flat or a single step may be the first part of growth. */
#define DECIDED_CONFIDENCE 0.8

void flmem_forecast_limits_close(struct flmem_forecast_limits *limits)
{
	flmem_cgroups_free(limits->cgroups);
	limits->cgroups = NULL;
	flmem_gpu_use_close(&limits->gpus);
}

static struct flmem_u64 add_growth(struct flmem_u64 a, struct flmem_u64 b)
{
	if (a.unknown || b.unknown)
		return a.unknown ? a : b;
	return FLMEM_KNOWN(a.value + b.value);
}

int flmem_forecast_limits_open(struct flmem_forecast_limits *ret_limits, struct flmem_error *err)
{
	struct flmem_host_facts host;
	int rc = flmem_host_facts_read(&host, err);

	if (!rc)
		rc = flmem_cgroups_open(&ret_limits->cgroups, err);
	if (rc)
		return rc;
	ret_limits->host_total = add_growth(host.memory_total_bytes, host.swap_total_bytes);
	flmem_gpu_use_open(&ret_limits->gpus);
	ret_limits->host_left = add_growth(host.memory_available_bytes, host.swap_free_bytes);
	return 0;
}

static void find_limit(struct flmem_forecast_limits *limits,
		       const struct flmem_watched_process *watched, struct flmem_watch_result *r)
{
	static const char ended[] = "the process has ended";
	static const char recorded[] = "recordings do not contain it";
	struct flmem_cgroup_limit group;

	r->limit_bytes = r->headroom_bytes = FLMEM_UNKNOWN(limits->cgroups ? ended : recorded);
	r->gpu_bytes = r->limit_bytes;
	if (watched->ended || !limits->cgroups)
		return;
	r->gpu_bytes = flmem_gpu_use_of(&limits->gpus, &watched->process);
	r->limit_bytes = limits->host_total;
	r->headroom_bytes = limits->host_left;
	flmem_cgroups_limit(limits->cgroups, &watched->process, &group);
	if (group.max_bytes.unknown || group.headroom_bytes.unknown ||
	    (!r->headroom_bytes.unknown && r->headroom_bytes.value < group.headroom_bytes.value))
		return;
	r->limit_is_cgroup = true;
	r->limit_bytes = group.max_bytes;
	r->headroom_bytes = group.headroom_bytes;
}

/*
 * Returns the headroom below the limit after the highest recent peak is subtracted, so that the
 * result does not depend on where within a round the watch ended.
 */
static struct flmem_u64 headroom_at_peak(const struct flmem_watched_process *watched,
					 struct flmem_u64 headroom)
{
	const struct flmem_history *h = &watched->history;
	uint64_t peak = watched->last_bytes, above;

	for (size_t i = h->count - h->count / 4; i < h->count; i++)
		if (h->spans[i].high_bytes > peak)
			peak = h->spans[i].high_bytes;
	above = peak - watched->last_bytes;
	if (!headroom.unknown)
		headroom.value = headroom.value > above ? headroom.value - above : 0;
	return headroom;
}

static void compute_trend(const struct flmem_watched_process *watched, enum flmem_trend_basis basis,
			  struct flmem_trend *ret_trend)
{
	struct flmem_trend_point points[FLMEM_HISTORY_POINTS];

	if (basis == FLMEM_TREND_BY_ROUND)
		flmem_trend_measure(watched->rounds.points, watched->rounds.count, basis,
				    ret_trend);
	else
		flmem_trend_measure(points, flmem_history_points(&watched->history, points), basis,
				    ret_trend);
}

void flmem_forecast_trend(struct flmem_watched_process *watched, struct flmem_trend *ret_trend)
{
	struct flmem_known_trend *known = &watched->trend;
	/* With rounds known, compare only round ends; fixed intervals mix different phases. */
	bool by_round = watched->rounds.count > 0;
	enum flmem_trend_basis basis = by_round ? FLMEM_TREND_BY_ROUND : FLMEM_TREND_BY_HOUR;
	uint64_t version = by_round ? watched->rounds.changes : watched->history.samples;

	if (!version || known->version != version || known->trend.basis != basis) {
		compute_trend(watched, basis, &known->trend);
		known->version = version;
	}
	*ret_trend = known->trend;
}

static void find_trend(struct flmem_watched_process *watched, struct flmem_watch_result *r)
{
	flmem_forecast_trend(watched, &r->trend);
	flmem_trend_forecast(&r->trend, headroom_at_peak(watched, r->headroom_bytes), &r->forecast);
}

static bool grows_too_fast(const struct flmem_growth_limit *limit, const struct flmem_trend *trend)
{
	bool by_round = limit->per_round_bytes != 0;
	uint64_t most = by_round ? limit->per_round_bytes : limit->per_hour_bytes;
	struct flmem_i64 growth =
		by_round ? trend->growth_per_round_bytes : trend->growth_per_hour_bytes;

	return most && trend->verdict == FLMEM_TREND_CLIMBING && !growth.unknown &&
	       growth.value > 0 && (uint64_t)growth.value > most;
}

/*
 * Returns true if one-off steps, averaged over the watch, exceed the limit: they may repeat, or
 * have been the last.
 */
static bool steps_too_fast(const struct flmem_growth_limit *limit,
			   const struct flmem_watch_result *r)
{
	double step = r->trend.step_bytes.unknown ? 0 : (double)r->trend.step_bytes.value;
	double per_hour = (double)limit->per_hour_bytes, per_round = (double)limit->per_round_bytes;

	if (!limit->per_round_bytes)
		return step > per_hour * (double)r->watched_us / 3.6e9;
	if (r->trend.basis != FLMEM_TREND_BY_ROUND)
		return step > 0;
	return step > per_round * (double)r->trend.points;
}

/* Returns why it is unknown whether growth is within the limit; NULL if it is known. */
static const char *undecided_growth(const struct flmem_growth_limit *limit,
				    const struct flmem_watch_result *r)
{
	const struct flmem_trend *t = &r->trend;
	bool grows = t->verdict == FLMEM_TREND_CLIMBING;

	if (!limit->per_round_bytes && !limit->per_hour_bytes)
		return NULL;
	if (t->verdict == FLMEM_TREND_TOO_EARLY && !limit->per_hour_bytes && !r->rounds)
		return "no rounds were seen: give --log, or a limit per hour";
	if (t->verdict == FLMEM_TREND_TOO_EARLY)
		return t->reason;
	if (grows && limit->per_round_bytes && t->growth_per_round_bytes.unknown)
		return "it grows, and no rounds were seen: give --log, or a limit per hour";
	if (t->verdict == FLMEM_TREND_STEPPED && steps_too_fast(limit, r))
		return "it grew in steps: watch longer to see whether they repeat";
	if ((t->verdict == FLMEM_TREND_FLAT || t->verdict == FLMEM_TREND_STEPPED) &&
	    t->confidence < DECIDED_CONFIDENCE)
		return "the confidence is too low: watch longer, or give --log";
	return NULL;
}

static void find_exceeded_limits(const struct flmem_watch_options *options,
				 const struct flmem_watched_process *watched,
				 struct flmem_watch_result *r)
{
	size_t n = 0;

	if (watched->exceeded_limit)
		r->findings[n++] = exceeded_limit;
	if (grows_too_fast(&options->fail_growth, &r->trend))
		r->findings[n++] = passed_growth;
	r->undecided = undecided_growth(&options->fail_growth, r);
}

static void describe_result(struct flmem_watched_process *watched, struct flmem_watch_result *r)
{
	static const char none[] = "the process ended before its first sample";

	*r = (struct flmem_watch_result){
		.process = watched->id,
		.ended = watched->ended,
		.restarts = watched->restarts,
		.samples = watched->history.samples,
		.rounds = watched->rounds.complete,
		.watched_us = watched->last_us - watched->first_us,
		.first_bytes = FLMEM_KNOWN(watched->first_bytes),
		.last_bytes = FLMEM_KNOWN(watched->last_bytes),
		.lowest_bytes = FLMEM_KNOWN(watched->lowest_bytes),
		.peak_bytes = FLMEM_KNOWN(watched->peak_bytes),
		.split = watched->split,
		.pressure = watched->pressure,
		.actions = watched->actions,
	};
	flmem_pressure_rise(&watched->pressure, &watched->pressure_first, &r->pressure_rise);
	watched->id.command = watched->id.site = NULL;
	if (!watched->history.samples)
		r->first_bytes = r->last_bytes = r->lowest_bytes = r->peak_bytes =
			FLMEM_UNKNOWN(none);
}

void flmem_forecast_of(struct flmem_forecast_limits *limits,
		       const struct flmem_watch_options *options,
		       struct flmem_watched_process *watched, struct flmem_watch_result *ret_result)
{
	describe_result(watched, ret_result);
	find_limit(limits, watched, ret_result);
	find_trend(watched, ret_result);
	if (options)
		find_exceeded_limits(options, watched, ret_result);
}

int flmem_forecast_make(const struct flmem_watch_state *watch_state, bool live,
			struct flmem_watch_result *ret_results, struct flmem_error *err)
{
	FLMEM_AUTO(flmem_forecast_limits_close) struct flmem_forecast_limits limits = {0};
	int rc = live ? flmem_forecast_limits_open(&limits, err) : 0;

	if (rc)
		return rc;
	for (size_t i = 0; i < watch_state->count; i++)
		flmem_forecast_of(&limits, watch_state->options, watch_state->watched[i],
				  &ret_results[i]);
	return 0;
}
