/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the table of offsets in CPython 3.15: what is read, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/cleanup.h"
#include "cpython_table_315.h"
#include "runtimes/cpython_layout.h"

#define VERSION	      1U
#define FREE_THREADED 2U
#define FINALIZING    4U
#define PATH_SIZE     110U

#define WORDS (1 + FLMEM_ARRAY_SIZE(cpython_table_315))

static void fill(uint64_t words[WORDS])
{
	memcpy(words, "xdebugpy", 8);
	memcpy(words + 1, cpython_table_315, sizeof(cpython_table_315));
}

/* Returns the refusal; NULL: the table is read. */
static const char *refusal(const uint64_t words[WORDS], struct flmem_cpython_layout *ret_layout)
{
	unsigned char table[FLMEM_CPYTHON_TABLE_MAX] = {0};
	const char *why = NULL;

	memcpy(table, words, WORDS * sizeof(*words));
	return flmem_cpython_layout_parse(table, sizeof(table), ret_layout, &why) ? NULL : why;
}

static const char *refusal_with(unsigned word, uint64_t value)
{
	struct flmem_cpython_layout layout;
	uint64_t words[WORDS];

	fill(words);
	words[word] = value;
	return refusal(words, &layout);
}

static void the_places_in_315_are_those_of_its_headers(void **state)
{
	struct flmem_cpython_layout layout;
	uint64_t words[WORDS];

	(void)state;
	fill(words);
	assert_null(refusal(words, &layout));
	assert_false(layout.free_threaded);
	assert_int_equal(layout.finalizing, 0x390);
	assert_int_equal(layout.interpreters_head, 0x3a8);
	assert_int_equal(layout.interpreters_main, 0x3b0);
	assert_int_equal(layout.main_thread, 0x3c0);
	assert_int_equal(layout.runtime_gil, FLMEM_CPYTHON_NONE);
	assert_int_equal(layout.interpreter_next, 0x1c60);
	assert_int_equal(layout.interpreter_id, 0x1c68);
	assert_int_equal(layout.threads_head, 0x1ca8);
	assert_int_equal(layout.threads_main, 0x1cb8);
	assert_int_equal(layout.interpreter_gil, 0x10);
	assert_int_equal(layout.drop_request, FLMEM_CPYTHON_NONE);
	assert_int_equal(layout.thread_prev, 0);
	assert_int_equal(layout.thread_next, 8);
	assert_int_equal(layout.thread_interpreter, 0x10);
	assert_int_equal(layout.thread_pointer, 0xb0);
	assert_int_equal(layout.thread_native_id, 0xb8);
	assert_int_equal(layout.thread_exception, FLMEM_CPYTHON_NONE);
	assert_int_equal(layout.eval_breaker, 0x18);
	assert_int_equal(layout.debugger_enabled, 0x1f5c);
	assert_int_equal(layout.debugger_support, 0x158);
	assert_int_equal(layout.debugger_pending, 0);
	assert_int_equal(layout.debugger_path, 4);
	assert_int_equal(layout.debugger_path_size, 512);
	assert_true(layout.creates_state);
}

static bool is_used(unsigned word)
{
	static const unsigned used[] = {3,  4,	5,  6,	7,  8,	9,   10,  15,  16,  18,	 19,
					22, 23, 24, 25, 30, 31, 105, 106, 107, 108, 109, 110};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(used); i++)
		if (used[i] == word)
			return true;
	return false;
}

/* Unused offsets do not matter; used ones must lie inside their structure. */
static void an_offset_beyond_its_structure_is_refused(void **state)
{
	static const uint64_t wild[] = {UINT64_MAX - 3, UINT64_MAX - 7, UINT64_C(1) << 40,
					(8U << 20) + 8};

	(void)state;
	for (unsigned word = 3; word < WORDS; word++)
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(wild); i++) {
			const char *why = refusal_with(word, wild[i]);

			if (is_used(word) != (why != NULL))
				fail_msg("word %u with %#llx: %s", word,
					 (unsigned long long)wild[i], why ? why : "is read");
		}
}

/* flmem writes the path of a script there. */
static void a_path_outside_of_its_thread_is_refused(void **state)
{
	(void)state;
	assert_null(refusal_with(PATH_SIZE, 888 - 344 - 4));
	assert_non_null(refusal_with(PATH_SIZE, 888 - 344 - 4 + 1));
	assert_non_null(refusal_with(PATH_SIZE, 63));
}

/* A release that adds or removes a word moves the data after the table. */
static void a_table_of_another_length_is_refused(void **state)
{
	unsigned char table[FLMEM_CPYTHON_TABLE_MAX] = {0};
	struct flmem_cpython_layout layout;
	uint64_t words[WORDS];
	const char *why = NULL;

	(void)state;
	assert_non_null(refusal_with(FINALIZING, 912 + 8));
	assert_non_null(refusal_with(FINALIZING, 912 - 8));
	fill(words);
	memcpy(table, words, sizeof(words));
	assert_true(flmem_cpython_layout_parse(table, sizeof(words), &layout, &why));
	assert_false(flmem_cpython_layout_parse(table, sizeof(words) - 1, &layout, &why));
}

static void expect_refusal(unsigned word, uint64_t value, const char *text)
{
	const char *why = refusal_with(word, value);

	if (!why || !strstr(why, text))
		fail_msg("%#llx: %s", (unsigned long long)value, why ? why : "is read");
}

static void only_final_releases_of_315_are_read(void **state)
{
	(void)state;
	expect_refusal(VERSION, 0x30f00a5, "pre-release");
	expect_refusal(VERSION, 0x30f00b4, "pre-release");
	expect_refusal(VERSION, 0x30f00c2, "pre-release");
	assert_null(refusal_with(VERSION, 0x30f00f0));
	assert_null(refusal_with(VERSION, 0x30f0cf0));
	expect_refusal(VERSION, 0x31000f0, "newer than CPython 3.15");
	expect_refusal(VERSION, 0x31000a0, "newer than CPython 3.15");
	expect_refusal(VERSION, 0x40000f0, "version that flmem does not know");
}

static void a_free_threaded_315_is_marked_as_such(void **state)
{
	struct flmem_cpython_layout layout;
	uint64_t words[WORDS];

	(void)state;
	fill(words);
	words[FREE_THREADED] = 1;
	assert_null(refusal(words, &layout));
	assert_true(layout.free_threaded);
	words[FREE_THREADED] = 2;
	assert_null(refusal(words, &layout));
	assert_true(layout.free_threaded);
}

/* flmem reads and watches the lock by these inner offsets. */
static void another_lock_is_refused(void **state)
{
	(void)state;
	expect_refusal(18, 7752 + 8, "lock");
	expect_refusal(19, 7744 + 8, "lock");
	expect_refusal(16, 7736 - 8, "lock");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_places_in_315_are_those_of_its_headers),
		cmocka_unit_test(an_offset_beyond_its_structure_is_refused),
		cmocka_unit_test(a_path_outside_of_its_thread_is_refused),
		cmocka_unit_test(a_table_of_another_length_is_refused),
		cmocka_unit_test(only_final_releases_of_315_are_read),
		cmocka_unit_test(a_free_threaded_315_is_marked_as_such),
		cmocka_unit_test(another_lock_is_refused),
	};

	return cmocka_run_group_tests_name("cpython_table", tests, NULL, NULL);
}
