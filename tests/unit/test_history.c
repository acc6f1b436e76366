/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "series/history.h"

#include "series.h"

#define SECOND UINT64_C(1000000)

static void a_month_fits(void **state)
{
	struct flmem_trend_point points[FLMEM_HISTORY_POINTS];
	struct flmem_history h;
	size_t count;

	(void)state;
	flmem_history_init(&h, SECOND);
	for (uint64_t i = 0; i < 30 * 86400; i++)
		flmem_history_add(&h, i * SECOND, 1000 + i % 60 + i / 86400);
	assert_true(h.samples == 30 * 86400);
	assert_true(h.count > FLMEM_HISTORY_SPANS / 2 && h.count <= FLMEM_HISTORY_SPANS);
	count = flmem_history_points(&h, points);
	assert_int_equal(count, FLMEM_HISTORY_POINTS);
	for (size_t i = 0; i < count; i++) {
		uint64_t day = points[i].at_us / SECOND / 86400;

		/* The bottom of the saw, at its day or, where a span began, the day before. */
		assert_true(points[i].bytes <= 1000 + day && points[i].bytes + 2 > 1000 + day);
		assert_true(!i || points[i].at_us > points[i - 1].at_us);
	}
}

static void spans_hold_extremes(void **state)
{
	struct flmem_history h;

	(void)state;
	flmem_history_init(&h, SECOND);
	for (uint64_t i = 0; i < 1000; i++)
		flmem_history_add(&h, i * SECOND, i == 500 ? 9999 : i == 501 ? 1 : 100);
	for (size_t i = 0; i < h.count; i++) {
		const struct flmem_span *s = &h.spans[i];
		int high = s->first_us <= 500 * SECOND && s->last_us >= 500 * SECOND;
		int low = s->first_us <= 501 * SECOND && s->last_us >= 501 * SECOND;

		assert_true(s->high_bytes == (high ? 9999U : 100U));
		assert_true(s->low_bytes == (low ? 1U : 100U));
	}
}

static void few_samples_give_few_points(void **state)
{
	struct flmem_trend_point points[FLMEM_HISTORY_POINTS];
	struct flmem_history h;

	(void)state;
	flmem_history_init(&h, SECOND);
	assert_int_equal(flmem_history_points(&h, points), 0);
	for (uint64_t i = 0; i < 23; i++)
		flmem_history_add(&h, i * SECOND, i);
	assert_int_equal(flmem_history_points(&h, points), 5);
	assert_true(points[0].bytes == 0);
	assert_true(points[4].bytes >= 18);
}

/* Points count how often memory rose and fell; a history that only grows, or trembles, has 0. */
static uint64_t phases_of(uint64_t (*bytes)(uint64_t i))
{
	struct flmem_trend_point points[FLMEM_HISTORY_POINTS];
	struct flmem_history h;
	size_t count;

	flmem_history_init(&h, SECOND);
	for (uint64_t i = 0; i < 900; i++)
		flmem_history_add(&h, i * SECOND, bytes(i));
	count = flmem_history_points(&h, points);
	for (size_t i = 1; i < count; i++)
		assert_true(points[i].round >= points[i - 1].round);
	return points[count - 1].round;
}

static uint64_t swinging(uint64_t i)
{
	return (100 + i / 45 % 2 * 50) << 20;
}

static uint64_t growing_in_steps(uint64_t i)
{
	return (100 + i / 45 * 50) << 20;
}

static uint64_t trembling(uint64_t i)
{
	return (UINT64_C(100) << 20) + i % 7 * 65536;
}

static void rises_and_falls_are_counted(void **state)
{
	(void)state;
	assert_true(phases_of(swinging) >= 8 && phases_of(swinging) <= 10);
	assert_int_equal(phases_of(growing_in_steps), 0);
	assert_int_equal(phases_of(trembling), 0);
}

static void gaps_and_clocks_that_stand_still_are_survived(void **state)
{
	struct flmem_trend_point points[FLMEM_HISTORY_POINTS];
	struct flmem_history h;
	uint64_t at = 0;

	(void)state;
	flmem_history_init(&h, 1);
	for (unsigned i = 0; i < 3000; i++) {
		at = i < 1000 ? at : at + (UINT64_C(1) << (i % 53));
		flmem_history_add(&h, i % 7 ? at : at / 2, 5);
	}
	flmem_history_add(&h, UINT64_MAX, 5);
	flmem_history_add(&h, 0, 5);
	assert_true(h.count <= FLMEM_HISTORY_SPANS);
	for (size_t i = 1; i < h.count; i++)
		assert_true(h.spans[i].first_us >= h.spans[i - 1].last_us);
	assert_true(flmem_history_points(&h, points) <= FLMEM_HISTORY_POINTS);
}

static void gaps_of_all_sizes_end(void **state)
{
	struct flmem_history h;

	(void)state;
	flmem_history_init(&h, 1);
	for (uint64_t i = 0; i < FLMEM_HISTORY_SPANS; i++)
		flmem_history_add(&h, i * (UINT64_MAX / FLMEM_HISTORY_SPANS), i);
	flmem_history_add(&h, UINT64_MAX, 1);
	assert_true(h.count <= FLMEM_HISTORY_SPANS);
}

#define MIB	 1048576.0
#define HALF_MIN UINT64_C(30)

/*
 * Returns the verdict of `hours` with a sample each half minute, of which bytes_at() has the MiB.
 */
static enum flmem_trend_verdict verdict_after(double hours, double (*bytes_at)(double share))
{
	struct flmem_trend_point points[FLMEM_HISTORY_POINTS];
	static struct flmem_history h;
	struct flmem_trend trend;
	uint64_t state = 12345;
	double count = hours * 120;

	flmem_history_init(&h, HALF_MIN * SECOND);
	for (uint64_t i = 0; (double)i < count; i++)
		flmem_history_add(
			&h, i * HALF_MIN * SECOND,
			(uint64_t)((bytes_at((double)i / count) + noise_normal(&state)) * MIB));
	flmem_trend_measure(points, flmem_history_points(&h, points), FLMEM_TREND_BY_HOUR, &trend);
	return trend.verdict;
}

static double leaks_late(double share)
{
	return 500 + (share > 0.6 ? 1500 * (share - 0.6) : 0);
}

static double leaks_late_and_little(double share)
{
	return 500 + (share > 0.5 ? 100 * (share - 0.5) : 0);
}

/* Memory falls, and rises back to where it began: no more than what the job has had before. */
static double falls_and_recovers(double share)
{
	return 900 - 400 * (share < 0.5 ? share * 2 : 2 - share * 2);
}

static double stays(double share)
{
	(void)share;
	return 500;
}

static void growth_that_begins_late_climbs_without_rounds(void **state)
{
	static const double hours[] = {2, 4, 8, 24};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(hours); i++) {
		assert_int_equal(verdict_after(hours[i], leaks_late), FLMEM_TREND_CLIMBING);
		assert_int_equal(verdict_after(hours[i], leaks_late_and_little),
				 FLMEM_TREND_CLIMBING);
		assert_int_not_equal(verdict_after(hours[i], falls_and_recovers),
				     FLMEM_TREND_CLIMBING);
		assert_int_not_equal(verdict_after(hours[i], stays), FLMEM_TREND_CLIMBING);
	}
}

/* There are too few points for growth that began late; but no level is reached. */
static double leaks_at_the_end(double share)
{
	return 500 + (share > 0.8 ? 4000 * (share - 0.8) : 0);
}

static double steps_up(double share)
{
	return share > 0.8 ? 900 : 500;
}

static void what_rises_at_the_end_has_reached_no_level(void **state)
{
	(void)state;
	for (double hours = 1; hours < 20; hours *= 2) {
		assert_int_equal(verdict_after(hours, leaks_at_the_end), FLMEM_TREND_TOO_EARLY);
		assert_int_equal(verdict_after(hours, steps_up), FLMEM_TREND_STEPPED);
	}
	assert_int_equal(verdict_after(1, leaks_late), FLMEM_TREND_TOO_EARLY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_month_fits),
		cmocka_unit_test(spans_hold_extremes),
		cmocka_unit_test(few_samples_give_few_points),
		cmocka_unit_test(rises_and_falls_are_counted),
		cmocka_unit_test(gaps_and_clocks_that_stand_still_are_survived),
		cmocka_unit_test(gaps_of_all_sizes_end),
		cmocka_unit_test(growth_that_begins_late_climbs_without_rounds),
		cmocka_unit_test(what_rises_at_the_end_has_reached_no_level),
	};

	return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
