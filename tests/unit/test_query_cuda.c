/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/target/query_cuda.h"

static struct flmem_cuda_report parse(const char *answer)
{
	struct flmem_cuda_report cuda = {.used_bytes = FLMEM_KNOWN(7)};

	flmem_query_cuda_parse(answer, &cuda);
	assert_int_equal(cuda.used_bytes.value, 7);
	return cuda;
}

static void test_all_ten(void **state)
{
	struct flmem_cuda_report cuda = parse("5368709120 4 3 2 1 10 9 8 7 6\n");

	(void)state;
	assert_null(cuda.reserved_bytes.unknown);
	assert_int_equal(cuda.reserved_bytes.value, 5368709120U);
	assert_int_equal(cuda.allocated_bytes.value, 4);
	assert_int_equal(cuda.inactive_split_bytes.value, 3);
	assert_int_equal(cuda.pinned_bytes.value, 2);
	assert_int_equal(cuda.pinned_active_bytes.value, 1);
	assert_int_equal(cuda.cupy_bytes.value, 10);
	assert_int_equal(cuda.cupy_used_bytes.value, 9);
	assert_int_equal(cuda.rmm_bytes.value, 8);
	assert_int_equal(cuda.pool_bytes.value, 7);
	assert_int_equal(cuda.pool_used_bytes.value, 6);
	assert_null(cuda.pool_used_bytes.unknown);
}

static void test_older_release(void **state)
{
	struct flmem_cuda_report cuda = parse("10 5 1 - - ? ? 0 3 2\n");

	(void)state;
	assert_int_equal(cuda.inactive_split_bytes.value, 1);
	assert_non_null(cuda.pinned_bytes.unknown);
	assert_non_null(cuda.pinned_active_bytes.unknown);
	assert_non_null(cuda.cupy_bytes.unknown);
	assert_ptr_not_equal(cuda.cupy_bytes.unknown, cuda.pinned_bytes.unknown);
	assert_null(cuda.rmm_bytes.unknown);
	assert_int_equal(cuda.pool_used_bytes.value, 2);
}

static void test_what_is_no_number_is_unknown(void **state)
{
	static const char *const answers[] = {"", "\n", "x 1 2 3 4", "-5 1 2 3 4",
					      "99999999999999999999999 1 1 1 1 1 1 1 1 1"};

	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++)
		assert_non_null(parse(answers[i]).reserved_bytes.unknown);
	assert_non_null(parse("1 2 3").pinned_bytes.unknown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_ten),
		cmocka_unit_test(test_older_release),
		cmocka_unit_test(test_what_is_no_number_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
