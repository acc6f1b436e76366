/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/watch/round_stats.h"

#define SECOND UINT64_C(1000000)
#define MIB    UINT64_C(1048576)

static struct flmem_round_stats start_at(uint64_t interval_us, bool fresh)
{
	struct flmem_round_stats stats;

	flmem_round_stats_init(&stats, interval_us, fresh);
	return stats;
}

static void peak_trough_and_growth(void **state)
{
	struct flmem_round_stats s = start_at(SECOND, false);
	struct flmem_watch_round round;

	(void)state;
	assert_false(flmem_round_stats_start(&s, 0, 5, &round));
	assert_false(flmem_round_stats_sample(&s, SECOND, 100 * MIB, &round));
	assert_false(flmem_round_stats_sample(&s, 2 * SECOND, 300 * MIB, &round));
	assert_false(flmem_round_stats_start(&s, 20 * SECOND, 6, &round));
	assert_false(flmem_round_stats_sample(&s, 21 * SECOND, 120 * MIB, &round));
	assert_false(flmem_round_stats_sample(&s, 22 * SECOND, 110 * MIB, &round));
	/* The sample is after a quarter of the round's 20 s. */
	assert_true(flmem_round_stats_sample(&s, 25 * SECOND, 200 * MIB, &round));
	assert_int_equal(round.number, 5);
	assert_true(round.duration_us == 20 * SECOND);
	assert_true(round.peak_bytes.value == 300 * MIB);
	assert_true(round.trough_bytes.value == 110 * MIB);
	assert_non_null(round.growth_bytes.unknown);
	assert_false(flmem_round_stats_sample(&s, 39 * SECOND, 90 * MIB, &round));
	assert_false(flmem_round_stats_finish(&s, 40 * SECOND, &round));
	assert_false(flmem_round_stats_sample(&s, 41 * SECOND, 105 * MIB, &round));
	assert_true(flmem_round_stats_flush(&s, &round));
	assert_int_equal(round.number, 6);
	assert_true(round.peak_bytes.value == 200 * MIB);
	assert_true(round.trough_bytes.value == 105 * MIB);
	assert_true(round.growth_bytes.value == -5 * (int64_t)MIB);
	assert_false(flmem_round_stats_flush(&s, &round));
	assert_true(s.complete == 2);
}

static void rounds_without_samples_are_unknown(void **state)
{
	struct flmem_round_stats s = start_at(SECOND, false);
	struct flmem_watch_round round;

	(void)state;
	flmem_round_stats_start(&s, 0, 3, &round);
	assert_false(flmem_round_stats_start(&s, 10, 4, &round));
	assert_true(flmem_round_stats_start(&s, 20, 5, &round));
	assert_non_null(round.peak_bytes.unknown);
	assert_non_null(round.trough_bytes.unknown);
	assert_non_null(round.growth_bytes.unknown);
	assert_int_equal(s.count, 0);
}

static void an_end_without_a_start_is_nothing(void **state)
{
	struct flmem_round_stats s = start_at(SECOND, false);
	struct flmem_watch_round round;

	(void)state;
	assert_false(flmem_round_stats_finish(&s, 5, &round));
	assert_false(flmem_round_stats_flush(&s, &round));
}

/* Plays rounds of ten seconds with one sample at each end. */
static void play(struct flmem_round_stats *s, uint64_t first, uint64_t rounds)
{
	struct flmem_watch_round round;

	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t at = i * 10 * SECOND;

		flmem_round_stats_start(s, at, first + i, &round);
		flmem_round_stats_sample(s, at + 3 * SECOND, (100 + i) * MIB, &round);
	}
}

static void the_first_rounds_of_a_process_are_warm_up(void **state)
{
	struct flmem_round_stats young = start_at(SECOND, false), old = young;
	struct flmem_round_stats fresh = start_at(SECOND, true);

	(void)state;
	play(&young, 0, 11);
	assert_int_equal(young.count, 8);
	play(&old, 40, 11);
	assert_int_equal(old.count, 10);
	play(&fresh, 40, 11);
	assert_int_equal(fresh.count, 8);
}

static void any_number_of_rounds_fits(void **state)
{
	struct flmem_round_stats s = start_at(SECOND, false);
	struct flmem_trend trend;

	(void)state;
	play(&s, 10, 5000);
	assert_true(s.count > FLMEM_ROUND_POINTS / 2 && s.count <= FLMEM_ROUND_POINTS);
	flmem_trend_measure(s.points, s.count, FLMEM_TREND_BY_ROUND, &trend);
	assert_int_equal(trend.verdict, FLMEM_TREND_CLIMBING);
	assert_true(trend.growth_per_round_bytes.value > (int64_t)(MIB - MIB / 50));
	assert_true(trend.growth_per_round_bytes.value < (int64_t)(MIB + MIB / 50));
}

static void missing_rounds_leave_a_gap_and_new_jobs_do_not(void **state)
{
	struct flmem_round_stats s = start_at(SECOND, false);
	struct flmem_watch_round round;

	(void)state;
	flmem_round_stats_start(&s, 0, 5, &round);
	assert_true(s.ordinal == 1);
	flmem_round_stats_start(&s, 10, 9, &round);
	assert_true(s.ordinal == 5);
	flmem_round_stats_start(&s, 20, 0, &round);
	assert_true(s.ordinal == 6);
	flmem_round_stats_start(&s, 30, UINT64_MAX, &round);
	assert_true(s.ordinal == 7);
}

/* A point of several rounds has the mean of their troughs, also of rounds that came later. */
static void points_of_several_rounds_are_means(void **state)
{
	struct flmem_round_stats s = start_at(SECOND, false);

	(void)state;
	play(&s, 40, 131);
	assert_int_equal(s.count, 65);
	assert_true(s.points[0].bytes == 101 * MIB + MIB / 2);
	assert_true(s.points[64].bytes == 229 * MIB + MIB / 2);
}

static void the_second_round_of_a_process_is_warm_up(void **state)
{
	struct flmem_round_stats s = start_at(SECOND, false);

	(void)state;
	play(&s, 1, 11);
	assert_int_equal(s.count, 9);
}

static void the_trough_of_a_long_round_is_measured_for_half_a_minute(void **state)
{
	struct flmem_round_stats s = start_at(SECOND, false);
	struct flmem_watch_round round;

	(void)state;
	flmem_round_stats_start(&s, 0, 5, &round);
	flmem_round_stats_finish(&s, 1000 * SECOND, &round);
	assert_false(flmem_round_stats_sample(&s, 1029 * SECOND, MIB, &round));
	assert_true(flmem_round_stats_sample(&s, 1030 * SECOND, MIB, &round));
}

/*
 * Between trims memory rises and falls with them: only rounds that a trim followed are comparable.
 */
static void with_trims_only_rounds_before_one_count(void **state)
{
	struct flmem_round_stats s = start_at(SECOND, false);

	(void)state;
	play(&s, 40, 3);
	flmem_round_stats_trimmed(&s);
	assert_int_equal(s.count, 0);
	play(&s, 43, 3);
	assert_int_equal(s.count, 0);
	flmem_round_stats_trims_stop(&s);
	play(&s, 46, 3);
	assert_int_equal(s.count, 3);
}

/* Two jobs that write to one log give rounds 0, 1, 0, 2, 0, 3, 1, 4, ... These are not gaps. */
static void numbers_that_jump_back_and_forth_are_no_gaps(void **state)
{
	static const uint64_t numbers[] = {0, 1, 0, 2, 0, 3, 1, 4, 2, 5};
	struct flmem_round_stats s;
	struct flmem_watch_round round;

	(void)state;
	flmem_round_stats_init(&s, 1000, false);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		flmem_round_stats_start(&s, i * 1000000, numbers[i], &round);
	assert_true(s.ordinal == 10);
	flmem_round_stats_start(&s, 11000000, 8, &round);
	assert_true(s.ordinal == 13);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peak_trough_and_growth),
		cmocka_unit_test(rounds_without_samples_are_unknown),
		cmocka_unit_test(an_end_without_a_start_is_nothing),
		cmocka_unit_test(the_first_rounds_of_a_process_are_warm_up),
		cmocka_unit_test(any_number_of_rounds_fits),
		cmocka_unit_test(missing_rounds_leave_a_gap_and_new_jobs_do_not),
		cmocka_unit_test(points_of_several_rounds_are_means),
		cmocka_unit_test(the_second_round_of_a_process_is_warm_up),
		cmocka_unit_test(the_trough_of_a_long_round_is_measured_for_half_a_minute),
		cmocka_unit_test(with_trims_only_rounds_before_one_count),
		cmocka_unit_test(numbers_that_jump_back_and_forth_are_no_gaps),
	};

	return cmocka_run_group_tests_name("round_stats", tests, NULL, NULL);
}
