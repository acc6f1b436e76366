/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/trend.h>

#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "series/robust.h"
#include "series/sawtooth.h"
#include "series/steps.h"

/* Required significance of a trend. It is strict, since a watch of many rounds tests many times. */
#define P_VALUE_MAX    0.01
#define DOUBT_MAX_LATE 0.001 /* for a trend in the later half only */

/* Growth below this, over all points together, is not reported. */
#define MATERIAL_SHARE 0.01
#define MATERIAL_BYTES (128.0 * 1024)

/* The smallest one-off step. */
#define STEP_SHARE 0.02
#define STEP_BYTES (512.0 * 1024)

/* Share of the level within which memory, with confidence, stays if it is flat. */
#define FLAT_SHARE 0.05

/* Number of points that is enough to call a noisy series flat, with low confidence. */
#define ENOUGH 12U

/* Phases of the job that must be covered before its memory is called flat. */
#define PHASES_MIN 6.0

/* Hours of a phase without rounds: rounds of federated learning take minutes, rarely longer. */
#define PHASE_HOURS (1.0 / 6)

#define LATE_MIN       15U
#define LEVELLED       (1.0 / 3) /* share of the whole growth; below it, it has levelled off */
#define CONFIDENCE_MAX 0.999
#define Z_95	       1.959963984540054

static const char has_just_fallen[] =
	"memory has just fallen back; whether it rises further is not known yet";
static const char falls_back_in_steps[] = "memory grows and falls back in steps";

#define VERDICT_ROW(name, text) [FLMEM_TREND_##name] = (text),
static const char teeth_hide_growth[] =
	"its rises and falls are larger than the growth that they may hide";

static const char *const trend_verdict_names[] = {FLMEM_TREND_VERDICTS(VERDICT_ROW)};
#undef VERDICT_ROW

const char *flmem_trend_verdict_name(enum flmem_trend_verdict verdict)
{
	return trend_verdict_names[verdict];
}

/* The measured points, thinned. */
struct trend_curve {
	double x[FLMEM_ROBUST_POINTS_MAX]; /* rounds or hours */
	double hours[FLMEM_ROBUST_POINTS_MAX];
	double bytes[FLMEM_ROBUST_POINTS_MAX];
	double rounds[FLMEM_ROBUST_POINTS_MAX]; /* without rounds: rises and falls so far */
	size_t count;
	size_t group;	 /* number of measured points per point */
	size_t late_min; /* number of points that can show growth which the whole curve does not */
	bool by_round;
};

/* The result for one stretch of the curve, up to its end. */
struct stretch_finding {
	size_t first, count;
	double level;
	struct flmem_slope slope; /* slope with the steps subtracted */
	double per_hour;
	double step;
	enum flmem_trend_verdict verdict;
	double confidence;
	const char *reason;
};

static void thin_points(const struct flmem_trend_point *points, size_t count, bool by_round,
			struct trend_curve *ret_curve)
{
	size_t step = (count + FLMEM_ROBUST_POINTS_MAX - 1) / FLMEM_ROBUST_POINTS_MAX;

	ret_curve->count = 0;
	ret_curve->group = step;
	ret_curve->late_min = LATE_MIN;
	ret_curve->by_round = by_round;
	for (size_t first = 0; first < count; first += step) {
		size_t n = count - first < step ? count - first : step, k = ret_curve->count++;
		double hours = 0, rounds = 0, bytes = 0;

		for (size_t i = first; i < first + n; i++) {
			hours += (double)(points[i].at_us - points[0].at_us) / 3.6e9;
			rounds += (double)(points[i].round - points[0].round);
			bytes += (double)points[i].bytes;
		}
		ret_curve->hours[k] = hours / (double)n;
		ret_curve->rounds[k] = rounds / (double)n;
		ret_curve->x[k] = by_round ? ret_curve->rounds[k] : ret_curve->hours[k];
		ret_curve->bytes[k] = bytes / (double)n;
	}
}

static double normal_cdf(double z)
{
	return erfc(-z / sqrt(2)) / 2;
}

/* Returns the probability that the slope lies within `bound` of 0, by the width of its interval. */
static double surely_within(const struct flmem_slope *s, double bound)
{
	double deviation = (s->high - s->low) / (2 * Z_95);

	if (deviation <= 0)
		return fabs(s->slope) <= bound ? 1 : 0;
	return normal_cdf((bound - s->slope) / deviation) -
	       normal_cdf((-bound - s->slope) / deviation);
}

static void set_verdict(struct stretch_finding *f, enum flmem_trend_verdict verdict,
			double confidence, const char *because)
{
	f->verdict = verdict;
	f->confidence = fmin(CONFIDENCE_MAX, fmax(0, confidence));
	f->reason = because;
}

/* Reports whether jumps reverse at least half of the growth, as garbage collections do. */
static bool falls_back(const struct stretch_finding *f, double span)
{
	double growth = f->slope.slope * span;

	return f->step != 0 && (f->step > 0) != (growth > 0) && fabs(f->step) >= fabs(growth) / 2;
}

/* With rounds known, the points are the ends of rounds. */
static const char *because_of(enum flmem_trend_verdict verdict, bool by_round)
{
	switch (verdict) {
	case FLMEM_TREND_CLIMBING:
		return by_round ? "memory after each round keeps rising" : "memory keeps rising";
	case FLMEM_TREND_FALLING:
		return by_round ? "memory after each round keeps falling" : "memory keeps falling";
	default:
		return by_round ? "memory after each round stays at the same level"
				: "memory stays at the same level";
	}
}

static double least_sure(size_t count)
{
	return count < ENOUGH ? 0.5 : 0.05;
}

static void judge_finding(struct stretch_finding *f, double span, double evidence, bool by_round)
{
	const struct flmem_slope *s = &f->slope;
	double material = fmax(MATERIAL_SHARE * f->level, MATERIAL_BYTES);
	double within = surely_within(s, FLAT_SHARE * f->level / span);

	if (s->p_value < P_VALUE_MAX && (!s->may_wander || s->walk_p_value < P_VALUE_MAX) &&
	    fabs(s->slope) * span >= material && (s->low > 0 || s->high < 0)) {
		if (falls_back(f, span))
			set_verdict(f, FLMEM_TREND_FLAT, 0.5, falls_back_in_steps);
		else if (s->slope > 0)
			set_verdict(f, FLMEM_TREND_CLIMBING, 1 - s->p_value,
				    because_of(FLMEM_TREND_CLIMBING, by_round));
		else
			set_verdict(f, FLMEM_TREND_FALLING, 1 - s->p_value,
				    because_of(FLMEM_TREND_FALLING, by_round));
	} else if (f->step != 0) {
		set_verdict(f, FLMEM_TREND_STEPPED, 1 / (1 + exp(-evidence)),
			    "memory moved to another level and stays there");
	} else if (within < least_sure(f->count)) {
		set_verdict(f, FLMEM_TREND_TOO_EARLY, 0,
			    "not enough samples yet: the noise exceeds the slope");
	} else {
		set_verdict(f, FLMEM_TREND_FLAT, within, because_of(FLMEM_TREND_FLAT, by_round));
	}
}

/* Reports whether memory returned to its range before the fall, as in a sawtooth. */
static bool is_same_tooth(const double *y, const struct flmem_steps *steps,
			  const struct stretch_finding *f, size_t fall)
{
	double low[2] = {INFINITY, INFINITY}, high[2] = {0, 0};

	for (size_t i = 0; i < f->count; i++) {
		bool after = steps->segment[i] > fall;

		low[after] = fmin(low[after], y[i]);
		high[after] = fmax(high[after], y[i]);
	}
	return low[1] <= low[0] + FLAT_SHARE * f->level &&
	       high[1] <= high[0] + FLAT_SHARE * f->level;
}

static bool returns_to_level(const double *y, const struct flmem_steps *steps,
			     const struct stretch_finding *f)
{
	for (size_t i = 0; i < steps->count; i++)
		if (steps->height[i] < 0 && is_same_tooth(y, steps, f, i))
			return true;
	return false;
}

static void examine_stretch(const struct trend_curve *c, size_t first,
			    struct stretch_finding *ret_finding)
{
	struct stretch_finding f = {.first = first, .count = c->count - first};
	const double *x = c->x + first, *y = c->bytes + first;
	double sorted[FLMEM_ROBUST_POINTS_MAX];
	struct flmem_steps steps;
	struct flmem_curve curve;
	bool by_round;

	for (size_t i = 0; i < f.count; i++)
		sorted[i] = y[i];
	f.level = flmem_robust_median(sorted, f.count);
	flmem_steps_find(x, y, f.count, fmax(STEP_SHARE * f.level, STEP_BYTES), &steps);
	for (size_t i = 0; i < steps.count; i++)
		f.step += steps.height[i];
	curve = (struct flmem_curve){.x = x, .y = y, .segment = steps.segment, .count = f.count};
	flmem_robust_trend(&curve, &f.slope);
	curve.x = c->hours + first;
	f.per_hour = f.slope.slope;
	by_round = memcmp(x, curve.x, f.count * sizeof(*x)) != 0;
	/* Without rounds x is in hours already, and the slopes of all pairs take long. */
	if (by_round)
		f.per_hour = flmem_robust_slope(&curve);
	judge_finding(&f, x[f.count - 1] - x[0], steps.evidence, by_round);
	if (f.verdict == FLMEM_TREND_CLIMBING && returns_to_level(y, &steps, &f))
		set_verdict(&f, FLMEM_TREND_FLAT, 0.5, falls_back_in_steps);
	else if (f.verdict == FLMEM_TREND_CLIMBING && !by_round &&
		 flmem_sawtooth_has_just_fallen(y, f.count, f.level))
		set_verdict(&f, FLMEM_TREND_TOO_EARLY, 0, has_just_fallen);
	*ret_finding = f;
}

static double total_slope(const struct trend_curve *c, const struct stretch_finding *f)
{
	return f->slope.slope + f->step / (c->x[c->count - 1] - c->x[f->first]);
}

/*
 * Reports whether the later half grows more slowly. Growth that has ended does not count; growth
 * that has slowed down continues at the slower rate. Steps in the later half may go on.
 */
static bool has_levelled_off(const struct trend_curve *c, const struct stretch_finding *whole,
			     struct stretch_finding *ret_half)
{
	double least = LEVELLED * total_slope(c, whole);

	examine_stretch(c, c->count / 2, ret_half);
	if (ret_half->slope.slope >= least)
		return false;
	if (ret_half->verdict == FLMEM_TREND_CLIMBING)
		ret_half->reason = "memory rose faster at first and still keeps rising";
	else if (ret_half->step > 0 && total_slope(c, ret_half) >= least)
		set_verdict(ret_half, FLMEM_TREND_STEPPED, ret_half->confidence,
			    "memory rose in steps, of which more may follow");
	else
		set_verdict(ret_half, FLMEM_TREND_FLAT, ret_half->confidence,
			    "memory rose at first and has levelled off");
	return true;
}

/* Detects growth since the later half or quarter; *ret_again: it may be a sawtooth's tooth. */
static bool rises_since(const struct trend_curve *c, struct stretch_finding *ret_late,
			bool *ret_again)
{
	*ret_again = false;
	for (size_t count = c->count / 2; count >= c->late_min; count /= 2) {
		examine_stretch(c, c->count - count, ret_late);
		if (ret_late->verdict == FLMEM_TREND_CLIMBING &&
		    ret_late->slope.p_value < DOUBT_MAX_LATE &&
		    ret_late->slope.walk_p_value < P_VALUE_MAX) {
			if (flmem_sawtooth_rose_before(c->bytes, ret_late->first, c->count) ||
			    !flmem_sawtooth_is_left(c->bytes, ret_late->first, c->count)) {
				*ret_again = true;
				continue;
			}
			ret_late->reason = "memory was flat at first and has been rising since";
			return true;
		}
	}
	return false;
}

/* Judges the trend of the low points; their slope becomes that of the finding. */
static void judge_low_points(const struct trend_curve *c, const struct flmem_sawtooth *teeth,
			     struct stretch_finding *f)
{
	double x[FLMEM_SAWTOOTH_MAX], hours[FLMEM_SAWTOOTH_MAX], y[FLMEM_SAWTOOTH_MAX];
	unsigned char segment[FLMEM_SAWTOOTH_MAX] = {0};
	struct flmem_curve lows = {.x = x, .y = y, .segment = segment, .count = teeth->count};
	struct flmem_slope slope;
	double span;

	for (size_t i = 0; i < teeth->count; i++) {
		x[i] = c->x[f->first + teeth->at[i]];
		hours[i] = c->hours[f->first + teeth->at[i]];
		y[i] = c->bytes[f->first + teeth->at[i]];
	}
	span = x[teeth->count - 1] - x[0];
	flmem_robust_trend(&lows, &slope);
	if (slope.p_value < P_VALUE_MAX && slope.low > 0 &&
	    slope.slope * span >= fmax(MATERIAL_SHARE * f->level, MATERIAL_BYTES)) {
		lows.x = hours;
		f->slope = slope;
		f->per_hour = flmem_robust_slope(&lows);
		f->step = 0;
		set_verdict(f, FLMEM_TREND_CLIMBING, 1 - slope.p_value,
			    "the low points of its rises and falls keep rising");
	} else if (surely_within(&slope, FLAT_SHARE * f->level / span) < least_sure(lows.count)) {
		set_verdict(f, FLMEM_TREND_TOO_EARLY, 0, teeth_hide_growth);
	}
}

/* True if low points too few for a trend differ so little that memory stays at its level. */
static bool are_low_points_level(const struct trend_curve *c, const struct flmem_sawtooth *teeth,
				 const struct stretch_finding *f)
{
	size_t first = f->first + teeth->at[0], last = f->first + teeth->at[teeth->count - 1];
	double span = (c->x[c->count - 1] - c->x[f->first]) / (c->x[last] - c->x[first]);
	double least = INFINITY, most = 0;

	for (size_t i = 0; i < teeth->count; i++) {
		least = fmin(least, c->bytes[f->first + teeth->at[i]]);
		most = fmax(most, c->bytes[f->first + teeth->at[i]]);
	}
	return (most - least) * span <= FLAT_SHARE * f->level;
}

/*
 * Examines flat memory once more: rises and falls that are larger than what counts as flat hide
 * growth between their low points, as garbage collections every few rounds do.
 */
static void examine_teeth(const struct trend_curve *c, struct stretch_finding *f)
{
	const double *y = c->bytes + f->first;
	struct flmem_sawtooth teeth;
	double swing;

	if (f->verdict != FLMEM_TREND_FLAT)
		return;
	swing = flmem_sawtooth_swing(y, f->count);
	if (swing <= fmax(FLAT_SHARE * f->level, MATERIAL_BYTES))
		return;
	flmem_sawtooth_find(y, f->count, swing / 2, &teeth);
	if (!flmem_sawtooth_is_regular(&teeth) && !flmem_sawtooth_run(y, f->count))
		return;
	if (teeth.count >= FLMEM_TREND_POINTS_MIN)
		judge_low_points(c, &teeth, f);
	else if (teeth.count < 2 || !are_low_points_level(c, &teeth, f))
		set_verdict(f, FLMEM_TREND_TOO_EARLY, 0, teeth_hide_growth);
}

/* Returns the probability that the next phase confirms so many before it (Laplace). */
static double share_of(double phases)
{
	return 1 - 1 / (2 + phases);
}

/*
 * Bounds the confidence by the phases and the time that the stretch covers: what happens once in a
 * longer phase than was watched cannot be seen, however many samples there are.
 */
static void bound_confidence(const struct trend_curve *c, struct stretch_finding *f)
{
	size_t last = c->count - 1;
	double rounds = c->rounds[last] - c->rounds[f->first];
	double spans = (c->hours[last] - c->hours[f->first]) / PHASE_HOURS;
	double phases = rounds >= PHASES_MIN ? rounds : spans;

	if (c->by_round)
		phases = spans = fmin(rounds + 1, (double)(f->count * c->group));
	if (f->verdict == FLMEM_TREND_FLAT && phases < PHASES_MIN)
		set_verdict(f, FLMEM_TREND_TOO_EARLY, 0,
			    "no phase of the job repeated yet: without rounds, watch for an hour");
	f->confidence = fmin(f->confidence, fmin(share_of(phases), share_of(spans)));
}

/* Examines the later part, too: it may have another trend, which continues and counts. */
static void examine_parts(const struct trend_curve *c, struct stretch_finding *ret_finding)
{
	struct stretch_finding part;
	bool other, again = false;

	examine_stretch(c, 0, ret_finding);
	if (ret_finding->verdict != FLMEM_TREND_CLIMBING)
		other = rises_since(c, &part, &again);
	else
		other = c->count >= 2 * FLMEM_TREND_POINTS_MIN &&
			has_levelled_off(c, ret_finding, &part);
	if (other)
		*ret_finding = part;
	else if (again && ret_finding->verdict == FLMEM_TREND_FLAT)
		set_verdict(ret_finding, FLMEM_TREND_TOO_EARLY, 0, teeth_hide_growth);
	if (ret_finding->verdict == FLMEM_TREND_STEPPED && !c->by_round &&
	    flmem_sawtooth_ends_rising(c->bytes, c->count,
				       fmax(STEP_SHARE * ret_finding->level, STEP_BYTES)))
		set_verdict(ret_finding, FLMEM_TREND_TOO_EARLY, 0,
			    "memory has begun to rise; whether that goes on is not known yet");
	examine_teeth(c, ret_finding);
	bound_confidence(c, ret_finding);
}

/* Keeps the lowest of each pair, so that a swing wider than one point is not taken for growth. */
static void curve_coarsen(const struct trend_curve *c, struct trend_curve *ret_coarse)
{
	ret_coarse->count = c->count / 2;
	ret_coarse->group = 2 * c->group;
	ret_coarse->late_min = (c->late_min + 1) / 2; /* covers the same time */
	ret_coarse->by_round = c->by_round;
	for (size_t i = 0; i < ret_coarse->count; i++) {
		size_t from = c->count - 2 * (ret_coarse->count - i);
		size_t low = c->bytes[from] <= c->bytes[from + 1] ? from : from + 1;

		ret_coarse->x[i] = c->x[low];
		ret_coarse->hours[i] = c->hours[low];
		ret_coarse->rounds[i] = c->rounds[low];
		ret_coarse->bytes[i] = c->bytes[low];
	}
}

static void examine_two_scales(const struct trend_curve *c, struct stretch_finding *ret_finding)
{
	struct trend_curve coarse;
	struct stretch_finding second;

	examine_parts(c, ret_finding);
	if (ret_finding->verdict != FLMEM_TREND_CLIMBING || c->count < 4 * FLMEM_TREND_POINTS_MIN)
		return;
	curve_coarsen(c, &coarse);
	examine_parts(&coarse, &second);
	if (second.verdict != FLMEM_TREND_CLIMBING)
		*ret_finding = second;
}

/* Copies the last measured points, without thinning. */
static void take_last(const struct flmem_trend_point *points, size_t count,
		      double y[FLMEM_ROBUST_POINTS_MAX])
{
	for (size_t i = 0; i < FLMEM_ROBUST_POINTS_MAX; i++)
		y[i] = (double)points[count - FLMEM_ROBUST_POINTS_MAX + i].bytes;
}

/* Collects low points of all measured points; each point of the curve is the lowest of a group. */
static void find_all_lows(const struct flmem_trend_point *points, size_t count, double swing,
			  struct trend_curve *c)
{
	struct flmem_tooth tooth = {.swing = swing};
	size_t found = 0, group;

	for (size_t i = 0; i < count; i++)
		found += flmem_tooth_add(&tooth, (double)points[i].bytes, i);
	group = (found + FLMEM_SAWTOOTH_MAX - 1) / FLMEM_SAWTOOTH_MAX;
	tooth = (struct flmem_tooth){.swing = swing};
	for (size_t i = 0, k = 0; i < count; i++) {
		if (!flmem_tooth_add(&tooth, (double)points[i].bytes, i))
			continue;
		if (k++ % group == 0)
			c->bytes[c->count++] = INFINITY;
		if ((double)points[tooth.ended].bytes >= c->bytes[c->count - 1])
			continue;
		c->bytes[c->count - 1] = (double)points[tooth.ended].bytes;
		c->hours[c->count - 1] =
			(double)(points[tooth.ended].at_us - points[0].at_us) / 3.6e9;
		c->rounds[c->count - 1] = (double)(points[tooth.ended].round - points[0].round);
		c->x[c->count - 1] = c->by_round ? c->rounds[c->count - 1] : c->hours[c->count - 1];
	}
}

/* Examines teeth that thinning has averaged away or changed (7 points by averages of 2). */
static void examine_thinned_teeth(const struct flmem_trend_point *points, size_t count,
				  struct stretch_finding *f)
{
	struct trend_curve lows = {.by_round = true, .group = 1};
	struct flmem_sawtooth all = {.count = 0};
	double y[FLMEM_ROBUST_POINTS_MAX], swing;

	if (f->verdict != FLMEM_TREND_FLAT || count <= FLMEM_ROBUST_POINTS_MAX)
		return;
	take_last(points, count, y);
	swing = flmem_sawtooth_swing(y, FLMEM_ROBUST_POINTS_MAX);
	if (swing <= fmax(FLAT_SHARE * f->level, MATERIAL_BYTES) ||
	    !flmem_sawtooth_run(y, FLMEM_ROBUST_POINTS_MAX))
		return;
	find_all_lows(points, count, swing / 2, &lows);
	while (all.count < lows.count) {
		all.at[all.count] = all.count;
		all.count++;
	}
	f->first = 0;
	if (all.count >= FLMEM_TREND_POINTS_MIN)
		judge_low_points(&lows, &all, f);
}

static struct flmem_i64 round_to_i64(double value)
{
	/* 2^62 exceeds any memory and is exact as a double. */
	static const double bound = 4611686018427387904.0;

	return (struct flmem_i64){.value = llround(fmin(bound, fmax(-bound, value)))};
}

static struct flmem_trend too_early(enum flmem_trend_basis basis, size_t count)
{
	static const char why[] = "not enough rounds or samples yet";
	const struct flmem_i64 unknown = {.unknown = why};

	return (struct flmem_trend){
		.verdict = FLMEM_TREND_TOO_EARLY,
		.basis = basis,
		.reason = why,
		.growth_per_round_bytes = unknown,
		.growth_per_hour_bytes = unknown,
		.low_bytes = unknown,
		.high_bytes = unknown,
		.step_bytes = unknown,
		.points = count,
	};
}

void flmem_trend_measure(const struct flmem_trend_point *points, size_t count,
			 enum flmem_trend_basis basis, struct flmem_trend *ret_trend)
{
	bool by_round = basis == FLMEM_TREND_BY_ROUND;
	struct stretch_finding f;
	struct trend_curve c;

	*ret_trend = too_early(basis, count);
	if (count < FLMEM_TREND_POINTS_MIN)
		return;
	thin_points(points, count, by_round, &c);
	if (c.x[c.count - 1] <= c.x[0])
		return;
	if (by_round) {
		examine_parts(&c, &f);
		examine_thinned_teeth(points, count, &f);
	} else {
		examine_two_scales(&c, &f);
	}
	ret_trend->verdict = f.verdict;
	ret_trend->reason = f.reason;
	ret_trend->confidence = f.confidence;
	ret_trend->points = f.count;
	ret_trend->growth_per_hour_bytes = round_to_i64(f.per_hour);
	ret_trend->growth_per_round_bytes =
		by_round ? round_to_i64(f.slope.slope)
			 : (struct flmem_i64){.unknown = "no rounds were seen"};
	ret_trend->low_bytes = round_to_i64(f.slope.low);
	ret_trend->high_bytes = round_to_i64(f.slope.high);
	ret_trend->step_bytes = round_to_i64(f.step);
}

/* Returns the time or rounds until the headroom is used up at this growth per unit. */
static struct flmem_u64 time_until(uint64_t headroom_bytes, double growth, double unit)
{
	double span = (double)headroom_bytes / growth * unit;

	if (!(span < 3.2e9)) /* limit: a hundred years */
		return FLMEM_UNKNOWN("not within a hundred years at this growth");
	return FLMEM_KNOWN((uint64_t)span);
}

void flmem_trend_forecast(const struct flmem_trend *trend, struct flmem_u64 headroom_bytes,
			  struct flmem_forecast *ret_forecast)
{
	double hour = (double)trend->growth_per_hour_bytes.value;
	double middle = trend->basis == FLMEM_TREND_BY_ROUND
				? (double)trend->growth_per_round_bytes.value
				: hour;
	struct flmem_u64 none = FLMEM_UNKNOWN("memory does not keep rising");

	if (trend->verdict == FLMEM_TREND_TOO_EARLY)
		none = FLMEM_UNKNOWN(trend->reason);
	else if (headroom_bytes.unknown)
		none = headroom_bytes;
	*ret_forecast = (struct flmem_forecast){none, none, none};
	if (trend->verdict != FLMEM_TREND_CLIMBING || headroom_bytes.unknown || hour <= 0 ||
	    middle <= 0)
		return;
	ret_forecast->exhausted_in_s = time_until(headroom_bytes.value, hour, 3600);
	ret_forecast->exhausted_earliest_s = time_until(
		headroom_bytes.value, hour * (double)trend->high_bytes.value / middle, 3600);
	ret_forecast->exhausted_in_rounds =
		trend->growth_per_round_bytes.unknown
			? FLMEM_UNKNOWN(trend->growth_per_round_bytes.unknown)
			: time_until(headroom_bytes.value,
				     (double)trend->growth_per_round_bytes.value, 1);
}
