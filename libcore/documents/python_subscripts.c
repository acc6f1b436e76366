/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python_subscripts.h"

#include <stdio.h>
#include <string.h>

#include "documents/python_literal.h"

#define METHOD ".__setitem__"

/* Steps over "[ ... ]"; the key, if it is one word, else a word of no length. */
static bool skip_subscript(struct flmem_python_reader *reader, struct flmem_python_word *ret_key)
{
	size_t depth = 0, words = 0;

	do {
		const struct flmem_python_word *word = &reader->word;

		if (word->kind == FLMEM_PYTHON_END || word->kind == FLMEM_PYTHON_LINE)
			return false;
		if (word->kind == FLMEM_PYTHON_MARK && strchr("([{", *word->text))
			depth++;
		else if (word->kind == FLMEM_PYTHON_MARK && strchr(")]}", *word->text))
			depth--;
		else if (!words++)
			*ret_key = *word;
		else
			ret_key->kind = FLMEM_PYTHON_NAME; /* an expression */
		flmem_python_advance(reader);
	} while (depth);
	return words;
}

static struct flmem_node *add_subscript_node(struct flmem_cursor *cursor, struct flmem_node *parent,
					     const char *key, const struct flmem_place *place)
{
	struct flmem_node *node;

	cursor->line = place->line; /* for the message at a limit */
	node = flmem_cursor_add(cursor, parent, key, place);
	if (!node)
		return NULL;
	node->place = *place;
	node->kind = FLMEM_NODE_EXPRESSION;
	node->text = "";
	return node;
}

/* A literal of one word, or an expression. */
static int add_operand(struct flmem_cursor *cursor, struct flmem_node *args, const char *key,
		       const struct flmem_python_word *word, bool whole)
{
	struct flmem_node *node = add_subscript_node(cursor, args, key, &word->place);

	if (!node || (whole && flmem_python_literal(cursor, word, false, node)))
		return cursor->code;
	node->kind = FLMEM_NODE_EXPRESSION;
	node->text = "";
	return cursor->code;
}

int flmem_python_subscript_read(struct flmem_cursor *cursor, const struct flmem_python_names *names,
				const struct flmem_python_reader *reader, const char *dotted,
				const struct flmem_place *place, struct flmem_node *calls)
{
	struct flmem_python_reader ahead = *reader;
	char path[FLMEM_PYTHON_DOTTED_MAX], method[FLMEM_PYTHON_DOTTED_MAX + sizeof(METHOD)];
	struct flmem_python_word key = {0}, value;
	struct flmem_node *call, *name, *args;
	int rc;

	if (!flmem_python_names_find(names, dotted, place->start, 0, path) ||
	    !skip_subscript(&ahead, &key) || !flmem_python_assigns(&ahead))
		return 0;
	while (ahead.word.kind == FLMEM_PYTHON_MARK && strchr("=|+", *ahead.word.text))
		flmem_python_advance(&ahead);
	value = ahead.word;
	flmem_python_advance(&ahead);
	snprintf(method, sizeof(method), "%s" METHOD, path);
	call = add_subscript_node(cursor, calls, NULL, place);
	name = call ? add_subscript_node(cursor, call, "path", place) : NULL;
	args = name ? add_subscript_node(cursor, call, "args", place) : NULL;
	if (!args)
		return cursor->code;
	call->kind = args->kind = FLMEM_NODE_MAP;
	name->kind = FLMEM_NODE_STRING;
	name->text = flmem_cursor_keep(cursor, method, strlen(method));
	if (!name->text)
		return cursor->code;
	rc = add_operand(cursor, args, "0", &key, key.kind == FLMEM_PYTHON_STRING);
	return rc ? rc : add_operand(cursor, args, "1", &value, flmem_python_ends(&ahead.word));
}
