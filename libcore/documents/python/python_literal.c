/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_literal.h"

#include <string.h>

#include "documents/python/python_fields.h"

#define NUMBER_MAX 64

/* Reads whole numbers and fractions. 1e3j, and what does not fit into 64 bits, is an expression. */
static bool read_literal_number(struct flmem_cursor *cursor, const struct flmem_python_word *word,
				bool negative, struct flmem_node *node)
{
	size_t length = word->place.end - word->place.start, used = negative;
	char text[NUMBER_MAX] = "-";

	if (length + 2 > sizeof(text))
		return false;
	for (size_t i = 0; i < length; i++)
		if (word->text[i] != '_')
			text[used++] = word->text[i];
	text[used] = '\0';
	node->kind = FLMEM_NODE_INTEGER;
	node->text = flmem_number_in_base(cursor, text, "xXoObB");
	if (node->text)
		return true;
	node->kind = flmem_number_kind(text, used);
	if (node->kind != FLMEM_NODE_INTEGER && node->kind != FLMEM_NODE_REAL)
		return false;
	node->text = flmem_cursor_keep(cursor, text, used);
	return node->text;
}

static bool read_constant(const struct flmem_python_word *word, struct flmem_node *node)
{
	bool is_true = flmem_python_is(word, "True"), is_false = flmem_python_is(word, "False");

	node->kind = is_true || is_false ? FLMEM_NODE_BOOL : FLMEM_NODE_NULL;
	node->text = is_true ? "true" : is_false ? "false" : "null";
	return is_true || is_false || flmem_python_is(word, "None");
}

/* Reads the content of a string as it is written: escapes are not resolved. */
static bool read_string(struct flmem_cursor *cursor, const struct flmem_python_word *word,
			struct flmem_node *node)
{
	size_t prefix = strcspn(word->text, "\"'");
	size_t length = word->place.end - word->place.start - prefix, quotes = 1;
	const char *p = word->text + prefix;

	if (length >= 6 && p[0] == p[1] && p[1] == p[2])
		quotes = 3;
	if (flmem_python_has_fields(word) || length < 2 * quotes)
		return false;
	node->kind = FLMEM_NODE_STRING;
	node->text = flmem_cursor_keep(cursor, p + quotes, length - 2 * quotes);
	return node->text;
}

static bool read_any_literal(struct flmem_cursor *cursor, const struct flmem_python_word *word,
			     bool negative, struct flmem_node *node)
{
	if (word->kind == FLMEM_PYTHON_NUMBER)
		return read_literal_number(cursor, word, negative, node);
	if (word->kind == FLMEM_PYTHON_STRING)
		return read_string(cursor, word, node);
	return read_constant(word, node);
}

bool flmem_python_literal(struct flmem_cursor *cursor, const struct flmem_python_word *word,
			  bool negative, struct flmem_node *node)
{
	const enum flmem_node_kind kind = node->kind;
	const char *text = node->text;

	if (read_any_literal(cursor, word, negative, node))
		return true;
	node->kind = kind;
	node->text = text;
	return false;
}
