/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/trend.h>

#include "series.h"

#define MIB	   1048576.0
#define LEVEL	   (400 * MIB)
#define ROUND_US   UINT64_C(30000000)
#define ROUNDS_MAX 400

/* A history: level + growth per round + noise, and the additions of a test. */
struct history {
	struct flmem_trend_point points[ROUNDS_MAX];
	size_t count;
	uint64_t seed;
};

static void make(struct history *h, size_t count, double growth, double noise)
{
	uint64_t state = h->seed * 2654435761U + 12345;

	h->count = count;
	for (size_t i = 0; i < count; i++) {
		double bytes = LEVEL + growth * (double)i + noise * noise_normal(&state);

		h->points[i] = (struct flmem_trend_point){
			.at_us = ROUND_US * i, .round = i, .bytes = (uint64_t)bytes};
	}
}

static struct flmem_trend measure(const struct history *h)
{
	struct flmem_trend trend;

	memset(&trend, 0xa5, sizeof(trend));
	flmem_trend_measure(h->points, h->count, FLMEM_TREND_BY_ROUND, &trend);
	assert_true(trend.confidence >= 0 && trend.confidence < 1);
	assert_non_null(trend.reason);
	return trend;
}

static void add_from(struct history *h, size_t first, double bytes)
{
	for (size_t i = first; i < h->count; i++)
		h->points[i].bytes += (uint64_t)bytes;
}

static void few_points_are_too_early(void **state)
{
	struct history h = {.seed = 1};

	(void)state;
	for (size_t n = 0; n < FLMEM_TREND_POINTS_MIN; n++) {
		struct flmem_trend trend;

		make(&h, n, 20 * MIB, 0);
		trend = measure(&h);
		assert_int_equal(trend.verdict, FLMEM_TREND_TOO_EARLY);
		assert_non_null(trend.growth_per_round_bytes.unknown);
		assert_non_null(trend.low_bytes.unknown);
	}
}

static void an_exact_line_has_its_slope(void **state)
{
	struct history h = {.seed = 1};
	struct flmem_trend trend;

	(void)state;
	make(&h, 20, 4 * MIB, 0);
	trend = measure(&h);
	assert_int_equal(trend.verdict, FLMEM_TREND_CLIMBING);
	assert_true(trend.growth_per_round_bytes.value == 4 * 1048576);
	assert_true(trend.low_bytes.value == 4 * 1048576);
	assert_true(trend.high_bytes.value == 4 * 1048576);
	assert_true(trend.growth_per_hour_bytes.value == 120 * 4 * 1048576);
	/* A sawtooth may fall back in the next round: 20 rounds bound the confidence. */
	assert_true(trend.confidence > 0.95 && trend.confidence < 0.96);
	make(&h, 400, 4 * MIB, 0);
	assert_true(measure(&h).confidence > 0.99);
	make(&h, 20, -4 * MIB, 0);
	trend = measure(&h);
	assert_int_equal(trend.verdict, FLMEM_TREND_FALLING);
	assert_true(trend.growth_per_round_bytes.value == -4 * 1048576);
}

static void a_constant_is_surely_flat(void **state)
{
	struct history h = {.seed = 1};
	struct flmem_trend trend;

	(void)state;
	make(&h, 6, 0, 0);
	trend = measure(&h);
	assert_int_equal(trend.verdict, FLMEM_TREND_FLAT);
	/* Six rounds cannot show an event of every tenth round. */
	assert_true(trend.confidence > 0.8 && trend.confidence < 0.9);
	make(&h, 120, 0, 0);
	trend = measure(&h);
	assert_int_equal(trend.verdict, FLMEM_TREND_FLAT);
	assert_true(trend.confidence > 0.99);
	assert_true(trend.growth_per_round_bytes.value == 0);
	assert_true(trend.step_bytes.value == 0);
}

/* The number of histories in which a verdict is sought; each is checked once, at its end. */
#define HISTORIES 200

static int count_verdicts(enum flmem_trend_verdict verdict, size_t rounds, double growth,
			  double noise)
{
	int found = 0;

	for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
		struct history h = {.seed = seed};

		make(&h, rounds, growth * LEVEL, noise * LEVEL);
		found += measure(&h).verdict == verdict;
	}
	return found;
}

static void healthy_histories_do_not_climb(void **state)
{
	static const double noises[] = {0.001, 0.01, 0.1};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		assert_true(count_verdicts(FLMEM_TREND_CLIMBING, 18, 0, noises[i]) <= 2);
		assert_true(count_verdicts(FLMEM_TREND_CLIMBING, 60, 0, noises[i]) <= 1);
		assert_true(count_verdicts(FLMEM_TREND_FLAT, 60, 0, noises[i]) >= 198);
	}
}

static void leaks_are_found(void **state)
{
	(void)state;
	/* Growth is 1 % a round within 20 rounds, two of them warm-up; by then noise may be 1 %. */
	assert_int_equal(count_verdicts(FLMEM_TREND_CLIMBING, 18, 0.01, 0.001), HISTORIES);
	assert_int_equal(count_verdicts(FLMEM_TREND_CLIMBING, 18, 0.01, 0.01), HISTORIES);
	assert_true(count_verdicts(FLMEM_TREND_CLIMBING, 12, 0.05, 0.01) >= 195);
	/* Growth of 0.1 % a round takes longer. */
	assert_true(count_verdicts(FLMEM_TREND_CLIMBING, 60, 0.001, 0.005) >= 199);
	assert_int_equal(count_verdicts(FLMEM_TREND_CLIMBING, 200, 0.001, 0.01), HISTORIES);
}

static void the_interval_holds_the_growth(void **state)
{
	int inside = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
		struct history h = {.seed = seed};
		struct flmem_trend trend;

		make(&h, 40, 2 * MIB, 4 * MIB);
		trend = measure(&h);
		assert_int_equal(trend.verdict, FLMEM_TREND_CLIMBING);
		assert_true(trend.low_bytes.value <= trend.growth_per_round_bytes.value);
		assert_true(trend.high_bytes.value >= trend.growth_per_round_bytes.value);
		inside += trend.low_bytes.value <= 2097152 && trend.high_bytes.value >= 2097152;
	}
	assert_true(inside >= HISTORIES * 92 / 100);
}

static void wild_rounds_do_not_move_it(void **state)
{
	struct history h = {.seed = 7};
	struct flmem_trend trend;

	(void)state;
	make(&h, 30, 0, MIB);
	h.points[28].bytes += (uint64_t)(900 * MIB);
	h.points[25].bytes += (uint64_t)(700 * MIB);
	h.points[12].bytes += (uint64_t)(800 * MIB);
	assert_int_equal(measure(&h).verdict, FLMEM_TREND_FLAT);
	make(&h, 30, 4 * MIB, MIB);
	h.points[3].bytes += (uint64_t)(900 * MIB);
	h.points[9].bytes += (uint64_t)(900 * MIB);
	trend = measure(&h);
	assert_int_equal(trend.verdict, FLMEM_TREND_CLIMBING);
	assert_true(llabs(trend.growth_per_round_bytes.value - 4194304) < 419430);
}

static void a_step_is_no_slope(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
		struct history h = {.seed = seed};
		struct flmem_trend trend;

		make(&h, 24, 0, MIB);
		add_from(&h, 4 + seed % 16, 60 * MIB);
		trend = measure(&h);
		assert_int_equal(trend.verdict, FLMEM_TREND_STEPPED);
		assert_true(llabs(trend.step_bytes.value - 60 * 1048576) < 4 * 1048576);
		add_from(&h, 20, 60 * MIB);
		assert_int_not_equal(measure(&h).verdict, FLMEM_TREND_CLIMBING);
	}
}

static void a_slope_with_a_step_is_a_slope(void **state)
{
	struct flmem_trend trend;

	(void)state;
	for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
		struct history h = {.seed = seed};

		make(&h, 40, 4 * MIB, MIB);
		add_from(&h, 10 + seed % 16, 200 * MIB);
		trend = measure(&h);
		assert_int_equal(trend.verdict, FLMEM_TREND_CLIMBING);
		assert_true(llabs(trend.growth_per_round_bytes.value - 4194304) < 700000);
	}
}

static void a_staircase_climbs(void **state)
{
	struct history h = {.seed = 3};

	(void)state;
	make(&h, 60, 0, 0.2 * MIB);
	for (size_t i = 6; i < 60; i += 6)
		add_from(&h, i, 64 * MIB);
	assert_int_equal(measure(&h).verdict, FLMEM_TREND_CLIMBING);
}

static struct flmem_trend measure_by_hour(const struct history *h)
{
	struct flmem_trend trend;

	flmem_trend_measure(h->points, h->count, FLMEM_TREND_BY_HOUR, &trend);
	return trend;
}

/* Returns the trend of a constant over this time, without rises and falls. */
static struct flmem_trend hold(uint64_t step_us)
{
	struct history h = {.seed = 1};

	make(&h, 48, 0, 0);
	for (size_t i = 0; i < h.count; i++) {
		h.points[i].at_us = i * step_us;
		h.points[i].round = 0;
	}
	return measure_by_hour(&h);
}

/* Growth of 450 MiB an hour may be going on: all of it may come at the end of each period. */
static void what_was_watched_for_less_than_a_phase_is_too_early(void **state)
{
	struct flmem_trend trend;

	(void)state;
	trend = hold(UINT64_C(10000000));
	assert_int_equal(trend.verdict, FLMEM_TREND_TOO_EARLY);
	assert_true(trend.confidence == 0);
	trend = hold(UINT64_C(80000000));
	assert_int_equal(trend.verdict, FLMEM_TREND_FLAT);
	assert_true(trend.confidence > 0.8 && trend.confidence < 0.9);
	trend = hold(UINT64_C(3600000000));
	assert_int_equal(trend.verdict, FLMEM_TREND_FLAT);
	assert_true(trend.confidence > 0.99);
}

/* The time is the same, with more samples. */
static void more_samples_give_no_more_confidence(void **state)
{
	struct history few = {.seed = 1}, many = {.seed = 1};

	(void)state;
	make(&few, 12, 0, 0);
	make(&many, 360, 0, 0);
	for (size_t i = 0; i < many.count; i++) {
		many.points[i].at_us = i * 11 * ROUND_US / 359;
		many.points[i].round = i * 11 / 359;
	}
	assert_true(measure_by_hour(&few).confidence >= measure_by_hour(&many).confidence);
	assert_true(measure_by_hour(&few).confidence < 0.7);
}

/* A step comes in every twentieth round: before the second step nothing is certain. */
static void steps_of_a_long_period_are_not_surely_flat(void **state)
{
	(void)state;
	for (size_t rounds = 6; rounds < 20; rounds++) {
		struct history h = {.seed = rounds};

		make(&h, rounds, 0, 0.2 * MIB);
		assert_true(measure(&h).confidence < 0.96);
	}
	for (size_t rounds = 90; rounds <= 200; rounds += 10) {
		struct history h = {.seed = rounds};

		make(&h, rounds, 0, 0.2 * MIB);
		for (size_t i = 20; i < rounds; i += 20)
			add_from(&h, i, 40 * MIB);
		assert_int_equal(measure(&h).verdict, FLMEM_TREND_CLIMBING);
	}
}

/*
 * The steps are too few for a staircase, but they continue: memory that rose has not levelled off.
 */
static void steps_that_go_on_are_not_flat(void **state)
{
	static const struct {
		size_t rounds, period;
	} rows[] = {{40, 13}, {60, 20}, {120, 33}, {20, 7}};

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++)
		for (size_t n = 0; n < 4; n++) {
			struct history h = {.seed = seed};

			make(&h, rows[n].rounds, 0, n == 3 ? 2 * MIB : 0.2 * MIB);
			for (size_t i = rows[n].period - 1; i < h.count; i += rows[n].period)
				add_from(&h, i, 20 * MIB);
			assert_int_not_equal(measure(&h).verdict, FLMEM_TREND_FLAT);
		}
}

/* A cache that fills has the course level + height (1 - exp(-i / pace)). */
static void a_cache_that_has_filled_is_flat(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= HISTORIES; seed++)
		for (int half = 1; half <= 8; half *= 2) {
			double pace = half / 2.0;
			struct history h = {.seed = seed};

			make(&h, 40, 0, MIB);
			for (size_t i = 0; i < h.count; i++)
				h.points[i].bytes +=
					(uint64_t)(150 * MIB * (1 - exp(-(double)i / pace)));
			assert_int_not_equal(measure(&h).verdict, FLMEM_TREND_CLIMBING);
		}
}

static void growth_that_ends_is_flat_and_one_that_begins_climbs(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
		struct history h = {.seed = seed};

		make(&h, 40, 0, MIB);
		for (size_t i = 0; i < h.count; i++)
			h.points[i].bytes += (uint64_t)(8 * MIB * (double)(i < 15 ? i : 15));
		assert_int_not_equal(measure(&h).verdict, FLMEM_TREND_CLIMBING);
		make(&h, 60, 0, MIB);
		for (size_t i = 40; i < h.count; i++)
			h.points[i].bytes += (uint64_t)(8 * MIB * (double)(i - 40));
		assert_int_equal(measure(&h).verdict, FLMEM_TREND_CLIMBING);
	}
}

/* Memory remembers: each round keeps 0.7 of the last round's distance from its level. */
static void noise_that_lasts_does_not_climb(void **state)
{
	int climbing = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
		struct history h = {.seed = seed};
		uint64_t noise = seed * 7919;
		double off = 0;

		make(&h, 40, 0, 0);
		for (size_t i = 0; i < h.count; i++) {
			off = 0.7 * off + 4 * MIB * noise_normal(&noise);
			h.points[i].bytes = (uint64_t)(LEVEL + off);
		}
		climbing += measure(&h).verdict == FLMEM_TREND_CLIMBING;
	}
	assert_true(climbing <= HISTORIES * 4 / 100);
}

/* Garbage is collected every few rounds, as on a real server. */
static void growth_that_is_given_back_does_not_climb(void **state)
{
	int climbing = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
		for (size_t period = 8; period <= 14; period += 2) {
			struct history h = {.seed = seed};

			make(&h, 40, 0, MIB);
			for (size_t i = 0; i < h.count; i++)
				h.points[i].bytes +=
					(uint64_t)(5 * MIB * (double)((i + seed) % period));
			climbing += measure(&h).verdict == FLMEM_TREND_CLIMBING;
		}
	}
	assert_true(climbing <= HISTORIES * 4 * 2 / 100);
}

/* Makes the lowest of 16 samples in each of 48 spans of a sawtooth, whose period is in spans. */
static void make_sawtooth(struct history *h, double period, double growth)
{
	make(h, 48, growth, 0.2 * MIB);
	for (size_t i = 0; i < h->count; i++) {
		double low = 1;

		for (size_t k = 0; k < 16; k++)
			low = fmin(low, fmod(((double)i + (double)k / 16) / period + 0.13, 1));
		h->points[i].bytes += (uint64_t)(200 * MIB * low);
	}
}

static void a_sawtooth_without_rounds_is_flat(void **state)
{
	struct flmem_trend trend;

	(void)state;
	/* A tooth has at least ten samples: with fewer the samples themselves beat. */
	for (int step = 0; step < 44; step++) {
		struct history h = {.seed = 5};

		make_sawtooth(&h, 0.625 * pow(1.07, step), 0);
		flmem_trend_measure(h.points, h.count, FLMEM_TREND_BY_HOUR, &trend);
		assert_int_not_equal(trend.verdict, FLMEM_TREND_CLIMBING);
		assert_non_null(trend.growth_per_round_bytes.unknown);
		assert_int_equal(trend.basis, FLMEM_TREND_BY_HOUR);
	}
}

static void a_leak_under_a_sawtooth_climbs(void **state)
{
	struct flmem_trend trend;

	(void)state;
	for (int step = 0; step < 28; step++) {
		struct history h = {.seed = 5};

		make_sawtooth(&h, 0.3 * pow(1.07, step), 8 * MIB);
		flmem_trend_measure(h.points, h.count, FLMEM_TREND_BY_HOUR, &trend);
		assert_int_equal(trend.verdict, FLMEM_TREND_CLIMBING);
		assert_true(llabs(trend.growth_per_hour_bytes.value - 960 * 1048576) <
			    144 * 1048576);
	}
}

/*
 * Counts verdicts for memory that grows by a share of its level, while collections every few rounds
 * free some.
 */
static int count_teeth(enum flmem_trend_verdict verdict, size_t rounds, size_t period,
		       double growth)
{
	int found = 0;

	for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
		struct history h = {.seed = seed};

		make(&h, rounds, growth * LEVEL / (double)rounds, 0.002 * LEVEL);
		for (size_t i = 0; i < rounds; i++)
			h.points[i].bytes +=
				(uint64_t)(0.4 * LEVEL * (double)((i + seed) % period) / 4);
		found += measure(&h).verdict == verdict;
	}
	return found;
}

static void teeth_larger_than_the_growth_do_not_look_flat(void **state)
{
	(void)state;
	assert_true(count_teeth(FLMEM_TREND_FLAT, 18, 5, 0.2) <= 2);
	assert_true(count_teeth(FLMEM_TREND_FLAT, 30, 5, 0.2) <= 2);
	assert_true(count_teeth(FLMEM_TREND_FLAT, 14, 2, 0.08) <= 2);
	assert_true(count_teeth(FLMEM_TREND_FLAT, 30, 5, 0) >= 190);
	assert_int_equal(count_teeth(FLMEM_TREND_CLIMBING, 30, 5, 0), 0);
}

static void points_that_stand_still_in_time_give_no_verdict(void **state)
{
	struct history h = {.seed = 1};

	(void)state;
	make(&h, 30, MIB, 0);
	for (size_t i = 0; i < h.count; i++)
		h.points[i].at_us = h.points[i].round = 5;
	assert_int_equal(measure(&h).verdict, FLMEM_TREND_TOO_EARLY);
}

static void extreme_numbers_are_survived(void **state)
{
	struct history h = {.seed = 1, .count = 100};
	struct flmem_trend trend;

	(void)state;
	for (size_t i = 0; i < h.count; i++)
		h.points[i] = (struct flmem_trend_point){
			.at_us = i ? UINT64_MAX - 100 + i : 0,
			.round = i ? UINT64_MAX - 100 + i : 0,
			.bytes = i % 2 ? UINT64_MAX : 0,
		};
	trend = measure(&h);
	assert_true(trend.low_bytes.value <= trend.high_bytes.value);
	for (size_t i = 0; i < h.count; i++)
		h.points[i] = (struct flmem_trend_point){.at_us = i, .round = i, .bytes = i << 57};
	measure(&h);
}

static void a_forecast_divides_the_headroom_by_the_growth(void **state)
{
	const struct flmem_u64 room = FLMEM_KNOWN(UINT64_C(1200) * 1048576);
	struct history h = {.seed = 1};
	struct flmem_forecast forecast;
	struct flmem_trend trend;

	(void)state;
	make(&h, 20, 4 * MIB, 0);
	trend = measure(&h);
	flmem_trend_forecast(&trend, room, &forecast);
	assert_true(forecast.exhausted_in_rounds.value == 300);
	assert_true(forecast.exhausted_in_s.value == 9000);
	assert_true(forecast.exhausted_earliest_s.value == 9000);
	flmem_trend_forecast(&trend, FLMEM_UNKNOWN("no limit"), &forecast);
	assert_string_equal(forecast.exhausted_in_s.unknown, "no limit");
	make(&h, 20, 0, 0);
	trend = measure(&h);
	flmem_trend_forecast(&trend, room, &forecast);
	assert_non_null(forecast.exhausted_in_s.unknown);
	assert_non_null(forecast.exhausted_in_rounds.unknown);
}

static void a_forecast_is_near_once_it_is_made(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
		const struct flmem_u64 room = FLMEM_KNOWN(UINT64_C(4000) * 1048576);
		struct history h = {.seed = seed};
		struct flmem_forecast forecast;
		struct flmem_trend trend;

		make(&h, 18, 4 * MIB, 2 * MIB);
		trend = measure(&h);
		flmem_trend_forecast(&trend, room, &forecast);
		assert_true(llabs((int64_t)forecast.exhausted_in_rounds.value - 1000) <= 150);
		assert_true(forecast.exhausted_earliest_s.value <= forecast.exhausted_in_s.value);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_points_are_too_early),
		cmocka_unit_test(an_exact_line_has_its_slope),
		cmocka_unit_test(a_constant_is_surely_flat),
		cmocka_unit_test(healthy_histories_do_not_climb),
		cmocka_unit_test(leaks_are_found),
		cmocka_unit_test(the_interval_holds_the_growth),
		cmocka_unit_test(wild_rounds_do_not_move_it),
		cmocka_unit_test(a_step_is_no_slope),
		cmocka_unit_test(a_slope_with_a_step_is_a_slope),
		cmocka_unit_test(a_staircase_climbs),
		cmocka_unit_test(what_was_watched_for_less_than_a_phase_is_too_early),
		cmocka_unit_test(more_samples_give_no_more_confidence),
		cmocka_unit_test(steps_of_a_long_period_are_not_surely_flat),
		cmocka_unit_test(steps_that_go_on_are_not_flat),
		cmocka_unit_test(a_cache_that_has_filled_is_flat),
		cmocka_unit_test(growth_that_ends_is_flat_and_one_that_begins_climbs),
		cmocka_unit_test(noise_that_lasts_does_not_climb),
		cmocka_unit_test(growth_that_is_given_back_does_not_climb),
		cmocka_unit_test(a_sawtooth_without_rounds_is_flat),
		cmocka_unit_test(a_leak_under_a_sawtooth_climbs),
		cmocka_unit_test(teeth_larger_than_the_growth_do_not_look_flat),
		cmocka_unit_test(points_that_stand_still_in_time_give_no_verdict),
		cmocka_unit_test(extreme_numbers_are_survived),
		cmocka_unit_test(a_forecast_divides_the_headroom_by_the_growth),
		cmocka_unit_test(a_forecast_is_near_once_it_is_made),
	};

	return cmocka_run_group_tests_name("trend", tests, NULL, NULL);
}
