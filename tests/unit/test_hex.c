/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text/hex.h"

static void four_digits_are_a_number(void **state)
{
	(void)state;
	assert_int_equal(flmem_hex_read4("0000"), 0);
	assert_int_equal(flmem_hex_read4("20aC rest"), 0x20ac);
	assert_int_equal(flmem_hex_read4("09af"), 0x9af);
	assert_int_equal(flmem_hex_read4("FFFF0"), 0xffff);
}

static void anything_else_is_none(void **state)
{
	static const char *const texts[] = {"",	    "1",    "123",  "12g4", "/000", ":000", "@000",
					    "G000", "`000", "g000", " 123", "0x12", "-001"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_int_equal(flmem_hex_read4(texts[i]), -1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(four_digits_are_a_number),
		cmocka_unit_test(anything_else_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
