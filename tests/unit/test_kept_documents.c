/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trees of many small documents of each syntax, with the place of every value, the reasons of
 * those that are refused, and every edit at every value, held against kept texts (kept.h); and a
 * checksum of the trees of each document with every byte varied in turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "documents/document.h"
#include "documents/edit.h"
#include "kept.h"

#define SEPARATOR "%%%%%\n"

struct subject {
	enum flmem_syntax syntax;
	bool edited; /* also make every edit at every value */
	struct flmem_document document;
	struct flmem_buf *out;
};

/* Prints a text on one line. */
static void put_shown(struct flmem_buf *out, const char *text, size_t length)
{
	flmem_buf_putc(out, '\'');
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '\n')
			flmem_buf_puts(out, "\\n");
		else if (text[i] == '\r')
			flmem_buf_puts(out, "\\r");
		else
			flmem_buf_putc(out, text[i] ? text[i] : '@');
	}
	flmem_buf_putc(out, '\'');
}

static void put_place(struct flmem_buf *out, const struct flmem_place *place)
{
	flmem_buf_printf(out, " %u:%u[%zu-%zu]", place->line, place->column, place->start,
			 place->end);
}

static void put_edit(const struct subject *s, const char *name, const struct flmem_edit *edit)
{
	const struct flmem_edit *const list[] = {edit};
	FLMEM_AUTO_FREE char *after = flmem_edits_apply(s->document.text.data, list, 1);

	assert_non_null(after);
	flmem_buf_printf(s->out, "    %s [%zu-%zu] ", name, edit->start, edit->end);
	put_shown(s->out, edit->text, strlen(edit->text));
	flmem_buf_puts(s->out,
		       flmem_edits_are_safe(s->syntax, s->document.text.data, after, list, 1)
			       ? "\n"
			       : " does not hold\n");
}

static void put_edits(const struct subject *s, const struct flmem_node *node)
{
	struct flmem_edit edit;

	if (flmem_edit_replace(&s->document, node, "71", &edit)) {
		put_edit(s, "replace", &edit);
		free(edit.text);
	}
	if (flmem_edit_insert(&s->document, node, "k.l", "72", &edit)) {
		put_edit(s, "insert", &edit);
		free(edit.text);
	}
}

static void put_node(const struct subject *s, const struct flmem_node *node)
{
	FLMEM_AUTO_BUF struct flmem_buf path = FLMEM_BUF_INIT;
	int64_t number;

	flmem_node_path(node, &path);
	flmem_buf_printf(s->out, "  %s %d ", path.data, (int)node->kind);
	put_shown(s->out, node->text, strlen(node->text));
	put_place(s->out, &node->place);
	if (node->key)
		put_place(s->out, &node->key_place);
	if (flmem_node_integer(node, &number))
		flmem_buf_printf(s->out, " = %lld", (long long)number);
	flmem_buf_puts(s->out, flmem_node_is_true(node) ? " true\n" : "\n");
	if (s->edited)
		put_edits(s, node);
	for (const struct flmem_node *n = node->first; n; n = n->next)
		if (n->parent == node)
			put_node(s, n);
		else
			flmem_buf_puts(s->out, "    of its anchor\n");
}

/* Reads a text, and takes its buffer. */
static void put_document(enum flmem_syntax syntax, bool edited, struct flmem_buf *text,
			 struct flmem_buf *out)
{
	struct subject s = {.syntax = syntax, .edited = edited, .out = out};
	struct flmem_error err = {0};

	if (flmem_document_read(syntax, text, &s.document, &err))
		flmem_buf_printf(out, "  refused, line %u: %s\n", s.document.bad_line, err.message);
	else if (s.document.root)
		put_node(&s, s.document.root);
	else
		flmem_buf_puts(out, "  empty\n");
	flmem_document_clear(&s.document);
}

/* Puts bytes that no readable file has. */
static void put_bytes(struct flmem_buf *text, const char *from, size_t length)
{
	static const struct {
		const char *name, *bytes;
	} tokens[] = {{"<CR>", "\r"},	 {"<BOM>", "\xef\xbb\xbf"},
		      {"<BAD>", "\xff"}, {"<DEL>", "\x7f"},
		      {"<ESC>", "\x1b"}, {"<NUL>", ""},
		      {"<TAB>", "\t"},	 {"<EOF>", NULL}};
	const char *end = from + length;

	while (from < end) {
		size_t i = 0;

		while (i < FLMEM_ARRAY_SIZE(tokens) &&
		       strncmp(from, tokens[i].name, strlen(tokens[i].name)) != 0)
			i++;
		if (i == FLMEM_ARRAY_SIZE(tokens)) {
			flmem_buf_putc(text, *from++);
			continue;
		}
		if (!tokens[i].bytes)
			return;
		flmem_buf_append(text, tokens[i].bytes,
				 *tokens[i].bytes ? strlen(tokens[i].bytes) : 1);
		from += strlen(tokens[i].name);
	}
}

static void keep_document(enum flmem_syntax syntax, struct flmem_buf *text, struct flmem_buf *out)
{
	put_shown(out, text->data, text->length < 60 ? text->length : 60);
	flmem_buf_putc(out, '\n');
	put_document(syntax, true, text, out);
}

enum variation {
	BYTE_MISSING,
	BYTE_TWICE,
	BYTES_EXCHANGED,
	REST_MISSING,
	VARIATIONS
};

/* Returns the text with another byte at `at`, or without the rest from there on. */
static struct flmem_buf vary(const struct flmem_buf *text, size_t at, enum variation how)
{
	struct flmem_buf varied = FLMEM_BUF_INIT;
	size_t rest = at + 1 + (how == BYTES_EXCHANGED && at + 1 < text->length);

	flmem_buf_append(&varied, text->data, at);
	if (how == REST_MISSING)
		return varied;
	if (how == BYTE_TWICE)
		flmem_buf_append(&varied, text->data + at, 1);
	if (how != BYTE_MISSING)
		flmem_buf_append(&varied, text->data + rest - 1, 1);
	if (rest == at + 2)
		flmem_buf_append(&varied, text->data + at, 1);
	flmem_buf_append(&varied, text->data + rest, text->length - rest);
	return varied;
}

/* Puts a checksum of the trees of the text with each of its bytes varied. */
static void vary_document(enum flmem_syntax syntax, struct flmem_buf *text, struct flmem_buf *out)
{
	for (int how = 0; how < VARIATIONS; how++) {
		uint32_t sum = 0;

		for (size_t at = 0; at < text->length; at++) {
			FLMEM_AUTO_BUF struct flmem_buf found = FLMEM_BUF_INIT;
			struct flmem_buf varied = vary(text, at, (enum variation)how);

			put_shown(&found, varied.data, varied.length);
			flmem_buf_putc(&found, '\n');
			put_document(syntax, false, &varied, &found);
			kept_show("", &found);
			sum = flmem_crc32(sum, found.data, found.length);
		}
		flmem_buf_printf(out, "%08x%c", (unsigned)sum, how + 1 < VARIATIONS ? ' ' : '\n');
	}
	flmem_buf_clear(text);
}

/* Takes the text `keep`. */
static void compare_documents(enum flmem_syntax syntax, const char *name, const char *ending,
			      void (*keep)(enum flmem_syntax syntax, struct flmem_buf *text,
					   struct flmem_buf *out))
{
	FLMEM_AUTO_BUF struct flmem_buf cases = FLMEM_BUF_INIT, out = FLMEM_BUF_INIT;
	char path[128];
	const char *from, *end;

	snprintf(path, sizeof(path), "documents/%s.cases", name);
	kept_read(path, &cases);
	for (from = cases.data; *from; from = end + strlen(SEPARATOR)) {
		struct flmem_buf text = FLMEM_BUF_INIT;

		end = strstr(from, SEPARATOR);
		assert_non_null(end);
		put_bytes(&text, from, (size_t)(end - from));
		keep(syntax, &text, &out);
	}
	snprintf(path, sizeof(path), "documents/%s.%s", name, ending);
	kept_compare(path, &out);
}

static void keep_documents(enum flmem_syntax syntax, const char *name)
{
	compare_documents(syntax, name, "txt", keep_document);
	compare_documents(syntax, name, "variations", vary_document);
}

static void json_is_as_kept(void **state)
{
	(void)state;
	keep_documents(FLMEM_SYNTAX_JSON, "json");
}

static void hocon_is_as_kept(void **state)
{
	(void)state;
	keep_documents(FLMEM_SYNTAX_HOCON, "hocon");
}

static void yaml_is_as_kept(void **state)
{
	(void)state;
	keep_documents(FLMEM_SYNTAX_YAML, "yaml");
}

static void toml_is_as_kept(void **state)
{
	(void)state;
	keep_documents(FLMEM_SYNTAX_TOML, "toml");
}

static void python_is_as_kept(void **state)
{
	(void)state;
	keep_documents(FLMEM_SYNTAX_PYTHON, "python");
}

static void notebooks_are_as_kept(void **state)
{
	(void)state;
	keep_documents(FLMEM_SYNTAX_NOTEBOOK, "notebook");
}

static void markdown_is_as_kept(void **state)
{
	(void)state;
	keep_documents(FLMEM_SYNTAX_MARKDOWN, "markdown");
}

static void plain_texts_are_as_kept(void **state)
{
	(void)state;
	keep_documents(FLMEM_SYNTAX_PLAIN, "plain");
}

/*
 * A text of `head`, `count` times `unit`, in which %zu is its number, `middle`, `count` times
 * `closing`.
 */
struct pile {
	enum flmem_syntax syntax;
	const char *head, *unit, *middle, *closing;
};

static bool is_read(const struct pile *pile, size_t count)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_buf text = FLMEM_BUF_INIT;
	const char *number = strstr(pile->unit, "%zu");

	flmem_buf_puts(&text, pile->head);
	for (size_t i = 0; i < count; i++) {
		if (number)
			flmem_buf_printf(&text, "%.*s%zu%s", (int)(number - pile->unit), pile->unit,
					 i, number + 3);
		else
			flmem_buf_puts(&text, pile->unit);
	}
	flmem_buf_puts(&text, pile->middle);
	for (size_t i = 0; i < count; i++)
		flmem_buf_puts(&text, pile->closing);
	return flmem_document_read(pile->syntax, &text, &document, NULL) == 0;
}

/* Returns the largest count that is read, up to 4,000. */
static size_t limit_of(const struct pile *pile)
{
	size_t low = 0, high = 4001;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		*(is_read(pile, middle) ? &low : &high) = middle;
	}
	return low;
}

static void limits_are_as_kept(void **state)
{
	static const struct pile piles[] = {
		{FLMEM_SYNTAX_JSON, "", "[", "", "]"},
		{FLMEM_SYNTAX_JSON, "", "{\"a\":[", "", "]}"},
		{FLMEM_SYNTAX_JSON, "[0", ",1", "]", ""},
		{FLMEM_SYNTAX_HOCON, "a = ", "[", "", "]"},
		{FLMEM_SYNTAX_HOCON, "a = ", "{b=", "1", "}"},
		{FLMEM_SYNTAX_HOCON, "a", ".b", " = 1", ""},
		{FLMEM_SYNTAX_HOCON, "a", ".b", " { c.d = 1 }", ""},
		{FLMEM_SYNTAX_HOCON, "", "k%zu = 1\n", "", ""},
		{FLMEM_SYNTAX_HOCON, "a=1\n", "a.b = 1\n", "", ""},
		{FLMEM_SYNTAX_YAML, "a: ", "[", "", "]"},
		{FLMEM_SYNTAX_YAML, "", "- &a%zu x\n", "", ""},
		{FLMEM_SYNTAX_TOML, "a = ", "[", "", "]"},
		{FLMEM_SYNTAX_TOML, "a = ", "{b=", "1", "}"},
		{FLMEM_SYNTAX_TOML, "", "k%zu = 1\n", "", ""},
		{FLMEM_SYNTAX_TOML, "a", ".b", " = 1", ""},
		{FLMEM_SYNTAX_TOML, "[a", ".b", "]\nx = {y.z = 1}\n", ""},
		{FLMEM_SYNTAX_PYTHON, "from a import f\n", "f(", "", ")"},
		{FLMEM_SYNTAX_PYTHON, "from a import f\n", "f(x=", "1", ")"},
		{FLMEM_SYNTAX_PYTHON, "from a import f\nf(x=", "{'a':", "1", "}"},
	};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(piles); i++) {
		put_shown(&out, piles[i].head, strlen(piles[i].head));
		put_shown(&out, piles[i].unit, strlen(piles[i].unit));
		flmem_buf_printf(&out, " %zu\n", limit_of(&piles[i]));
	}
	kept_compare("documents/limits.txt", &out);
}

/*
 * Puts the trees of documents at the limit of depth of an expression of Python, with text after it.
 */
static void put_deep(struct flmem_buf *out, const char *unit, size_t count)
{
	struct flmem_buf text = FLMEM_BUF_INIT;

	flmem_buf_puts(&text, "from a import f\n");
	for (size_t i = 0; i < count; i++)
		flmem_buf_puts(&text, unit);
	flmem_buf_puts(&text, "\nf(z=1)\nx.g(1)\n");
	flmem_buf_printf(out, "%zu '%s'\n", count, unit);
	put_document(FLMEM_SYNTAX_PYTHON, true, &text, out);
}

static void open_brackets_are_as_kept(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t count = 126; count <= 130; count++)
		put_deep(&out, "[", count);
	put_deep(&out, "x.g(", 47);
	put_deep(&out, "{'a':", 3);
	kept_compare("documents/open.txt", &out);
}

/* Counts the copies of a line that a Python file lists after so many imports. */
static size_t count_listed(const char *line, const char *list, size_t imports)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_buf text = FLMEM_BUF_INIT;
	size_t count = 0;

	for (size_t i = 0; i < imports; i++)
		flmem_buf_printf(&text, "import a%zu\n", i);
	for (size_t i = 0; i < FLMEM_DOCUMENT_NODES_MAX / 2; i++)
		flmem_buf_puts(&text, line);
	assert_int_equal(flmem_document_read(FLMEM_SYNTAX_PYTHON, &text, &document, NULL), 0);
	for (const struct flmem_node *n = flmem_node_first(flmem_node_get(document.root, list)); n;
	     n = n->next)
		count++;
	return count;
}

/* Values that nothing imported needs are left out when half of the nodes are used. */
static void half_of_the_nodes_is_as_kept(void **state)
{
	static const char *const rows[][2] = {{"x.f()\n", "methods"}, {"{'a': 1}\n", "keys"}};
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		for (size_t imports = 0; imports < 4; imports++)
			flmem_buf_printf(&out, "%s %zu: %zu\n", rows[i][1], imports,
					 count_listed(rows[i][0], rows[i][1], imports));
	kept_compare("documents/half.txt", &out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_is_as_kept),
		cmocka_unit_test(hocon_is_as_kept),
		cmocka_unit_test(yaml_is_as_kept),
		cmocka_unit_test(toml_is_as_kept),
		cmocka_unit_test(python_is_as_kept),
		cmocka_unit_test(notebooks_are_as_kept),
		cmocka_unit_test(markdown_is_as_kept),
		cmocka_unit_test(plain_texts_are_as_kept),
		cmocka_unit_test(limits_are_as_kept),
		cmocka_unit_test(open_brackets_are_as_kept),
		cmocka_unit_test(half_of_the_nodes_is_as_kept),
	};

	return cmocka_run_group_tests_name("kept_documents", tests, NULL, NULL);
}
