/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/buf.h"
#include "base/text/yaml_keys.h"

static void note(void *context, const char *key, const char *value)
{
	flmem_buf_printf(context, "%s=%s;", key, value ? value : "?");
}

static void assert_keys(const char *text, bool good, const char *expected)
{
	FLMEM_AUTO_BUF struct flmem_buf seen = FLMEM_BUF_INIT;

	assert_int_equal(flmem_yaml_top_keys(text, strlen(text), note, &seen), good);
	assert_string_equal(seen.data, expected);
}

static void only_the_outermost_keys_are_visited(void **state)
{
	(void)state;
	assert_keys("client_id: \"Client1\"\n"
		    "train_configs:\n  client_id: inner\n  list: [a, {b: c}]\n"
		    "n: 5 # comment\nempty:\n",
		    true, "client_id=Client1;train_configs=?;n=5;empty=;");
	assert_keys("{a: &x [1], b: *x, c: {a: 1}}", true, "a=?;b=?;c=?;");
	assert_keys("---\na: 1\n---\nb: 2\n", true, "a=1;");
}

static void what_is_no_mapping_is_refused(void **state)
{
	(void)state;
	assert_keys("", false, "");
	assert_keys("just text", false, "");
	assert_keys("- a: 1\n- b: 2\n", false, "");
	assert_keys("a: 1\nb: [unclosed\n", false, "a=1;b=?;");
	assert_keys("a: 1\n\tb: 2\n", false, "");
	assert_keys("\x01\xff", false, "");
}

static void deep_nesting_ends_the_walk(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf seen = FLMEM_BUF_INIT;

	(void)state;
	flmem_buf_puts(&text, "a: ");
	for (int i = 0; i < 100000; i++)
		flmem_buf_putc(&text, '[');
	assert_false(flmem_yaml_top_keys(text.data, text.length, note, &seen));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_outermost_keys_are_visited),
		cmocka_unit_test(what_is_no_mapping_is_refused),
		cmocka_unit_test(deep_nesting_ends_the_walk),
	};

	return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
