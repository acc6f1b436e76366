/* SPDX-License-Identifier: Apache-2.0 */
/* Tests sums without rounding, in any order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "aggregate/exact_sum.h"

static void one_number_is_itself(void **state)
{
	static const double numbers[] = {0,
					 1,
					 0x1p-1074,
					 0x1.8p-1060,
					 0x1.fp-1022,
					 0.1,
					 0x1p52 + 0.5,
					 0x1p63,
					 0x1.fffffffffffffp1023,
					 1e-300,
					 123456.789};

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct flmem_exact_sum sum = {0};

		flmem_exact_sum_add(&sum, numbers[i]);
		assert_true(flmem_exact_sum_value(&sum) == numbers[i]);
	}
}

static void nothing_is_lost(void **state)
{
	struct flmem_exact_sum sum = {0};

	(void)state;
	flmem_exact_sum_add(&sum, 0x1p100);
	for (int i = 0; i < 1 << 20; i++)
		flmem_exact_sum_add(&sum, 0x1p40); /* each is below half a unit of 2^100 */
	assert_true(flmem_exact_sum_value(&sum) == 0x1p100 + 0x1p60);
}

static void order_and_parts_do_not_matter(void **state)
{
	struct flmem_exact_sum all = {0}, one = {0}, other = {0};
	double numbers[1000];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		numbers[i] = ldexp((double)(i * 7919 % 1000) / 3, i * 31 % 200 - 100);
		flmem_exact_sum_add(&all, numbers[i]);
	}
	for (int i = 1000; i-- > 0;)
		flmem_exact_sum_add(i % 3 ? &one : &other, numbers[i]);
	flmem_exact_sum_merge(&one, &other);
	assert_true(flmem_exact_sum_value(&one) == flmem_exact_sum_value(&all));
}

static void what_is_not_finite_makes_it_infinite(void **state)
{
	struct flmem_exact_sum sum = {0}, other = {0};

	(void)state;
	flmem_exact_sum_add(&other, (double)NAN);
	assert_true(isinf(flmem_exact_sum_value(&other)));
	flmem_exact_sum_merge(&sum, &other);
	assert_true(isinf(flmem_exact_sum_value(&sum)));
	sum = (struct flmem_exact_sum){0};
	flmem_exact_sum_add(&sum, 0x1.fffffffffffffp1023);
	flmem_exact_sum_add(&sum, 0x1.fffffffffffffp1023);
	assert_true(isinf(flmem_exact_sum_value(&sum)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_number_is_itself),
		cmocka_unit_test(nothing_is_lost),
		cmocka_unit_test(order_and_parts_do_not_matter),
		cmocka_unit_test(what_is_not_finite_makes_it_infinite),
	};

	return cmocka_run_group_tests_name("exact_sum", tests, NULL, NULL);
}
