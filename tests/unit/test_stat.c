/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proc/stat.h"

static void a_name_may_look_like_fields(void **state)
{
	static const char *const texts[] = {
		"12 (python3) S 7 12",
		"12 (a b) R 1 2) S 7 12",
		"12 ()) S 7 12",
		"12 (x) 9 (y) S 7 12\n",
	};
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(texts); i++) {
		const char *fields = flmem_stat_fields(texts[i]);

		assert_non_null(fields);
		assert_int_equal(fields[0], 'S');
		assert_true(flmem_stat_number(fields, 4, &value));
		assert_int_equal(value, 7);
		assert_true(flmem_stat_number(fields, 5, &value));
		assert_int_equal(value, 12);
		assert_false(flmem_stat_number(fields, 6, &value));
		assert_int_equal(value, 12);
	}
}

static void what_is_no_number_is_refused(void **state)
{
	const char *fields = flmem_stat_fields("1 (x) S -1 18446744073709551615  ");
	uint64_t value = 5;

	(void)state;
	assert_non_null(fields);
	assert_false(flmem_stat_number(fields, 3, &value));
	assert_false(flmem_stat_number(fields, 4, &value));
	assert_false(flmem_stat_number(fields, 6, &value));
	assert_false(flmem_stat_number(fields, 7, &value));
	assert_false(flmem_stat_number(fields, 8, &value));
	assert_int_equal(value, 5);
	assert_true(flmem_stat_number(fields, 5, &value));
	assert_int_equal(value, UINT64_MAX);
}

static void other_text_has_no_fields(void **state)
{
	static const char *const texts[] = {"", "1 x S 0", "1 (x)", "1 (x)S 0", "1 (x) S 0)"};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(texts); i++)
		assert_null(flmem_stat_fields(texts[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_may_look_like_fields),
		cmocka_unit_test(what_is_no_number_is_refused),
		cmocka_unit_test(other_text_has_no_fields),
	};

	return cmocka_run_group_tests_name("stat", tests, NULL, NULL);
}
