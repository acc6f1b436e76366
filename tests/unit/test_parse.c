/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <flmem/parse.h>

#include "base/cleanup.h"

static void sizes_are_read_with_every_unit(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} rows[] = {
		{"0", 0},
		{"512", 512},
		{"64K", 65536},
		{"64KiB", 65536},
		{"64KB", 64000},
		{"1.5GiB", UINT64_C(1610612736)},
		{"4GB", UINT64_C(4000000000)},
		{"18446744073709551615", UINT64_MAX},
		{"0.5M", 524288},
		{"8k", 8192},
		{"64kB", 64000},
		{"2m", 2097152},
		{"1g", UINT64_C(1073741824)},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		uint64_t bytes = 1;

		assert_int_equal(flmem_parse_size(rows[i].text, &bytes, NULL), 0);
		assert_int_equal(bytes, rows[i].bytes);
	}
}

static void bad_sizes_are_refused_and_leave_the_output(void **state)
{
	static const char *const rows[] = {
		"",	     "5Q",    "-1",   "+1",   " 1",  "1 ",
		"1.",	     ".5",    "1kib", "0x10", "1e3", "18446744073709551616",
		"99999999P", "1.5.5", "NaN",  "K",
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_error err = {0};
		uint64_t bytes = 77;

		assert_int_equal(flmem_parse_size(rows[i], &bytes, &err), FLMEM_EUSAGE);
		assert_int_equal(bytes, 77);
		assert_int_equal(err.code, FLMEM_EUSAGE);
	}
}

static void counts_have_decimal_suffixes(void **state)
{
	static const struct {
		const char *text;
		uint64_t count;
	} rows[] = {
		{"0", 0},
		{"7", 7},
		{"350M", UINT64_C(350000000)},
		{"8B", UINT64_C(8000000000)},
		{"70b", UINT64_C(70000000000)},
		{"1.5B", UINT64_C(1500000000)},
		{"0.5g", UINT64_C(500000000)},
		{"1t", UINT64_C(1000000000000)},
		{"64k", 64000},
		{"18446744073709551615", UINT64_MAX},
	};
	static const char *const bad[] = {
		"",	"B",	  "1.5", "8BB", "8 B",	     "-8B", "8GB",
		"8GiB", "1.5.5B", "8.",	 ".5B", "99999999T", "1e9", "+8B",
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		uint64_t count = 1;

		assert_int_equal(flmem_parse_count(rows[i].text, &count, NULL), 0);
		assert_int_equal(count, rows[i].count);
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(bad); i++) {
		uint64_t count = 77;

		assert_int_equal(flmem_parse_count(bad[i], &count, NULL), FLMEM_EUSAGE);
		assert_int_equal(count, 77);
	}
}

static void durations_are_read_in_microseconds(void **state)
{
	uint64_t us;

	(void)state;
	assert_int_equal(flmem_parse_duration("250ms", &us, NULL), 0);
	assert_int_equal(us, 250000);
	assert_int_equal(flmem_parse_duration("1.5s", &us, NULL), 0);
	assert_int_equal(us, 1500000);
	assert_int_equal(flmem_parse_duration("2m", &us, NULL), 0);
	assert_int_equal(us, 120000000);
	assert_int_equal(flmem_parse_duration("0", &us, NULL), 0);
	assert_int_equal(us, 0);
	assert_int_equal(flmem_parse_duration("5", &us, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_parse_duration("5S", &us, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_parse_duration("36500d", &us, NULL), 0);
	assert_int_equal(us, UINT64_C(3153600000000000));
	assert_int_equal(flmem_parse_duration("36501d", &us, NULL), FLMEM_EUSAGE);
	assert_int_equal(flmem_parse_duration("5124095576h", &us, NULL), FLMEM_EUSAGE);
	assert_int_equal(us, UINT64_C(3153600000000000));
}

static void pids_are_positive_and_in_range(void **state)
{
	static const char *const bad[] = {"0", "-1", "4194305", "99999999999999999999", "1a", ""};
	pid_t pid = 5;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(bad); i++)
		assert_int_equal(flmem_parse_pid(bad[i], &pid, NULL), FLMEM_EUSAGE);
	assert_int_equal(pid, 5);
	assert_int_equal(flmem_parse_pid("4194304", &pid, NULL), 0);
	assert_int_equal(pid, 4194304);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_read_with_every_unit),
		cmocka_unit_test(bad_sizes_are_refused_and_leave_the_output),
		cmocka_unit_test(counts_have_decimal_suffixes),
		cmocka_unit_test(durations_are_read_in_microseconds),
		cmocka_unit_test(pids_are_positive_and_in_range),
	};

	return cmocka_run_group_tests_name("parse", tests, NULL, NULL);
}
