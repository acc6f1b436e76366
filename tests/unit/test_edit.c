/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "documents/edit.h"

#define JSON  FLMEM_SYNTAX_JSON
#define HOCON FLMEM_SYNTAX_HOCON
#define YAML  FLMEM_SYNTAX_YAML

struct row {
	enum flmem_syntax syntax;
	const char *text;
	const char *after; /* NULL: the edit is refused */
	const char *key;   /* added to the map `m`; NULL: "k" */
};

/* Adds the key k with the value 1 to the map m. */
static const struct row inserts[] = {
	{JSON, "{\"m\": {\"a\": 2}}", "{\"m\": {\"a\": 2, \"k\": 1}}", NULL},
	{JSON, "{\"m\":{\"a\":2}}", "{\"m\":{\"a\":2, \"k\":1}}", NULL},
	{JSON, "{\"m\": {}}", "{\"m\": {\"k\": 1}}", NULL},
	{JSON, "{\n  \"m\": {\n    \"a\": [\n      2\n    ]\n  }\n}",
	 "{\n  \"m\": {\n    \"a\": [\n      2\n    ],\n    \"k\": 1\n  }\n}", NULL},
	{JSON, "{\n\t\"x\": 1,\n\t\"m\": {}\n}", "{\n\t\"x\": 1,\n\t\"m\": {\n\t\t\"k\": 1\n\t}\n}",
	 NULL},
	{JSON, "{\r\n \"m\": {\r\n  \"a\": 2\r\n }\r\n}",
	 "{\r\n \"m\": {\r\n  \"a\": 2,\r\n  \"k\": 1\r\n }\r\n}", NULL},
	{JSON, "{\r\n \"m\": {\n  \"a\": 2\n },\r\n \"x\": 1\r\n}",
	 "{\r\n \"m\": {\n  \"a\": 2,\n  \"k\": 1\n },\r\n \"x\": 1\r\n}", NULL},
	{JSON, "{\n \"m\": {\r\n  \"a\": 2\r\n }\n}",
	 "{\n \"m\": {\r\n  \"a\": 2,\r\n  \"k\": 1\r\n }\n}", NULL},
	{JSON, "{\"m\": {\"x\": 1}}", "{\"m\": {\"x\": 1, \"args\": {\"k\": 1}}}", "args.k"},
	{JSON, "{\"m\": [1]}", NULL, NULL},
	{HOCON, "m {\n  a = 2 # two\n}\n", "m {\n  a = 2 # two\n  k = 1\n}\n", NULL},
	{HOCON, "m {\n  a = 2,\n}\n", "m {\n  a = 2,\n  k = 1\n}\n", NULL},
	{HOCON, "m { a = 2 }\n", "m { a = 2, k = 1 }\n", NULL},
	{HOCON, "m { a = 2, b = 3 } # end\n", "m { a = 2, b = 3, k = 1 } # end\n", NULL},
	{HOCON, "m {\n  a = 2 }\n", "m {\n  a = 2,\n  k = 1 }\n", NULL},
	{HOCON, "m.a = 2\n", NULL, NULL},
	{YAML, "m:\n  a: 2 # two\n\n# end\nx: 1\n", "m:\n  a: 2 # two\n  k: 1\n\n# end\nx: 1\n",
	 NULL},
	{YAML, "m: {a: 2} # two\n", "m: {a: 2, k: 1} # two\n", NULL},
	{YAML, "m: {}\n", "m: {k: 1}\n", NULL},
	{YAML, "m:\n  a: |\n    two\n    lines\nx: 1\n",
	 "m:\n  a: |\n    two\n    lines\n  k: 1\nx: 1\n", NULL},
	{YAML, "m:\n  a: 2", "m:\n  a: 2\n  k: 1", NULL},
	{YAML, "x: 1\r\nm:\n  a: 2\n", "x: 1\r\nm:\n  a: 2\n  k: 1\n", NULL},
	{YAML, "x: 1\r\nm:\r\n  a: 2", "x: 1\r\nm:\r\n  a: 2\r\n  k: 1", NULL},
	{YAML, "x: 1\nm:\n  a: |\n    two\r\n    lines\r\ny: 1\n",
	 "x: 1\nm:\n  a: |\n    two\r\n    lines\r\n  k: 1\r\ny: 1\n", NULL},
	{YAML, "m:\n    - a\n", NULL, NULL},
	{YAML, "m: &x\n  a: {b: 1}\ny: *x\n", "m: &x\n  a: {b: 1}\n  k: 1\ny: *x\n", NULL},
	{YAML, "y: &x {a: 1}\nm: *x\n", NULL, NULL},
	{YAML, "m:\n  b:\n    c: 1\n", "m:\n  b:\n    c: 1\n  k: 1\n", NULL},
};

/* Changes the value of m to 1. */
static const struct row replacements[] = {
	{JSON, "{\"m\": null, \"n\": 2}", "{\"m\": 1, \"n\": 2}", NULL},
	{JSON, "{\"m\": \"x\\\"y\"}", "{\"m\": 1}", NULL},
	{HOCON, "m = two words # comment\n", "m = 1 # comment\n", NULL},
	{YAML, "m:   'x'   # comment\n", "m:   1   # comment\n", NULL},
	{YAML, "m: &a 2\nn: *a\n", NULL, NULL},
	{YAML, "n: &a 2\nm: *a\n", NULL, NULL},
	{YAML, "m: !!str 2\n", NULL, NULL},
	{YAML, "m:\n", NULL, NULL},
	{YAML, "m:\n  a: |\n    two\nx: 1\n", NULL, NULL},
	{YAML, "m:\n  a: 2\nx: 1\n", "m:\n  1\nx: 1\n", NULL},
};

static void check_row(const struct row *row, bool insert)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_edit edit = {0};
	const struct flmem_edit *const list = &edit;
	const struct flmem_node *node;
	char *after;
	bool done;

	flmem_buf_puts(&text, row->text);
	assert_int_equal(flmem_document_read(row->syntax, &text, &document, NULL), 0);
	node = flmem_node_get(document.root, "m");
	assert_non_null(node);
	done = insert ? flmem_edit_insert(&document, node, row->key ? row->key : "k", "1", &edit)
		      : flmem_edit_replace(&document, node, "1", &edit);
	if (done != (row->after != NULL))
		fail_msg("%s: %s", row->text, done ? "not refused" : "refused");
	if (!done)
		return;
	after = flmem_edits_apply(document.text.data, &list, 1);
	assert_string_equal(after, row->after);
	assert_true(flmem_edits_are_safe(row->syntax, row->text, after, &list, 1));
	free(after);
	free(edit.text);
}

static void keys_are_added_in_the_style_of_the_file(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(inserts); i++)
		check_row(&inserts[i], true);
}

static void values_are_replaced_and_nothing_else(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(replacements); i++)
		check_row(&replacements[i], false);
}

static void edits_that_touch_wait_for_another_pass(void **state)
{
	struct flmem_edit edits[] = {
		{.start = 4, .end = 6, .text = (char[]){"x"}},
		{.start = 0, .end = 1, .text = (char[]){"ab"}},
		{.start = 5, .end = 7, .text = (char[]){"y"}},
		{.start = 4, .end = 6, .text = (char[]){"x"}},
		{.start = 9, .end = 9, .text = (char[]){"!"}},
		{.start = 9, .end = 9, .text = (char[]){"?"}},
	};
	const struct flmem_edit *list[FLMEM_ARRAY_SIZE(edits)];
	char *after;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(edits); i++)
		list[i] = &edits[i];
	assert_int_equal(flmem_edits_select(list, FLMEM_ARRAY_SIZE(edits)), 3);
	after = flmem_edits_apply("012345678", list, 3);
	assert_string_equal(after, "ab123x678!");
	free(after);
}

struct corner {
	enum flmem_syntax syntax;
	const char *before;
	size_t start, end;
	const char *text;
	bool holds;
};

/* The first would be a separate value that ends after the written text. */
static const struct corner corners[] = {
	{YAML, "m: [1, 2]#\nn: 1\n", 3, 9, "7", false},
	{YAML, "m: 2\nn: 1\n", 3, 4, "7", true},
	{YAML, "m: 2\nn: 1\n", 3, 5, "7", false},
	{YAML, "m: 2\nn: 1\n", 4, 4, "\no: 3", false},
	{YAML, "m: 2\nn: 1\n", 9, 9, "\no: 3", true},
	{YAML, "m: 2\nn: 1\n", 9, 9, "\no: 3\np: 4", false},
	{YAML, "m: 2\nn: 1\n", 9, 9, "7", false},
	{YAML, "m: 2\nn: 1\n", 9, 9, " ", false},
	{YAML, "m: 2\nn: 1\n", 0, 1, "o", false},
	{YAML, "m: 2\nn: 2\n", 0, 0, "o: 2\n", false},
	{YAML, "m: 2", 4, 4, "\nk: 1", true},
	{YAML, "m: 2", 4, 4, "0\nk: 1", false},
	{YAML, "m: 2", 4, 4, ".0\nk: 1", false},
	{JSON, "{\"m\": [2]}", 6, 9, "7", true},
	{JSON, "{\"m\": [2]}", 8, 8, ", 7", false},
	{JSON, "{\"m\": [2]}", 6, 9, "7, \"n\": 1", false},
	{JSON, "{\"m\": [2]}", 6, 9, "}", false},
};

static void an_edit_that_changes_more_does_not_hold(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(corners); i++) {
		const struct corner *corner = &corners[i];
		char text[32];
		const struct flmem_edit edit = {corner->start, corner->end, text};
		const struct flmem_edit *const list = &edit;
		char *after;

		snprintf(text, sizeof(text), "%s", corner->text);
		after = flmem_edits_apply(corner->before, &list, 1);
		if (flmem_edits_are_safe(corner->syntax, corner->before, after, &list, 1) !=
		    corner->holds)
			fail_msg("%zu: %s", i, after);
		free(after);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_are_added_in_the_style_of_the_file),
		cmocka_unit_test(values_are_replaced_and_nothing_else),
		cmocka_unit_test(edits_that_touch_wait_for_another_pass),
		cmocka_unit_test(an_edit_that_changes_more_does_not_hold),
	};

	return cmocka_run_group_tests_name("edit", tests, NULL, NULL);
}
