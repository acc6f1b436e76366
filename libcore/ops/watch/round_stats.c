/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watch/round_stats.h"

/*
 * Time after the end of a round in which its trough is measured: a quarter of the round, within
 * bounds.
 */
#define SETTLE_SHARE	 4U
#define SETTLE_INTERVALS 2U
#define SETTLE_MAX_US	 30000000U

/* Most rounds that logs may skip; a larger gap is a new job. */
#define GAP_MAX 1000U

static const char no_sample[] =
	"no sample in this round: the rounds are too short for this interval";
static const char no_group_peak[] = "the end of the round was not seen";
static const char no_before[] = "the previous round is not known";

void flmem_round_stats_init(struct flmem_round_stats *stats, uint64_t interval_us, bool fresh)
{
	*stats = (struct flmem_round_stats){
		.interval_us = interval_us,
		.fresh = fresh,
		.per_point = 1,
		.trough_bytes = FLMEM_UNKNOWN(no_before),
	};
}

static void raise_to(struct flmem_u64 *most, uint64_t bytes)
{
	if (most->unknown || bytes > most->value)
		*most = FLMEM_KNOWN(bytes);
}

static void lower_to(struct flmem_u64 *least, uint64_t bytes)
{
	if (least->unknown || bytes < least->value)
		*least = FLMEM_KNOWN(bytes);
}

/* Averages pairs of points; the time of a pair is that of the later point. */
static void halve_points(struct flmem_round_stats *s)
{
	for (size_t i = 0; i < s->count / 2; i++) {
		struct flmem_trend_point point = s->points[2 * i + 1];

		point.bytes = s->points[2 * i].bytes / 2 + point.bytes / 2;
		s->points[i] = point;
	}
	s->count /= 2;
	s->per_point *= 2;
	s->in_last = s->per_point;
}

static void add_point(struct flmem_round_stats *s, const struct flmem_trend_point *point)
{
	struct flmem_trend_point *last;

	s->changes++;
	if (s->count && s->in_last < s->per_point) {
		last = &s->points[s->count - 1];
		last->bytes += (uint64_t)(((int64_t)point->bytes - (int64_t)last->bytes) /
					  (int64_t)(s->in_last + 1));
		last->at_us = point->at_us;
		last->round = point->round;
		s->in_last++;
		return;
	}
	if (s->count == FLMEM_ROUND_POINTS)
		halve_points(s);
	s->points[s->count++] = *point;
	s->in_last = 1;
}

static void set_growth(struct flmem_round_stats *s, struct flmem_watch_round *round)
{
	const char *unknown =
		round->trough_bytes.unknown ? round->trough_bytes.unknown : s->trough_bytes.unknown;

	round->growth_bytes = (struct flmem_i64){.unknown = unknown};
	if (!unknown)
		round->growth_bytes.value =
			(int64_t)round->trough_bytes.value - (int64_t)s->trough_bytes.value;
	s->trough_bytes = round->trough_bytes;
	if (s->trough_bytes.unknown)
		s->trough_bytes = FLMEM_UNKNOWN(no_before);
}

/* Completes the round once its trough is measured. */
static bool settle_round(struct flmem_round_stats *s, struct flmem_watch_round *ret_round)
{
	const struct flmem_trend_point point = {
		.at_us = s->last.elapsed_us,
		.round = s->last.ordinal,
		.bytes = s->last.trough_bytes.value,
	};

	if (!s->settling)
		return false;
	s->settling = false;
	s->complete++;
	set_growth(s, &s->last);
	if (s->skipped)
		s->skipped--;
	else if (!s->last.trough_bytes.unknown && (!s->trims || s->trimmed))
		add_point(s, &point);
	*ret_round = s->last;
	return true;
}

bool flmem_round_stats_sample(struct flmem_round_stats *stats, uint64_t now_us, uint64_t bytes,
			      struct flmem_watch_round *ret_round)
{
	if (stats->running)
		raise_to(&stats->now.peak_bytes, bytes);
	if (!stats->settling)
		return false;
	lower_to(&stats->last.trough_bytes, bytes);
	return now_us >= stats->settled_us && settle_round(stats, ret_round);
}

void flmem_round_stats_exact_peak(struct flmem_round_stats *stats, uint64_t bytes)
{
	if (!stats->running)
		return;
	raise_to(&stats->now.peak_bytes, bytes);
	stats->now.peak_exact = true;
}

void flmem_round_stats_group_peak(struct flmem_round_stats *stats, struct flmem_u64 bytes)
{
	if (stats->running)
		stats->now.group_peak_bytes = bytes;
}

static void round_number(struct flmem_round_stats *s, uint64_t number)
{
	/* A rise from a number that had just fallen lies between two jobs with one log. */
	uint64_t gap = s->any && number > s->number && !s->fell ? number - s->number : 1;

	if (!s->any)
		s->skipped = s->fresh			    ? FLMEM_ROUND_WARM_UP
			     : number < FLMEM_ROUND_WARM_UP ? FLMEM_ROUND_WARM_UP - number
							    : 0;
	s->ordinal += gap > GAP_MAX ? 1 : gap;
	s->fell = s->any && number < s->number;
	s->number = number;
	s->any = true;
}

bool flmem_round_stats_start(struct flmem_round_stats *stats, uint64_t now_us, uint64_t number_,
			     struct flmem_watch_round *ret_round)
{
	bool complete = stats->running && flmem_round_stats_finish(stats, now_us, ret_round);

	round_number(stats, number_);
	stats->running = true;
	stats->now = (struct flmem_watch_round){
		.number = number_,
		.ordinal = stats->ordinal,
		.started_us = now_us,
		.peak_bytes = FLMEM_UNKNOWN(no_sample),
		.group_peak_bytes = FLMEM_UNKNOWN(no_group_peak),
		.trough_bytes = FLMEM_UNKNOWN(no_sample),
	};
	return complete;
}

bool flmem_round_stats_finish(struct flmem_round_stats *stats, uint64_t now_us,
			      struct flmem_watch_round *ret_round)
{
	uint64_t wait;
	bool complete;

	if (!stats->running)
		return false;
	complete = settle_round(stats, ret_round);
	stats->running = false;
	stats->settling = true;
	stats->trimmed = false;
	stats->last = stats->now;
	stats->last.elapsed_us = now_us;
	stats->last.duration_us = now_us - stats->now.started_us;
	wait = stats->last.duration_us / SETTLE_SHARE;
	if (wait < SETTLE_INTERVALS * stats->interval_us)
		wait = SETTLE_INTERVALS * stats->interval_us;
	stats->settled_us = now_us + (wait < SETTLE_MAX_US ? wait : SETTLE_MAX_US);
	return complete;
}

bool flmem_round_stats_flush(struct flmem_round_stats *stats, struct flmem_watch_round *ret_round)
{
	return settle_round(stats, ret_round);
}

void flmem_round_stats_trimmed(struct flmem_round_stats *stats)
{
	if (!stats->trims) {
		stats->changes++;
		stats->count = 0;
	}
	stats->trims = true;
	stats->trimmed = true;
}

void flmem_round_stats_trims_stop(struct flmem_round_stats *stats)
{
	stats->trims = false;
}
