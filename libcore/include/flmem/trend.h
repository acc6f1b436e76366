/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TREND_H
#define FLMEM_TREND_H

/*
 * Whether memory grows. A process's memory goes up and down within every round; what tells a leak
 * is whether it comes back to the same level at the same phase of each round. So a trend is
 * measured on one value per round, best the lowest after the round's end, or, without rounds, on
 * the lowest value of each of many equal spans of time.
 *
 * The slope is the Theil-Sen estimate with Sen's interval, so that single wild rounds do not move
 * it; it is told from one-off steps, and from growth that has come to its end. Pure functions of
 * their arguments, any thread.
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

FLMEM_API const char *flmem_trend_verdict_name(enum flmem_trend_verdict verdict);

struct flmem_trend_point {
	uint64_t at_us; /* any clock that only goes forward */
	uint64_t round; /* number of the round; not used without rounds */
	uint64_t bytes;
};

/* What the growth is counted by, and what low and high are per. */
enum flmem_trend_basis {
	FLMEM_TREND_BY_ROUND,
	FLMEM_TREND_BY_HOUR,
};

struct flmem_trend {
	enum flmem_trend_verdict verdict;
	enum flmem_trend_basis basis;
	const char *because; /* static: one sentence without a full stop */
	double confidence;   /* 0 to 1: how sure the verdict is; 0 for too-early */
	struct flmem_i64 growth_per_round_bytes;
	struct flmem_i64 growth_per_hour_bytes;
	struct flmem_i64 low_bytes;  /* 95 % interval of the growth, per round or per hour: */
	struct flmem_i64 high_bytes; /* see `basis` */
	struct flmem_i64 step_bytes; /* all one-off steps together; 0: none seen */
	size_t points;		     /* that the verdict rests on */
};

/* Fewer points than this never give a verdict. */
#define FLMEM_TREND_POINTS_MIN 6U

/*
 * Measures the trend of points in ascending order of time, of which the caller has left out those
 * of the warm-up. More points than are needed are averaged in groups. FLMEM_TREND_BY_ROUND takes
 * the points for rounds, numbered upwards.
 */
FLMEM_API void flmem_trend_measure(const struct flmem_trend_point *points, size_t count,
				   enum flmem_trend_basis basis, struct flmem_trend *ret_trend);

struct flmem_forecast {
	struct flmem_u64 exhausted_in_s;       /* until the headroom is used up at this growth */
	struct flmem_u64 exhausted_earliest_s; /* at the highest growth within the interval */
	struct flmem_u64 exhausted_in_rounds;
};

/*
 * When a process with this trend will have used up `headroom_bytes`: the limit less the highest
 * level of the last rounds. Unknown, with the reason, unless it climbs towards a known limit.
 */
FLMEM_API void flmem_trend_forecast(const struct flmem_trend *trend,
				    struct flmem_u64 headroom_bytes,
				    struct flmem_forecast *ret_forecast);

#endif
