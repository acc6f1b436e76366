/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "documents/document.h"

static int read_text(enum flmem_syntax syntax, const char *text,
		     struct flmem_document *ret_document, struct flmem_error *err)
{
	struct flmem_buf buf = FLMEM_BUF_INIT;

	flmem_buf_puts(&buf, text);
	return flmem_document_read(syntax, &buf, ret_document, err);
}

static int read_json(const char *text, size_t length, struct flmem_document *ret_document,
		     struct flmem_error *err)
{
	struct flmem_buf buf = FLMEM_BUF_INIT;

	flmem_buf_append(&buf, text, length);
	return flmem_document_read(FLMEM_SYNTAX_JSON, &buf, ret_document, err);
}

static void assert_refused_as(enum flmem_syntax syntax, const char *text, unsigned line,
			      const char *why)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_error err = {0};

	assert_int_equal(read_text(syntax, text, &document, &err), FLMEM_EUSAGE);
	assert_int_equal(document.bad_line, line);
	if (!strstr(err.message, why))
		fail_msg("'%s' does not contain '%s'", err.message, why);
}

static void assert_refused(const char *text, unsigned line, const char *why)
{
	assert_refused_as(FLMEM_SYNTAX_JSON, text, line, why);
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
	node = FLMEM_NODE_AT(document.root, "b", "d");
	assert_int_equal(node->kind, FLMEM_NODE_NULL);
	assert_int_equal(node->key_place.line, 4);
	assert_int_equal(node->key_place.column, 2);
	flmem_buf_reset(&path);
	flmem_node_path(node, &path);
	assert_string_equal(path.data, "b.d");
	assert_true(flmem_node_is_true(FLMEM_NODE_AT(document.root, "b", "c")));
	assert_null(FLMEM_NODE_AT(document.root, "b", "c", "e"));
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
	static const char text[] = "[\"\\u00e9\\ud83d\\ude00\\/\\\"\", \"\\ud83d\", \"a\\u0000b\","
				   "\"\\udc00\\udc00\", \"\\ud800\\ud800\", \"\\udbff\\udfff\"]";
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	const struct flmem_node *node;

	(void)state;
	assert_int_equal(read_json(text, strlen(text), &document, NULL), 0);
	node = flmem_node_first(document.root);
	assert_string_equal(node->text, "\xc3\xa9\xf0\x9f\x98\x80/\"");
	assert_string_equal(node->next->text, "\xef\xbf\xbd");
	node = node->next->next;
	assert_string_equal(node->text, "a\xef\xbf\xbd"
					"b");
	assert_string_equal(node->next->text, "\xef\xbf\xbd\xef\xbf\xbd");
	assert_string_equal(node->next->next->text, "\xef\xbf\xbd\xef\xbf\xbd");
	assert_string_equal(node->next->next->next->text, "\xf4\x8f\xbf\xbf");
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
	assert_refused("", 1, "before the end of the text");
	assert_refused("{\n\"a\": 1,\n}", 3, "key in double quotes");
	assert_refused("{\"a\": 1 // no\n}", 1, "expected ',' or '}'");
	assert_refused("[1,\n2", 2, "expected ',' or ']'");
	assert_refused("{\"a\" 1}", 1, "':'");
	assert_refused("[01]", 1, "expected a value");
	assert_refused("[1.]", 1, "expected a value");
	assert_refused("[True]", 1, "expected a value");
	assert_refused("['a']", 1, "expected a value");
	assert_refused("[\"a\nb\"]", 1, "control character");
	assert_refused("[\"a", 1, "unterminated string");
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
	flmem_buf_puts(&text, "[true");
	repeat(&text, ",true", FLMEM_DOCUMENT_NODES_MAX);
	flmem_buf_puts(&text, "]");
	assert_int_equal(flmem_document_read(FLMEM_SYNTAX_JSON, &text, &document, &err),
			 FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "too many values"));
}

/* NVFlare writes NumPy models like this; values after it keep their places. */
static void weights_are_read_and_mostly_not_kept(void **state)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_error err = {0};
	const struct flmem_node *weights;

	(void)state;
	flmem_buf_puts(&text, "{\"weights\": [[");
	for (size_t row = 0; row < 500; row++) {
		repeat(&text, "-1.5e-3, ", 1000);
		flmem_buf_puts(&text, row < 499 ? "NaN],\n[" : "0]],\n\"rounds\": 5}");
	}
	assert_int_equal(flmem_document_read(FLMEM_SYNTAX_JSON, &text, &document, &err), 0);
	assert_in_range(document.node_count, 17U, 1000);
	weights = flmem_node_get(document.root, "weights");
	assert_int_equal(weights->last->index, FLMEM_DOCUMENT_NUMBERS_KEPT - 1);
	assert_int_equal(flmem_node_get(document.root, "rounds")->place.line, 501);
}

static void numbers_are_passed_over_only_where_they_are_some(void **state)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_error err = {0};

	(void)state;
	flmem_buf_puts(&text, "[0");
	repeat(&text, ",0", 100);
	flmem_buf_puts(&text, ",1e]");
	assert_int_equal(flmem_document_read(FLMEM_SYNTAX_JSON, &text, &document, &err),
			 FLMEM_EUSAGE);
	flmem_document_clear(&document);
	flmem_buf_puts(&text, "[0");
	repeat(&text, ",0", 100);
	flmem_buf_puts(&text, ",[1,\"x\"],{\"y\":2}]");
	assert_int_equal(flmem_document_read(FLMEM_SYNTAX_JSON, &text, &document, &err), 0);
	assert_non_null(flmem_node_get(document.root->last, "y"));
	flmem_document_clear(&document);
	flmem_buf_puts(&text, "[0");
	repeat(&text, ",0", 100);
	flmem_buf_puts(&text, ",[[1],\"x\"]]");
	assert_int_equal(flmem_document_read(FLMEM_SYNTAX_JSON, &text, &document, &err), 0);
	assert_non_null(document.root->last->last);
	assert_string_equal(document.root->last->last->text, "x");
}

/* Draws the tree on one line: maps in braces, strings in quotes, other scalars as they are. */
static void draw(const struct flmem_node *node, struct flmem_buf *out)
{
	bool map = node->kind == FLMEM_NODE_MAP;

	if (node->key)
		flmem_buf_printf(out, "%s=", node->key);
	if (node->kind == FLMEM_NODE_STRING) {
		flmem_buf_printf(out, "'%s'", node->text);
	} else if (!map && node->kind != FLMEM_NODE_LIST) {
		flmem_buf_puts(out, node->kind == FLMEM_NODE_NULL ? "null" : node->text);
	} else {
		flmem_buf_putc(out, map ? '{' : '[');
		for (const struct flmem_node *n = node->first; n; n = n->next) {
			draw(n, out);
			flmem_buf_puts(out, n->next ? " " : "");
		}
		flmem_buf_putc(out, map ? '}' : ']');
	}
}

static void assert_drawn(enum flmem_syntax syntax, const char *text, const char *expected)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	FLMEM_AUTO_BUF struct flmem_buf drawn = FLMEM_BUF_INIT;
	struct flmem_error err = {0};

	if (read_text(syntax, text, &document, &err))
		fail_msg("%s", err.message);
	draw(document.root, &drawn);
	assert_string_equal(drawn.data, expected);
}

/* Checks the text of the value at `key`, as in the file, and its line. */
static void assert_place(enum flmem_syntax syntax, const char *text, const char *key,
			 const char *expected, unsigned line)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	const struct flmem_node *node;

	assert_int_equal(read_text(syntax, text, &document, NULL), 0);
	node = flmem_node_get(document.root, key);
	assert_non_null(node);
	assert_int_equal(node->place.line, line);
	assert_int_equal(node->place.end - node->place.start, strlen(expected));
	assert_memory_equal(document.text.data + node->place.start, expected, strlen(expected));
}

static void yaml_is_read_as_python_does(void **state)
{
	(void)state;
	assert_drawn(FLMEM_SYNTAX_YAML, "a: 1\nb: yes\nc: 'yes'\nd: ~\ne: !!str 5\nf: 1_000\n",
		     "{a=1 b=true c='yes' d=null e='5' f=1000}");
	assert_drawn(FLMEM_SYNTAX_YAML,
		     "a: !!int 0\nb: !!int '5'\nc: !!bool no\nd: !!null ''\ne: !x 5\nf: ! '6'\n",
		     "{a=0 b=5 c=false d=null e='5' f=6}");
	assert_drawn(FLMEM_SYNTAX_YAML, "a: [1, {b: -2.5}]\nc: +3\nd: |\n  x\n  y\n",
		     "{a=[1 {b=-2.5}] c=3 d='x\ny\n'}");
	assert_drawn(FLMEM_SYNTAX_YAML, "a: &x {k: 1}\nb: *x\nc: 0x10\n", "{a={k=1} b={k=1} c=16}");
	assert_drawn(FLMEM_SYNTAX_YAML, "a: -0xF_f\nb: 0b11\nc: 017\nd: 00\ne: +0x1\nf: -0x0\n",
		     "{a=-255 b=3 c=15 d=0 e=1 f=0}");
	assert_drawn(FLMEM_SYNTAX_YAML,
		     "a: 0o17\nb: 0X1f\nc: 08\nd: 0x\ne: 0xg\nf: 0b2\ng: '0x1'\n"
		     "h: 0x8000000000000000\ni: 0x7fffffffffffffff\n",
		     "{a='0o17' b='0X1f' c='08' d='0x' e='0xg' f='0b2' g='0x1' "
		     "h='0x8000000000000000' i=9223372036854775807}");
	assert_drawn(FLMEM_SYNTAX_YAML,
		     "a: 1:30\nb: -1:30\nc: +1:5\nd: 1_0:05\ne: 190:20:30\nf: 1:60\ng: 01:30\n"
		     "h: 0:30\ni: 8002:8002\nj: '1:30'\nk: 1:30.5\n",
		     "{a=90 b=-90 c=65 d=605 e=685230 f='1:60' g='01:30' h='0:30' i='8002:8002' "
		     "j='1:30' k='1:30.5'}");
	assert_drawn(FLMEM_SYNTAX_YAML, "---\na: 1\n---\nb: 2\n", "[{a=1} {b=2}]");
	assert_drawn(FLMEM_SYNTAX_YAML, "{\"a\": [true, null]}", "{a=[true null]}");
}

static void yaml_values_have_their_places(void **state)
{
	(void)state;
	assert_place(FLMEM_SYNTAX_YAML, "# gr\xc3\xbc\xc3\x9f\n\"\xc3\xa9\": 1\nb:  5 # no\n", "b",
		     "5", 3);
	assert_place(FLMEM_SYNTAX_YAML,
		     "\xef\xbb\xbf"
		     "a: 'x'\r\nb: yes\r\n",
		     "b", "yes", 2);
	assert_place(FLMEM_SYNTAX_YAML, "a:\n  b: 1\n  c: 2\n\n# end\nd: 3\n", "a", "b: 1\n  c: 2",
		     2);
	assert_place(FLMEM_SYNTAX_YAML, "a: {b: 1}\n", "a", "{b: 1}", 1);
}

static void yaml_merge_keys_count(void **state)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	int64_t number = 0;

	(void)state;
	assert_int_equal(read_text(FLMEM_SYNTAX_YAML,
				   "x: &x {a: 1, b: 1}\ny: {<<: *x, b: 2}\nz: {<<: [*x]}\n",
				   &document, NULL),
			 0);
	assert_true(flmem_node_integer(FLMEM_NODE_AT(document.root, "y", "a"), &number));
	assert_int_equal(number, 1);
	assert_true(flmem_node_integer(FLMEM_NODE_AT(document.root, "y", "b"), &number));
	assert_int_equal(number, 2);
	assert_non_null(FLMEM_NODE_AT(document.root, "z", "b"));
	assert_null(FLMEM_NODE_AT(document.root, "z", "c"));
}

static void bad_yaml_is_refused_with_its_line(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf deep = FLMEM_BUF_INIT;

	(void)state;
	assert_refused_as(FLMEM_SYNTAX_YAML, "a: 1\nb: [2\nc: 3\n", 3, "");
	assert_refused_as(FLMEM_SYNTAX_YAML, "a: 1\n\tb: 2\n", 2, "");
	assert_refused_as(FLMEM_SYNTAX_YAML, "a: *x\n", 1, "alias without an anchor");
	assert_refused_as(FLMEM_SYNTAX_YAML, "a: &x\n  b: *x\n", 2, "alias inside");
	assert_refused_as(FLMEM_SYNTAX_YAML, "? [a]\n: 1\n", 1, "not a scalar");
	repeat(&deep, "[", 100000);
	assert_refused_as(FLMEM_SYNTAX_YAML, deep.data, 1, "nested");
	flmem_buf_reset(&deep);
	repeat(&deep, "- &a 1\n", 2000);
	assert_refused_as(FLMEM_SYNTAX_YAML, deep.data, 1025, "too many anchors");
}

/* Nine levels of nine aliases each stand for 3 * 10^8 values and cost eighty. */
static void yaml_aliases_are_not_multiplied(void **state)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	(void)state;
	flmem_buf_puts(&text, "l0: &l0 [0]\n");
	for (int level = 1; level < 10; level++) {
		flmem_buf_printf(&text, "l%d: &l%d [", level, level);
		for (int i = 0; i < 9; i++)
			flmem_buf_printf(&text, "*l%d, ", level - 1);
		flmem_buf_puts(&text, "]\n");
	}
	assert_int_equal(read_text(FLMEM_SYNTAX_YAML, text.data, &document, NULL), 0);
	assert_true(document.node_count < 200);
}

static void hocon_is_read_as_far_as_nvflare_uses_it(void **state)
{
	(void)state;
	assert_drawn(FLMEM_SYNTAX_HOCON, "a = 1 # one\nb : x y // two\nc { d = TRUE }\n",
		     "{a=1 b='x y' c={d=true}}");
	assert_drawn(FLMEM_SYNTAX_HOCON, "{a.b.c = 1, a.b.d = null\n\"e.f\" = \"\\u0041\"}",
		     "{a={b={c=1 d=null}} e.f='A'}");
	assert_drawn(FLMEM_SYNTAX_HOCON, "a { b = 1 }\na { c = 2 }\n", "{a={b=1 c=2}}");
	assert_drawn(FLMEM_SYNTAX_HOCON, "l = [1, 2\n three\n{k = v}]\n",
		     "{l=[1 2 'three' {k='v'}]}");
	assert_drawn(FLMEM_SYNTAX_HOCON, "a = ${x.y}\nb = \"{n}\"\nc =\n  -1.5\n",
		     "{a='${x.y}' b='{n}' c=-1.5}");
	assert_drawn(FLMEM_SYNTAX_HOCON, "a = \"\"\"x \"y\"\nz\"\"\"\n", "{a='x \"y\"\nz'}");
	assert_drawn(FLMEM_SYNTAX_HOCON, "", "{}");
	assert_drawn(FLMEM_SYNTAX_HOCON, "[1]", "[1]");
	assert_place(FLMEM_SYNTAX_HOCON, "a = 1\nb = two words  # no\n", "b", "two words", 2);
	assert_place(FLMEM_SYNTAX_HOCON, "a = { b = 1 }\n", "a", "{ b = 1 }", 1);
}

static void other_hocon_is_refused_with_its_line(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf deep = FLMEM_BUF_INIT, wide = FLMEM_BUF_INIT;

	(void)state;
	assert_refused_as(FLMEM_SYNTAX_HOCON, "a = 1\ninclude \"/etc/passwd\"\n", 2, "include");
	assert_refused_as(FLMEM_SYNTAX_HOCON, "a = 1\na += 2\n", 2, "'+='");
	assert_refused_as(FLMEM_SYNTAX_HOCON, "a = {x = 1} {y = 2}\n", 1, "concatenated");
	assert_refused_as(FLMEM_SYNTAX_HOCON, "a = \"x\" y\n", 1, "concatenated");
	assert_refused_as(FLMEM_SYNTAX_HOCON, "a = ${x} {y = 2}\n", 1, "concatenated");
	assert_refused_as(FLMEM_SYNTAX_HOCON, "a = {\nb = 1\n", 3, "expected '}'");
	assert_refused_as(FLMEM_SYNTAX_HOCON, "a\n", 1, "after the key");
	assert_refused_as(FLMEM_SYNTAX_HOCON, "a = 1\n}\n", 2, "expected a key");
	assert_refused_as(FLMEM_SYNTAX_HOCON, "a =\n", 2, "expected a value");
	assert_refused_as(FLMEM_SYNTAX_HOCON, "a = \"\"\"x", 1, "unterminated string");
	repeat(&deep, "a.", 100000);
	assert_refused_as(FLMEM_SYNTAX_HOCON, deep.data, 1, "nested");
	flmem_buf_reset(&deep);
	repeat(&deep, "a{", 100000);
	assert_refused_as(FLMEM_SYNTAX_HOCON, deep.data, 1, "nested");
	repeat(&wide, "a=1\n", 3000);
	assert_refused_as(FLMEM_SYNTAX_HOCON, wide.data, 2050, "too many keys");
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
		cmocka_unit_test(weights_are_read_and_mostly_not_kept),
		cmocka_unit_test(numbers_are_passed_over_only_where_they_are_some),
		cmocka_unit_test(yaml_is_read_as_python_does),
		cmocka_unit_test(yaml_values_have_their_places),
		cmocka_unit_test(yaml_merge_keys_count),
		cmocka_unit_test(bad_yaml_is_refused_with_its_line),
		cmocka_unit_test(yaml_aliases_are_not_multiplied),
		cmocka_unit_test(hocon_is_read_as_far_as_nvflare_uses_it),
		cmocka_unit_test(other_hocon_is_refused_with_its_line),
	};

	return cmocka_run_group_tests_name("document", tests, NULL, NULL);
}
