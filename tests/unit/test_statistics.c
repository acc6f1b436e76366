/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "aggregate/statistics.h"
#include "base/cleanup.h"

static void finite_elements_count(void **state)
{
	double row[] = {3, NAN, -4, INFINITY, -INFINITY, 0};
	struct flmem_statistics s = {0};

	(void)state;
	flmem_statistics_add(&s, row, FLMEM_ARRAY_SIZE(row));
	assert_true(s.min == -4 && s.max == 3 && flmem_statistics_norm(&s) == 5);
	assert_true(flmem_statistics_mean(&s) == -1.0 / 3);
	assert_int_equal(s.finite, 3);
	assert_int_equal(s.nans, 1);
	assert_int_equal(s.infinities, 2);
}

static void nothing_has_no_mean(void **state)
{
	double row[] = {NAN};
	struct flmem_statistics s = {0};

	(void)state;
	assert_true(isnan(flmem_statistics_mean(&s)));
	flmem_statistics_add(&s, row, 1);
	assert_true(isnan(flmem_statistics_mean(&s)));
}

static void norms_do_not_overflow(void **state)
{
	double large[] = {3e300, 4e300}, small[] = {3e-300, -4e-300};
	struct flmem_statistics s = {0}, t = {0};

	(void)state;
	flmem_statistics_add(&s, large, 2);
	assert_true(fabs(flmem_statistics_norm(&s) / 5e300 - 1) < 1e-15);
	flmem_statistics_add(&t, small, 2);
	assert_true(fabs(flmem_statistics_norm(&t) / 5e-300 - 1) < 1e-15);
}

static void sums_are_compensated(void **state)
{
	double row[] = {1e16, 1, 1, -1e16};
	struct flmem_statistics s = {0};

	(void)state;
	flmem_statistics_add(&s, row, FLMEM_ARRAY_SIZE(row));
	assert_true(flmem_statistics_mean(&s) == 0.5);
}

static void a_sum_that_overflows_is_no_mean(void **state)
{
	double row[] = {1.7e308, 1.7e308};
	struct flmem_statistics s = {0};

	(void)state;
	flmem_statistics_add(&s, row, FLMEM_ARRAY_SIZE(row));
	assert_true(isnan(flmem_statistics_mean(&s)));
	assert_true(s.max == 1.7e308);
}

/* What one thread finds out about each part is the same as if the parts were one row. */
static void parts_are_joined_in_their_order(void **state)
{
	double rows[2][4] = {{1e16, 3, -1, NAN}, {1, 1, -1e16, 4e160}};
	double beyond[] = {INFINITY, -2e300, 3};
	double legs[2][1] = {{-4}, {3}};
	struct flmem_statistics all = {0}, both = {0}, part = {0}, s = {0};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		part = (struct flmem_statistics){0};
		flmem_statistics_add(&part, legs[i], 1);
		flmem_statistics_join(&both, &part);
	}
	for (size_t i = 0; i < 2; i++) {
		part = (struct flmem_statistics){0};
		flmem_statistics_add(&part, rows[i], 4);
		flmem_statistics_join(&all, &part);
	}
	assert_true(all.min == -1e16 && all.max == 4e160);
	assert_int_equal(all.finite, 7);
	assert_int_equal(all.nans, 1);
	assert_true(fabs(flmem_statistics_norm(&all) / 4e160 - 1) < 1e-15);
	assert_true(flmem_statistics_mean(&all) == 4e160 / 7);
	assert_true(flmem_statistics_norm(&both) == 5);
	part = (struct flmem_statistics){0};
	flmem_statistics_add(&part, beyond, 3);
	flmem_statistics_join(&all, &part);
	flmem_statistics_join(&all, &s);
	assert_true(all.min == -2e300 && all.max == 4e160);
	assert_int_equal(all.infinities, 1);
	assert_int_equal(all.finite, 9);
	assert_true(fabs(flmem_statistics_norm(&all) / 2e300 - 1) < 1e-15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finite_elements_count),
		cmocka_unit_test(nothing_has_no_mean),
		cmocka_unit_test(norms_do_not_overflow),
		cmocka_unit_test(sums_are_compensated),
		cmocka_unit_test(a_sum_that_overflows_is_no_mean),
		cmocka_unit_test(parts_are_joined_in_their_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
