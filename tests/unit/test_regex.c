/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/regex.h"

static bool matches(const char *pattern, const char *text)
{
	struct flmem_error err = {0};
	regex_t regex;
	bool found;

	if (flmem_regex_compile(pattern, REG_NOSUB, "pattern", &regex, &err))
		fail_msg("%s: %s", pattern, err.message);
	found = regexec(&regex, text, 0, NULL, 0) == 0;
	regfree(&regex);
	return found;
}

static void digits_are_digits(void **state)
{
	(void)state;
	assert_true(matches("^epoch (\\d+)$", "epoch 42"));
	assert_false(matches("^epoch (\\d+)$", "epoch ddd"));
	assert_true(matches("^\\D$", "x"));
	assert_false(matches("^\\D$", "7"));
	/* An escaped backslash before a d stays a backslash. */
	assert_true(matches("^a\\\\d$", "a\\d"));
	assert_false(matches("^a\\\\d$", "a\\7"));
}

static void the_rest_is_as_it_was(void **state)
{
	(void)state;
	assert_true(matches("^[]d]+x$", "]dx"));
	assert_true(matches("^[[:digit:]]{2}\\.$", "12."));
	assert_false(matches("^[[:digit:]]{2}\\.$", "123"));
	assert_true(matches("^[^]]$", "a"));
	assert_true(matches("\\(", "("));
	assert_true(matches("", "anything"));
}

static void what_would_never_match_is_refused(void **state)
{
	static const char *const patterns[] = {"[\\d]", "[^a\\D]", "x[[:alpha:]\\d]+"};
	static const char *const broken[] = {"(", "[", "[\\", "a\\", "[[:nothing:]]"};
	struct flmem_error err = {0};
	regex_t regex;

	(void)state;
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		assert_int_equal(flmem_regex_compile(patterns[i], 0, "pattern", &regex, &err),
				 FLMEM_EUSAGE);
		assert_non_null(strstr(err.message, "pattern: '"));
		assert_non_null(strstr(err.message, patterns[i]));
		assert_non_null(strstr(err.message, "': \\d has no meaning within [...]"));
	}
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
		assert_int_equal(flmem_regex_compile(broken[i], 0, "pattern", &regex, &err),
				 FLMEM_EUSAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digits_are_digits),
		cmocka_unit_test(the_rest_is_as_it_was),
		cmocka_unit_test(what_would_never_match_is_refused),
	};

	return cmocka_run_group_tests_name("regex", tests, NULL, NULL);
}
