/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_subscripts.h"

#include <stdio.h>
#include <string.h>

#include "documents/python/python_literal.h"
#include "documents/python/python_nodes.h"

#define METHOD	".__setitem__"
#define DELETES ".__delitem__"

/*
 * Skips "[ ... ]". *ret_key is the key if it is one word, else an empty word. Returns false if
 * there is no end.
 */
static bool skip_subscript(struct flmem_python_reader *reader, struct flmem_python_word *ret_key)
{
	size_t depth = 0, words = 0;

	do {
		const struct flmem_python_word *word = &reader->word;

		if (flmem_python_ends(word))
			return false;
		if (word->kind == FLMEM_PYTHON_MARK && strchr("([{", *word->text))
			depth++;
		else if (word->kind == FLMEM_PYTHON_MARK && strchr(")]}", *word->text))
			depth--;
		else if (!words++)
			*ret_key = *word;
		else
			ret_key->kind = FLMEM_PYTHON_NAME; /* the key is an expression */
		flmem_python_advance(reader);
	} while (depth);
	return words;
}

/* Adds an argument: a literal of one word if `whole`, else an expression. */
static int add_operand(struct flmem_cursor *cursor, struct flmem_node *args, const char *key,
		       const struct flmem_python_word *word, bool whole)
{
	struct flmem_node *node = flmem_python_node_add(cursor, args, key, NULL, &word->place);

	if (node && whole)
		(void)flmem_python_literal(cursor, word, false, node);
	return cursor->code;
}

/*
 * Adds a call of `path` with the key as its argument "0". Returns its arguments, or NULL if there
 * is no room.
 */
static struct flmem_node *add_item_call(struct flmem_cursor *cursor, struct flmem_node *calls,
					const char *path, const struct flmem_python_word *key)
{
	struct flmem_node *call = flmem_python_node_add(cursor, calls, NULL, NULL, &key->place);
	struct flmem_node *name =
		call ? flmem_python_node_add(cursor, call, "path", path, &key->place) : NULL;
	struct flmem_node *args =
		name ? flmem_python_node_add(cursor, call, "args", NULL, &key->place) : NULL;

	if (!args)
		return NULL;
	call->kind = args->kind = FLMEM_NODE_MAP;
	name->kind = FLMEM_NODE_STRING;
	return add_operand(cursor, args, "0", key, key->kind == FLMEM_PYTHON_STRING) ? NULL : args;
}

static int add_assignment(struct flmem_cursor *cursor, struct flmem_node *calls, const char *path,
			  const struct flmem_python_word *key, struct flmem_python_reader *ahead)
{
	struct flmem_python_word value = ahead->word;
	struct flmem_node *args = add_item_call(cursor, calls, path, key);

	if (!args)
		return cursor->code;
	flmem_python_advance(ahead);
	return add_operand(cursor, args, "1", &value, flmem_python_ends(&ahead->word));
}

bool flmem_python_ends_deletion(const struct flmem_python_word *word)
{
	return flmem_python_ends(word) || flmem_python_is(word, ",") || flmem_python_is(word, ")");
}

int flmem_python_subscript_deleted(struct flmem_cursor *cursor,
				   const struct flmem_python_names *names,
				   struct flmem_python_reader *ahead, const char *dotted,
				   struct flmem_node *calls)
{
	char path[FLMEM_PYTHON_DOTTED_MAX], method[FLMEM_PYTHON_DOTTED_MAX + sizeof(DELETES)];
	size_t at = ahead->word.place.start;
	struct flmem_python_word key = {0};

	if (!skip_subscript(ahead, &key) || !flmem_python_names_find(names, dotted, at, 0, path))
		return 0;
	if (!flmem_python_ends_deletion(&ahead->word))
		return 0;
	snprintf(method, sizeof(method), "%s" DELETES, path);
	return add_item_call(cursor, calls, method, &key) ? 0 : cursor->code;
}

int flmem_python_subscript_read(struct flmem_cursor *cursor, const struct flmem_python_names *names,
				const struct flmem_python_reader *reader, const char *dotted,
				struct flmem_node *calls, struct flmem_node *attributes)
{
	static const char dictionary[] = ".__dict__";
	struct flmem_python_reader ahead = *reader;
	char path[FLMEM_PYTHON_DOTTED_MAX], method[FLMEM_PYTHON_DOTTED_MAX + sizeof(METHOD)];
	struct flmem_python_word key = {0};
	size_t length = strlen(dotted), at = reader->word.place.start;
	bool imported = flmem_python_names_find(names, dotted, at, 0, path);
	bool attribute = length >= sizeof(dictionary) &&
			 strcmp(dotted + length - sizeof(dictionary) + 1, dictionary) == 0;

	if ((!imported && !attribute) || !skip_subscript(&ahead, &key) ||
	    !flmem_python_assigns(&ahead))
		return 0;
	while (ahead.word.kind == FLMEM_PYTHON_MARK && strchr("=|+", *ahead.word.text))
		flmem_python_advance(&ahead);
	/* Entries with a literal key are in the list `items`. */
	if (attribute)
		return key.kind == FLMEM_PYTHON_STRING
			       ? 0
			       : flmem_python_path_add(cursor, attributes, "__dict__", &key.place);
	snprintf(method, sizeof(method), "%s" METHOD, path);
	return add_assignment(cursor, calls, method, &key, &ahead);
}
