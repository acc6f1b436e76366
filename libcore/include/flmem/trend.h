/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TREND_H
#define FLMEM_TREND_H

/*
 * Trend of memory. Memory rises and falls within every round; in a leak it does not return to the
 * same level after each round. So a trend uses one value per round, best the minimum after the end
 * of the round. Without rounds it uses the minimum of each of many equal time spans.
 *
 * The confidence is bounded by the phases of the job that were covered: rounds, else rises and
 * falls of memory, and the time. Rarer events cannot be seen.
 *
 * The slope is the Theil-Sen estimate with Sen's interval, which is robust against outliers;
 * one-off steps and growth that has ended are recognised. Pure functions of their arguments, any
 * thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/value.h>
#include <flmem/visibility.h>

/* X(NAME, text) */
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

/* "too-early", ...; static. */
FLMEM_API const char *flmem_trend_verdict_name(enum flmem_trend_verdict verdict);

struct flmem_trend_point {
	uint64_t at_us; /* any monotonic clock */
	uint64_t round; /* number of the round; without rounds, of rises and falls so far */
	uint64_t bytes;
};

/* Basis of the growth, also of its interval low to high. */
enum flmem_trend_basis {
	FLMEM_TREND_BY_ROUND,
	FLMEM_TREND_BY_HOUR,
};

struct flmem_trend {
	enum flmem_trend_verdict verdict;
	enum flmem_trend_basis basis;
	const char *reason; /* static: one sentence without a full stop */
	double confidence;  /* of the verdict, 0 to 1; 0 for too-early */
	struct flmem_i64 growth_per_round_bytes;
	struct flmem_i64 growth_per_hour_bytes;
	struct flmem_i64 low_bytes;  /* 95 % interval of the growth, per round or per hour: */
	struct flmem_i64 high_bytes; /* see `basis` */
	struct flmem_i64 step_bytes; /* all one-off steps together; 0: none seen */
	size_t points;		     /* used for the verdict */
};

/* Minimum number of points for a verdict. */
#define FLMEM_TREND_POINTS_MIN 6U

/*
 * Measures the trend of points in ascending order of time, without those of the warm-up. Surplus
 * points are averaged in groups. FLMEM_TREND_BY_ROUND treats the points as rounds with ascending
 * numbers.
 */
FLMEM_API void flmem_trend_measure(const struct flmem_trend_point *points, size_t count,
				   enum flmem_trend_basis basis, struct flmem_trend *ret_trend);

struct flmem_forecast {
	struct flmem_u64 exhausted_in_s;       /* until the headroom is used up at this growth */
	struct flmem_u64 exhausted_earliest_s; /* at the highest growth within the interval */
	struct flmem_u64 exhausted_in_rounds;
};

/*
 * Time until a process with this trend exhausts `headroom_bytes`: the limit minus the peak of the
 * last rounds. Unknown, with the reason, unless memory climbs and the limit is known.
 */
FLMEM_API void flmem_trend_forecast(const struct flmem_trend *trend,
				    struct flmem_u64 headroom_bytes,
				    struct flmem_forecast *ret_forecast);

#endif
