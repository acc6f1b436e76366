/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes/crc32.h"

static void checksums_are_those_of_the_standard(void **state)
{
	static const char zeros[100];

	(void)state;
	assert_int_equal(flmem_crc32(0, "", 0), 0);
	assert_int_equal(flmem_crc32(0, "a", 1), 0xe8b7be43);
	assert_int_equal(flmem_crc32(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(flmem_crc32(0, zeros, 32), 0x190a55ad);
}

static void pieces_have_the_checksum_of_the_whole(void **state)
{
	char bytes[64];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 37 + 11);
	for (size_t cut = 0; cut <= sizeof(bytes); cut++)
		assert_int_equal(
			flmem_crc32(flmem_crc32(0, bytes, cut), bytes + cut, sizeof(bytes) - cut),
			flmem_crc32(0, bytes, sizeof(bytes)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checksums_are_those_of_the_standard),
		cmocka_unit_test(pieces_have_the_checksum_of_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
