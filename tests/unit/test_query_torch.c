/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/target/query_torch.h"

static struct flmem_cuda_report parse(const char *answer)
{
	struct flmem_cuda_report cuda = {.used_bytes = FLMEM_KNOWN(7)};

	flmem_query_torch_parse(answer, &cuda);
	assert_int_equal(cuda.used_bytes.value, 7);
	return cuda;
}

static void test_all_five(void **state)
{
	struct flmem_cuda_report cuda = parse("5368709120 4 3 2 1\n");

	(void)state;
	assert_null(cuda.reserved_bytes.unknown);
	assert_int_equal(cuda.reserved_bytes.value, 5368709120U);
	assert_int_equal(cuda.allocated_bytes.value, 4);
	assert_int_equal(cuda.inactive_split_bytes.value, 3);
	assert_int_equal(cuda.pinned_bytes.value, 2);
	assert_int_equal(cuda.pinned_active_bytes.value, 1);
}

static void test_older_release(void **state)
{
	struct flmem_cuda_report cuda = parse("10 5 1 - -\n");

	(void)state;
	assert_int_equal(cuda.inactive_split_bytes.value, 1);
	assert_non_null(cuda.pinned_bytes.unknown);
	assert_non_null(cuda.pinned_active_bytes.unknown);
}

static void test_what_is_no_number_is_unknown(void **state)
{
	static const char *const answers[] = {"", "\n", "x 1 2 3 4", "-5 1 2 3 4",
					      "99999999999999999999999 1 1 1 1"};

	(void)state;
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++)
		assert_non_null(parse(answers[i]).reserved_bytes.unknown);
	assert_non_null(parse("1 2 3").pinned_bytes.unknown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_five),
		cmocka_unit_test(test_older_release),
		cmocka_unit_test(test_what_is_no_number_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
