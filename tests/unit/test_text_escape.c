/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <flmem/text.h>

#include "base/cleanup.h"

static void check_escaped(const char *text, const char *expected)
{
	char out[64];

	assert_string_equal(flmem_text_escape(text, out, sizeof(out)), expected);
}

static void letters_of_any_script_stay(void **state)
{
	static const char *const texts[] = {
		"",
		"job-1",
		"caf\xc3\xa9",
		"\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d",
		"\xe2\x80\x94",
		"\xe2\x82\xac",
		"\xe2\x81\x84",
		"\xf0\x9f\x98\x80",
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(texts); i++)
		check_escaped(texts[i], texts[i]);
}

static void controls_of_a_terminal_are_shown(void **state)
{
	(void)state;
	check_escaped("\x1b[2J", "\\x1b[2J");
	check_escaped("a\nb\x7f", "a\\x0ab\\x7f");
	check_escaped("\xc2\x9b"
		      "1m",
		      "\\xc2\\x9b1m");
}

/* A name that turns the direction of text reads as another one: "exe.gpj" as "jpg.exe". */
static void controls_of_direction_are_shown(void **state)
{
	static const unsigned char last[][2] = {
		{0x80, 0xa8}, {0x80, 0xa9}, {0x80, 0xaa}, {0x80, 0xab}, {0x80, 0xac}, {0x80, 0xad},
		{0x80, 0xae}, {0x81, 0xa6}, {0x81, 0xa7}, {0x81, 0xa8}, {0x81, 0xa9},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(last); i++) {
		const char text[] = {'a', '\xe2', (char)last[i][0], (char)last[i][1], 'b', '\0'};
		char expected[32];

		snprintf(expected, sizeof(expected), "a\\xe2\\x%02x\\x%02xb", last[i][0],
			 last[i][1]);
		check_escaped(text, expected);
	}
	check_escaped("\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa",
		      "\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xa5\xe2\x81\xaa");
}

/* A text may end in the middle of a character. */
static void cut_characters_are_shown(void **state)
{
	(void)state;
	check_escaped("\xe2", "\\xe2");
	check_escaped("\xe2\x80", "\\xe2\\x80");
	check_escaped("\xc2", "\\xc2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(letters_of_any_script_stay),
		cmocka_unit_test(controls_of_a_terminal_are_shown),
		cmocka_unit_test(controls_of_direction_are_shown),
		cmocka_unit_test(cut_characters_are_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
