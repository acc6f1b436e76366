/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "documents/document.h"

static int read_json(const char *text, size_t length, struct flmem_document *ret_document,
		     struct flmem_error *err)
{
	struct flmem_buf buf = FLMEM_BUF_INIT;

	flmem_buf_append(&buf, text, length);
	return flmem_document_read(FLMEM_SYNTAX_JSON, &buf, ret_document, err);
}

static void assert_refused(const char *text, unsigned line, const char *why)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_error err = {0};

	assert_int_equal(read_json(text, strlen(text), &document, &err), FLMEM_EUSAGE);
	assert_int_equal(document.bad_line, line);
	if (!strstr(err.message, why))
		fail_msg("'%s' does not tell '%s'", err.message, why);
}

static void values_have_their_places(void **state)
{
	static const char text[] = "{\n  \"a\": [1, -2.5e3, \"x\\ty\"],\n  \"b\": {\"c\": true,\n"
				   "\t\"d\": null}\n}\n";
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	FLMEM_AUTO_BUF struct flmem_buf path = FLMEM_BUF_INIT;
	const struct flmem_node *node;
	int64_t number = 0;

	(void)state;
	assert_int_equal(read_json(text, strlen(text), &document, NULL), 0);
	node = flmem_node_first(flmem_node_get(document.root, "a"));
	assert_true(flmem_node_integer(node, &number));
	assert_int_equal(number, 1);
	node = node->next;
	assert_int_equal(node->kind, FLMEM_NODE_REAL);
	assert_false(flmem_node_integer(node, &number));
	assert_int_equal(node->place.line, 2);
	assert_int_equal(node->place.column, 12);
	assert_memory_equal(document.text.data + node->place.start, "-2.5e3", 6);
	assert_int_equal(node->place.end - node->place.start, 6);
	node = node->next;
	assert_string_equal(flmem_node_string(node), "x\ty");
	flmem_node_path(node, &path);
	assert_string_equal(path.data, "a[2]");
	node = FLMEM_NODE_DIG(document.root, "b", "d");
	assert_int_equal(node->kind, FLMEM_NODE_NULL);
	assert_int_equal(node->key_place.line, 4);
	assert_int_equal(node->key_place.column, 2);
	flmem_buf_reset(&path);
	flmem_node_path(node, &path);
	assert_string_equal(path.data, "b.d");
	assert_true(flmem_node_is_true(FLMEM_NODE_DIG(document.root, "b", "c")));
	assert_null(FLMEM_NODE_DIG(document.root, "b", "c", "e"));
	assert_null(flmem_node_get(NULL, "a"));
}

static void the_last_of_equal_keys_counts(void **state)
{
	static const char text[] = "{\"a\": 1, \"a\": 2}";
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	int64_t number = 0;

	(void)state;
	assert_int_equal(read_json(text, strlen(text), &document, NULL), 0);
	assert_true(flmem_node_integer(flmem_node_get(document.root, "a"), &number));
	assert_int_equal(number, 2);
}

static void escapes_are_resolved(void **state)
{
	static const char text[] = "[\"\\u00e9\\ud83d\\ude00\\/\\\"\", \"\\ud83d\", \"a\\u0000b\"]";
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	const struct flmem_node *node;

	(void)state;
	assert_int_equal(read_json(text, strlen(text), &document, NULL), 0);
	node = flmem_node_first(document.root);
	assert_string_equal(node->text, "\xc3\xa9\xf0\x9f\x98\x80/\"");
	assert_string_equal(node->next->text, "\xef\xbf\xbd");
	assert_string_equal(node->next->next->text, "a\xef\xbf\xbd"
						    "b");
}

static void what_python_takes_is_taken(void **state)
{
	static const char *const texts[] = {"NaN",  "-Infinity", " [] ",   "{}",
					    "\"\"", "0",	 "-0.0e+1"};
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(read_json(texts[i], strlen(texts[i]), &document, NULL), 0);
		flmem_document_clear(&document);
	}
}

static void bad_texts_are_refused_with_their_line(void **state)
{
	(void)state;
	assert_refused("", 1, "the text ends");
	assert_refused("{\n\"a\": 1,\n}", 3, "key in double quotes");
	assert_refused("{\"a\": 1 // no\n}", 1, "expected ',' or '}'");
	assert_refused("[1,\n2", 2, "expected ',' or ']'");
	assert_refused("{\"a\" 1}", 1, "':'");
	assert_refused("[01]", 1, "expected a value");
	assert_refused("[1.]", 1, "expected a value");
	assert_refused("[True]", 1, "expected a value");
	assert_refused("['a']", 1, "expected a value");
	assert_refused("[\"a\nb\"]", 1, "control character");
	assert_refused("[\"a", 1, "ends in a string");
	assert_refused("[\"\\x41\"]", 1, "escape");
	assert_refused("[\"\\u00g0\"]", 1, "escape");
	assert_refused("{}\n{}", 2, "end of the text");
	assert_refused("\xef\xbb\xbf{}", 1, "expected a value");
	assert_refused("{\n\xff}", 2, "not UTF-8");
}

static void binary_and_large_files_are_refused(void **state)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_buf large = FLMEM_BUF_INIT;
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(read_json("[1,\0]", 5, &document, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "binary"));
	flmem_document_clear(&document);
	assert_true(flmem_buf_reserve(&large, FLMEM_DOCUMENT_BYTES_MAX + 1));
	memset(large.data, ' ', FLMEM_DOCUMENT_BYTES_MAX + 1);
	large.length = FLMEM_DOCUMENT_BYTES_MAX + 1;
	assert_int_equal(flmem_document_read(FLMEM_SYNTAX_JSON, &large, &document, &err),
			 FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "larger"));
}

static void repeat(struct flmem_buf *buf, const char *text, size_t count)
{
	while (count--)
		flmem_buf_puts(buf, text);
}

static void nesting_and_number_of_values_are_bounded(void **state)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_error err = {0};

	(void)state;
	repeat(&text, "[", 1000000);
	assert_int_equal(flmem_document_read(FLMEM_SYNTAX_JSON, &text, &document, &err),
			 FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "nested"));
	flmem_document_clear(&document);
	flmem_buf_puts(&text, "[0");
	repeat(&text, ",0", FLMEM_DOCUMENT_NODES_MAX);
	flmem_buf_puts(&text, "]");
	assert_int_equal(flmem_document_read(FLMEM_SYNTAX_JSON, &text, &document, &err),
			 FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "too many values"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_have_their_places),
		cmocka_unit_test(the_last_of_equal_keys_counts),
		cmocka_unit_test(escapes_are_resolved),
		cmocka_unit_test(what_python_takes_is_taken),
		cmocka_unit_test(bad_texts_are_refused_with_their_line),
		cmocka_unit_test(binary_and_large_files_are_refused),
		cmocka_unit_test(nesting_and_number_of_values_are_bounded),
	};

	return cmocka_run_group_tests_name("document", tests, NULL, NULL);
}
