/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/buf.h"
#include "proc/argv_env.h"

static struct flmem_argv_env parse(const char *bytes, size_t length)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	struct flmem_argv_env words = {0};

	flmem_buf_append(&buf, bytes, length);
	assert_int_equal(flmem_argv_env_split(&buf, false, &words), 0);
	return words;
}

static void words_are_split_at_each_nul(void **state)
{
	static const char bytes[] = "python3\0-m\0\0pkg.mod\0last";
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env words = parse(bytes, sizeof(bytes) - 1);

	(void)state;
	assert_int_equal(words.count, 5);
	assert_string_equal(words.values[0], "python3");
	assert_string_equal(words.values[2], "");
	assert_string_equal(words.values[4], "last");
	assert_false(words.cut);
}

static void nothing_is_no_word_and_a_lone_nul_is_one(void **state)
{
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env none = parse("", 0);
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env one = parse("\0", 1);

	(void)state;
	assert_int_equal(none.count, 0);
	assert_int_equal(one.count, 1);
	assert_string_equal(one.values[0], "");
}

static void too_many_words_are_cut(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	struct flmem_argv_env words;

	(void)state;
	for (unsigned i = 0; i <= FLMEM_ARGV_ENV_MAX; i++)
		flmem_buf_append(&buf, "a", 2);
	words = parse(buf.data, buf.length);
	assert_int_equal(words.count, FLMEM_ARGV_ENV_MAX);
	assert_true(words.cut);
	flmem_argv_env_clear(&words);
	words = parse(buf.data, buf.length - 2);
	assert_int_equal(words.count, FLMEM_ARGV_ENV_MAX);
	assert_false(words.cut);
	flmem_argv_env_clear(&words);
}

static void variables_are_found_by_their_whole_name(void **state)
{
	static const char bytes[] = "AB=1\0A=2\0A=3\0EMPTY=\0BARE\0X=a=b";
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env words = parse(bytes, sizeof(bytes));

	(void)state;
	assert_string_equal(flmem_argv_env_getenv(&words, "A"), "2");
	assert_string_equal(flmem_argv_env_getenv(&words, "EMPTY"), "");
	assert_string_equal(flmem_argv_env_getenv(&words, "X"), "a=b");
	assert_null(flmem_argv_env_getenv(&words, "BARE"));
	assert_null(flmem_argv_env_getenv(&words, "B"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_split_at_each_nul),
		cmocka_unit_test(nothing_is_no_word_and_a_lone_nul_is_one),
		cmocka_unit_test(too_many_words_are_cut),
		cmocka_unit_test(variables_are_found_by_their_whole_name),
	};

	return cmocka_run_group_tests_name("argv_env", tests, NULL, NULL);
}
