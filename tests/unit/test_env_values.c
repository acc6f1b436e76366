/* SPDX-License-Identifier: Apache-2.0 */
/* Compares values of variables with how their readers parse them: glibc's loader and Python. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/glibc/glibc_arena_max.h"
#include "allocators/glibc/glibc_tunables.h"
#include "base/cleanup.h"
#include "runtimes/cpython_int.h"

#define LOADER "/lib64/ld-linux-x86-64.so.2"
#define PYTHON "/usr/bin/python3"

struct limit_case {
	const char *value;
	uint64_t limit;	 /* 0: no limit */
	bool by_release; /* releases differ, or glibc's number exceeds what any program creates */
};

static const struct limit_case limits[] = {
	{"2", 2, false},
	{"1", 1, false},
	{" 2", 2, false},
	{"\t+16", 16, false},
	{"0x4", 4, false},
	{"0XaF", 0xaf, false},
	{"010", 8, false},
	{"4294967295", UINT32_MAX, false},
	{"", 0, false},
	{"0", 0, false},
	{"00", 0, false},
	{"0x", 0, false},
	{"08", 0, false},
	{"abc", 0, false},
	{"two", 0, false},
	{"+", 0, false},
	{"-1", 0, true},
	{"4x", 0, true},
	{"2 ", 0, true},
	{"2.5", 0, true},
	{"1_0", 0, true},
	{"4294967296", 0, true},
	{"99999999999999999999999", 0, true},
};

static void limits_of_arenas_are_read_as_by_glibc(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(limits); i++) {
		uint64_t limit = 0;
		bool valid = flmem_glibc_arena_max_parse(limits[i].value, &limit);

		if (valid != (limits[i].limit != 0) || limit != limits[i].limit)
			fail_msg("'%s' is %" PRIu64, limits[i].value, limit);
	}
}

static void text_behind_a_number_is_ignored_until_2_38(void **state)
{
	static const char *const taken[] = {"4x", "2.5", "1_0", "2 ", "0x4g"};
	static const char *const others[] = {"4", "0x", "0x0g", "x4", "-1", "", "4294967296", "0"};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(taken); i++)
		if (!flmem_glibc_arena_max_until_2_38(taken[i]))
			fail_msg("'%s' is not taken", taken[i]);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(others); i++)
		if (flmem_glibc_arena_max_until_2_38(others[i]))
			fail_msg("'%s' is taken", others[i]);
}

/* Returns the limit that the loader of this machine applies: ld.so(8), --list-tunables. */
static uint64_t loaded_limit(const char *variable, const char *value)
{
	char line[256];
	uint64_t limit = UINT64_MAX;
	FILE *out;

	setenv(variable, value, 1);
	out = popen(LOADER " --list-tunables 2>&1", "r");
	unsetenv(variable);
	assert_non_null(out);
	while (fgets(line, sizeof(line), out))
		if (sscanf(line, "glibc.malloc.arena_max: 0x%" SCNx64, &limit) == 1)
			break;
	pclose(out);
	return limit;
}

static void the_loader_reads_them_alike(void **state)
{
	(void)state;
	if (loaded_limit("MALLOC_ARENA_MAX", "3") != 3) {
		print_message("SKIP: " LOADER " does not list its tunables\n");
		skip();
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(limits); i++) {
		char tunable[128];
		uint64_t loaded;

		if (limits[i].by_release)
			continue;
		loaded = loaded_limit("MALLOC_ARENA_MAX", limits[i].value);
		if (loaded != limits[i].limit)
			fail_msg("'%s' is %" PRIu64 " to glibc", limits[i].value, loaded);
		snprintf(tunable, sizeof(tunable), "glibc.malloc.arena_max=%s", limits[i].value);
		assert_int_equal(loaded_limit("GLIBC_TUNABLES", tunable), limits[i].limit);
	}
}

static void huge_pages_are_asked_for_by_release_architecture_and_tunable(void **state)
{
	static const struct {
		const char *version, *tunables;
		bool aarch64, expected;
	} rows[] = {
		{"2.43", NULL, true, true},
		{"2.44", "glibc.malloc.tcache_count=0", true, true},
		{"2.43", NULL, false, false},
		{"2.42", NULL, true, false},
		{NULL, NULL, true, false},
		{"unknown", NULL, true, false},
		{"2.43", "glibc.malloc.hugetlb=0", true, false},
		{"2.43", "glibc.malloc.hugetlb=1", true, true},
		{"2.43", "glibc.malloc.hugetlb=x", true, true},
		{"2.35", "glibc.malloc.hugetlb=1", false, true},
		{"2.34", "glibc.malloc.hugetlb=1", false, false},
		{"2.36", "glibc.malloc.hugetlb=2", false, false},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		if (flmem_glibc_asks_for_huge_pages(rows[i].version, rows[i].tunables,
						    rows[i].aarch64) != rows[i].expected)
			fail_msg("row %zu", i);
}

static void a_tunable_overrides_the_variable_if_it_is_valid(void **state)
{
	static const struct {
		const char *variable, *tunables;
		uint64_t limit;
		bool tuned;
	} rows[] = {
		{NULL, NULL, 0, false},
		{"3", NULL, 3, false},
		{"3", "glibc.malloc.arena_max=2", 2, true},
		{"3", "glibc.malloc.arena_max=0", 3, true},
		{"3", "glibc.malloc.arena_max=-1", 0, true},
		{"3", "glibc.malloc.arena_max= -02", 0, true},
		{"3", "glibc.malloc.arena_max=-0", 3, true},
		{"3", "glibc.malloc.arena_max=-x", 3, true},
		{"3", "glibc.malloc.arena_max=99999999999999999999", 0, true},
		{"3", "glibc.malloc.arena_max=4294967296", 0, true},
		{"3", "glibc.malloc.arena_max=0x100000000", 0, true},
		{"3", "glibc.malloc.arena_max=2:a=-1", 2, true},
		{"3", "glibc.malloc.arena_max=-1:glibc.malloc.arena_max=2", 0, true},
		{"0", "glibc.malloc.arena_max=2", 2, true},
		{NULL, "glibc.malloc.arena_max=x", 0, true},
		{NULL, "a=b:glibc.malloc.arena_max=5:c=d", 5, true},
		{"3", "xglibc.malloc.arena_max=2", 3, false},
		{"3", "glibc.malloc.arena_test=2", 3, false},
		{"3", "glibc.malloc.arena_max=2:glibc.malloc.arena_max=x", 3, true},
		{"3", "glibc.malloc.arena_max=2:glibc.malloc.arena_max=4", 4, true},
		{"3", "glibc.malloc.arena_max=00000000000000000000000000000000000002", 3, true},
		{"3", "glibc.malloc.arena_max", 3, false},
		{"3", "glibc.malloc.arena_max=0:glibc.malloc.arena_max=2", 3, true},
		{"3", "glibc.malloc.arena_max=2:glibc.malloc.arena_max=0", 3, true},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		uint64_t limit = 0;
		bool found = flmem_glibc_arena_max_find(rows[i].variable, rows[i].tunables, &limit);

		if (found != (rows[i].limit != 0) || limit != rows[i].limit ||
		    flmem_glibc_arena_max_tuned(rows[i].tunables) != rows[i].tuned)
			fail_msg("row %zu: %" PRIu64, i, limit);
	}
}

static const struct {
	const char *text;
	enum flmem_python_int kind;
	int64_t value;
} numbers[] = {
	{"0", FLMEM_PYTHON_INT_VALID, 0},
	{"2", FLMEM_PYTHON_INT_VALID, 2},
	{" +5\n", FLMEM_PYTHON_INT_VALID, 5},
	{"-3", FLMEM_PYTHON_INT_VALID, -3},
	{"007", FLMEM_PYTHON_INT_VALID, 7},
	{"1_000", FLMEM_PYTHON_INT_VALID, 1000},
	{"9223372036854775807", FLMEM_PYTHON_INT_VALID, INT64_MAX},
	{"-9223372036854775808", FLMEM_PYTHON_INT_VALID, INT64_MIN},
	{"", FLMEM_PYTHON_INT_INVALID, 0},
	{" ", FLMEM_PYTHON_INT_INVALID, 0},
	{"two", FLMEM_PYTHON_INT_INVALID, 0},
	{"2.0", FLMEM_PYTHON_INT_INVALID, 0},
	{"0x2", FLMEM_PYTHON_INT_INVALID, 0},
	{"_1", FLMEM_PYTHON_INT_INVALID, 0},
	{"1_", FLMEM_PYTHON_INT_INVALID, 0},
	{"1__0", FLMEM_PYTHON_INT_INVALID, 0},
	{"+ 1", FLMEM_PYTHON_INT_INVALID, 0},
	{"1 2", FLMEM_PYTHON_INT_INVALID, 0},
	{"\x1c"
	 "1",
	 FLMEM_PYTHON_INT_INVALID, 0},
};

static void numbers_are_read_as_by_python(void **state)
{
	int64_t value;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(numbers); i++) {
		value = 0;
		assert_int_equal(flmem_python_int_parse(numbers[i].text, &value), numbers[i].kind);
		assert_int_equal(value, numbers[i].value);
	}
	assert_int_equal(flmem_python_int_parse("\xd9\xa3", &value), FLMEM_PYTHON_INT_UNDECIDED);
	assert_int_equal(flmem_python_int_parse("99999999999999999999", &value),
			 FLMEM_PYTHON_INT_VALID);
	assert_int_equal(value, INT64_MAX);
	assert_int_equal(flmem_python_int_parse("-99999999999999999999", &value),
			 FLMEM_PYTHON_INT_VALID);
	assert_int_equal(value, INT64_MIN);
}

static void python_itself_agrees(void **state)
{
	(void)state;
	if (system("test -x " PYTHON)) {
		print_message("SKIP: there is no " PYTHON "\n");
		skip();
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(numbers); i++) {
		char line[64] = "";
		char expected[64];
		FILE *out;

		setenv("NUMBER", numbers[i].text, 1);
		out = popen(PYTHON " -c 'import os; print(int(os.environ[\"NUMBER\"]))' 2>&1 "
				   "| tail -n 1 | cut -c 1-20",
			    "r");
		assert_non_null(out);
		assert_non_null(fgets(line, sizeof(line), out));
		pclose(out);
		snprintf(expected, sizeof(expected), "%" PRId64 "\n", numbers[i].value);
		if (numbers[i].kind == FLMEM_PYTHON_INT_VALID)
			assert_string_equal(line, expected);
		else
			assert_ptr_equal(strstr(line, "ValueError"), line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_of_arenas_are_read_as_by_glibc),
		cmocka_unit_test(text_behind_a_number_is_ignored_until_2_38),
		cmocka_unit_test(the_loader_reads_them_alike),
		cmocka_unit_test(huge_pages_are_asked_for_by_release_architecture_and_tunable),
		cmocka_unit_test(a_tunable_overrides_the_variable_if_it_is_valid),
		cmocka_unit_test(numbers_are_read_as_by_python),
		cmocka_unit_test(python_itself_agrees),
	};

	return cmocka_run_group_tests_name("env_values", tests, NULL, NULL);
}
