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
	const double row[] = {3, NAN, -4, INFINITY, -INFINITY, 0};
	struct flmem_statistics s = {0};

	(void)state;
	flmem_statistics_add(&s, row, FLMEM_ARRAY_SIZE(row));
	assert_true(s.min == -4 && s.max == 3 && s.norm == 5);
	assert_true(flmem_statistics_mean(&s) == -1.0 / 3);
	assert_int_equal(s.finite, 3);
	assert_int_equal(s.nans, 1);
	assert_int_equal(s.infinities, 2);
}

static void nothing_has_no_mean(void **state)
{
	const double row[] = {NAN};
	struct flmem_statistics s = {0};

	(void)state;
	assert_true(isnan(flmem_statistics_mean(&s)));
	flmem_statistics_add(&s, row, 1);
	assert_true(isnan(flmem_statistics_mean(&s)));
}

static void norms_do_not_overflow(void **state)
{
	const double large[] = {3e300, 4e300}, small[] = {3e-300, -4e-300};
	struct flmem_statistics s = {0}, t = {0};

	(void)state;
	flmem_statistics_add(&s, large, 2);
	assert_true(fabs(s.norm / 5e300 - 1) < 1e-15);
	flmem_statistics_add(&t, small, 2);
	assert_true(fabs(t.norm / 5e-300 - 1) < 1e-15);
}

static void sums_are_compensated(void **state)
{
	const double row[] = {1e16, 1, 1, -1e16};
	struct flmem_statistics s = {0};

	(void)state;
	flmem_statistics_add(&s, row, FLMEM_ARRAY_SIZE(row));
	assert_true(flmem_statistics_mean(&s) == 0.5);
}

static void a_sum_that_overflows_is_no_mean(void **state)
{
	const double row[] = {1.7e308, 1.7e308};
	struct flmem_statistics s = {0};

	(void)state;
	flmem_statistics_add(&s, row, FLMEM_ARRAY_SIZE(row));
	assert_true(isnan(flmem_statistics_mean(&s)));
	assert_true(s.max == 1.7e308);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finite_elements_count),
		cmocka_unit_test(nothing_has_no_mean),
		cmocka_unit_test(norms_do_not_overflow),
		cmocka_unit_test(sums_are_compensated),
		cmocka_unit_test(a_sum_that_overflows_is_no_mean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
