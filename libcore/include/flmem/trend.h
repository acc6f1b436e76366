/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TREND_H
#define FLMEM_TREND_H

/*
 * Trend of memory. Memory rises and falls within every round; in a leak it does not return to the
 * same level after each round. So a trend uses one value per round, best the minimum after the end
 * of the round. Without rounds it uses the minimum of each of many equal time spans.
 *
 * The confidence is bounded by the time and the number of job phases that the points cover: rounds,
 * or else rises and falls of memory. Rarer events cannot be seen.
 *
 * The slope is the Theil-Sen estimate with Sen's interval, which is robust against outliers;
 * one-off steps and growth that has ended are recognised. Where the distances from the line follow
 * each other as those of a random walk, growth must also be significant for a random walk (Harvey,
 * Leybourne and Taylor 2007). A rise that has not fallen back yet cannot be distinguished from a
 * longer sawtooth: this is what the bound of the confidence is for. The functions depend only on
 * their arguments; any thread may call them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/value.h>
#include <flmem/visibility.h>

/* Verdicts on a trend. X(NAME, text) */
#define FLMEM_TREND_VERDICTS(X)   \
	X(TOO_EARLY, "too-early") \
	X(FLAT, "flat")           \
	X(CLIMBING, "climbing")   \
	X(STEPPED, "stepped")     \
	X(FALLING, "falling")

enum flmem_trend_verdict {
#define FLMEM_TREND_VERDICT_ENUM(name, text) FLMEM_TREND_##name,
	FLMEM_TREND_VERDICTS(FLMEM_TREND_VERDICT_ENUM)
#undef FLMEM_TREND_VERDICT_ENUM
};

/* Returns the name of a verdict ("too-early", ...); static text. */
FLMEM_API const char *flmem_trend_verdict_name(enum flmem_trend_verdict verdict);

struct flmem_trend_point {
	uint64_t at_us; /* time by any monotonic clock */
	/* Number of the round; without rounds, the number of rises and falls so far. */
	uint64_t round;
	uint64_t bytes;
};

/* What the growth and its interval refer to. */
enum flmem_trend_basis {
	FLMEM_TREND_BY_ROUND,
	FLMEM_TREND_BY_HOUR,
};

struct flmem_trend {
	enum flmem_trend_verdict verdict;
	enum flmem_trend_basis basis;
	const char *reason; /* static: why this verdict; one sentence without a full stop */
	double confidence;  /* confidence of the verdict, 0 to 1; 0 for too-early */
	struct flmem_i64 growth_per_round_bytes;
	struct flmem_i64 growth_per_hour_bytes;
	/* 95 % interval of the growth, per round or per hour (see `basis`) */
	struct flmem_i64 low_bytes;
	struct flmem_i64 high_bytes; /* upper end of that interval */
	struct flmem_i64 step_bytes; /* sum of all one-off steps; 0: none seen */
	size_t points;		     /* number of points used for the verdict */
};

/* Minimum number of points for a verdict. */
#define FLMEM_TREND_POINTS_MIN 6U

/*
 * Measures the trend of points in ascending order of time, which must not include the warm-up.
 * Surplus points are averaged in groups. FLMEM_TREND_BY_ROUND treats the points as rounds with
 * ascending numbers.
 */
FLMEM_API void flmem_trend_measure(const struct flmem_trend_point *points, size_t count,
				   enum flmem_trend_basis basis, struct flmem_trend *ret_trend);

struct flmem_forecast {
	/* Time until the headroom is used up at the estimated growth. */
	struct flmem_u64 exhausted_in_s;
	/* The same time at the upper end of the growth's interval. */
	struct flmem_u64 exhausted_earliest_s;
	struct flmem_u64 exhausted_in_rounds;
};

/*
 * Predicts when a process with this trend exhausts `headroom_bytes`, the limit minus the peak of
 * the last rounds. The times are unknown, with the reason, unless memory climbs and the limit is
 * known.
 */
FLMEM_API void flmem_trend_forecast(const struct flmem_trend *trend,
				    struct flmem_u64 headroom_bytes,
				    struct flmem_forecast *ret_forecast);

#endif
