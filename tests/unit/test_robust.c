/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "series.h"
#include "series/robust.h"
#include "series/steps.h"

static int by_value(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static void selection_agrees_with_sorting(void **state)
{
	uint64_t noise = 42;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		double values[40], sorted[40];
		size_t n = 1 + (size_t)(noise_uniform(&noise) * 40);
		size_t k = (size_t)(noise_uniform(&noise) * (double)n);
		double kinds = round % 2 ? 3 : 1e9; /* many equal values, or none */

		for (size_t i = 0; i < n; i++)
			values[i] = sorted[i] = floor(noise_uniform(&noise) * kinds);
		qsort(sorted, n, sizeof(*sorted), by_value);
		assert_true(flmem_robust_select(values, n, k) == sorted[k]);
		assert_true(flmem_robust_median(values, n) ==
			    (sorted[n / 2] + sorted[(n - 1) / 2]) / 2);
	}
}

static void the_slope_is_the_median_of_the_pairs(void **state)
{
	static const double x[] = {1, 2, 3, 4, 5, 6, 7}, y[] = {1, 2, 3, 4, 5, 16, 7};
	static const unsigned char part[7];
	const struct flmem_curve curve = {.x = x, .y = y, .segment = part, .count = 7};
	struct flmem_slope slope;

	(void)state;
	assert_true(flmem_robust_slope(&curve) == 1);
	flmem_robust_trend(&curve, &slope);
	assert_true(slope.slope == 1);
	assert_true(slope.low <= 1 && slope.high >= 1);
	assert_true(slope.p_value < 0.05);
}

static void pairs_across_a_jump_do_not_count(void **state)
{
	static const double x[] = {0, 1, 2, 3, 4, 5}, y[] = {5, 5, 5, 90, 90, 90};
	static const unsigned char one[6], two[] = {0, 0, 0, 1, 1, 1};
	struct flmem_curve curve = {.x = x, .y = y, .segment = one, .count = 6};

	(void)state;
	assert_true(flmem_robust_slope(&curve) > 10);
	curve.segment = two;
	assert_true(flmem_robust_slope(&curve) == 0);
}

static void no_pair_means_no_slope(void **state)
{
	static const double x[] = {3, 3, 3}, y[] = {1, 2, 9};
	static const unsigned char part[3];
	const struct flmem_curve still = {.x = x, .y = y, .segment = part, .count = 3};
	const struct flmem_curve single = {.x = x, .y = y, .segment = part, .count = 1};
	struct flmem_slope slope;

	(void)state;
	flmem_robust_trend(&still, &slope);
	assert_true(slope.slope == 0 && slope.p_value == 1);
	flmem_robust_trend(&single, &slope);
	assert_true(slope.slope == 0 && slope.p_value == 1);
}

static double width(const double *y)
{
	static const unsigned char part[40];
	struct flmem_slope slope;
	double x[40];

	for (size_t i = 0; i < 40; i++)
		x[i] = (double)i;
	flmem_robust_trend(&(struct flmem_curve){.x = x, .y = y, .segment = part, .count = 40},
			   &slope);
	return slope.high - slope.low;
}

static void correlated_noise_widens_the_interval(void **state)
{
	double y[40], last = 0, lasting = 0, mixed = 0;
	uint64_t noise = 9;

	(void)state;
	for (int round = 0; round < 50; round++) {
		for (size_t i = 0; i < 40; i++)
			y[i] = last = 0.8 * last + noise_normal(&noise);
		lasting += width(y);
		/* The same values in an order that has no memory. */
		for (size_t i = 39; i > 0; i--) {
			size_t k = (size_t)(noise_uniform(&noise) * (double)(i + 1));
			double kept = y[i];

			y[i] = y[k];
			y[k] = kept;
		}
		mixed += width(y);
	}
	assert_true(lasting > 1.5 * mixed);
}

static void jumps_are_found_where_they_are(void **state)
{
	double x[30], y[30];
	struct flmem_steps steps;
	uint64_t noise = 11;

	(void)state;
	for (size_t i = 0; i < 30; i++) {
		x[i] = (double)i;
		y[i] = 3 * (double)i + (i >= 8 ? 100 : 0) - (i >= 21 ? 60 : 0) +
		       noise_normal(&noise);
	}
	flmem_steps_find(x, y, 30, 20, &steps);
	assert_int_equal(steps.count, 2);
	assert_true(fabs(steps.height[0] - 100) < 4);
	assert_true(fabs(steps.height[1] + 60) < 4);
	for (size_t i = 0; i < 30; i++)
		assert_int_equal(steps.segment[i], (i >= 8) + (i >= 21));
	assert_true(steps.evidence > 10);
}

static void there_is_no_jump_in_a_line_or_in_noise(void **state)
{
	struct flmem_steps steps;
	double x[30], y[30];
	uint64_t noise = 13;
	int found = 0;

	(void)state;
	for (int round = 0; round < 200; round++) {
		for (size_t i = 0; i < 30; i++) {
			x[i] = (double)i;
			y[i] = (round % 2 ? 5 * (double)i : 0) + 10 * noise_normal(&noise);
		}
		flmem_steps_find(x, y, 30, 20, &steps);
		found += steps.count > 0;
	}
	assert_true(found <= 2);
}

static void few_points_hold_no_jump(void **state)
{
	static const double x[] = {0, 1, 2, 3, 4}, y[] = {0, 0, 900, 900, 900};
	struct flmem_steps steps;

	(void)state;
	for (size_t n = 1; n <= 5; n++) {
		flmem_steps_find(x, y, n, 20, &steps);
		assert_int_equal(steps.count, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selection_agrees_with_sorting),
		cmocka_unit_test(the_slope_is_the_median_of_the_pairs),
		cmocka_unit_test(pairs_across_a_jump_do_not_count),
		cmocka_unit_test(no_pair_means_no_slope),
		cmocka_unit_test(correlated_noise_widens_the_interval),
		cmocka_unit_test(jumps_are_found_where_they_are),
		cmocka_unit_test(there_is_no_jump_in_a_line_or_in_noise),
		cmocka_unit_test(few_points_hold_no_jump),
	};

	return cmocka_run_group_tests_name("robust", tests, NULL, NULL);
}
