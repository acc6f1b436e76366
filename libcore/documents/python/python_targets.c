/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_targets.h"

#include <string.h>

#include "documents/python/python_literal.h"

/* Skips "==", "<=" and the like, whose second character would look like an assignment. */
static bool step_over_comparison(struct flmem_python_reader *reader)
{
	const struct flmem_python_word *word = &reader->word;

	if (word->kind != FLMEM_PYTHON_MARK || !strchr("=<>!", *word->text) || word->text[1] != '=')
		return false;
	flmem_python_advance(reader);
	flmem_python_advance(reader);
	return true;
}

/* Words that are searched; keeps the time in proportion to the length of the text. */
#define AHEAD_MAX 256

static bool assigns_later(struct flmem_python_reader ahead)
{
	for (size_t i = 0; i < AHEAD_MAX && !flmem_python_ends(&ahead.word); i++) {
		if (step_over_comparison(&ahead))
			continue;
		if (!ahead.python.brackets && flmem_python_assigns(&ahead))
			return true;
		flmem_python_advance(&ahead);
	}
	return false;
}

/* Whether an attribute in brackets is assigned: "(a.name) = value". The reader is at the ")". */
static bool is_target_in_brackets(const struct flmem_python_reader *reader)
{
	struct flmem_python_reader ahead = *reader;

	return reader->python.brackets == 0 && flmem_python_accept(&ahead, ")") &&
	       flmem_python_assigns(&ahead);
}

bool flmem_python_is_target(const struct flmem_python_reader *reader, bool starts)
{
	if (flmem_python_is(&reader->word, ")"))
		return is_target_in_brackets(reader);
	if (reader->python.brackets)
		return false;
	if (flmem_python_assigns(reader))
		return true;
	return (flmem_python_is(&reader->word, ",") ||
		(starts && flmem_python_is(&reader->word, ":"))) &&
	       assigns_later(*reader);
}

bool flmem_python_binds(const struct flmem_python_word *before, const char *dotted)
{
	return strchr(dotted, '.') &&
	       (flmem_python_is(before, "for") || flmem_python_is(before, "as"));
}

static bool is_item_target(const struct flmem_python_reader *reader)
{
	struct flmem_python_reader ahead = *reader;

	if (reader->python.brackets != 1 || !flmem_python_is(&reader->before, "["))
		return false;
	flmem_python_advance(&ahead);
	return flmem_python_accept(&ahead, "]") && flmem_python_is_target(&ahead, false);
}

/* Whether a string is a key in "{key: value, key: value}". */
static bool is_map_key(const struct flmem_python_reader *reader)
{
	struct flmem_python_reader ahead = *reader;

	if (!flmem_python_is(&reader->before, "{") && !flmem_python_is(&reader->before, ","))
		return false;
	flmem_python_advance(&ahead);
	return flmem_python_is(&ahead.word, ":");
}

int flmem_python_item_read(struct flmem_cursor *cursor, const struct flmem_python_reader *reader,
			   struct flmem_node *items, struct flmem_node *keys)
{
	bool room = cursor->document->node_count < FLMEM_DOCUMENT_NODES_MAX / 2;
	struct flmem_node *list = is_item_target(reader)       ? items
				  : room && is_map_key(reader) ? keys
							       : NULL;
	struct flmem_node *node;

	if (!list)
		return 0;
	cursor->line = reader->word.place.line; /* for the message at a limit */
	node = flmem_cursor_add(cursor, list, NULL, &reader->word.place);
	if (!node)
		return cursor->code;
	node->place = reader->word.place;
	if (!flmem_python_literal(cursor, &reader->word, false, node)) {
		node->kind = FLMEM_NODE_STRING;
		node->text = "";
	}
	return cursor->code;
}

/* Skips brackets from the opening one on. Returns false if the end is too far ahead. */
static bool skip_brackets(struct flmem_python_reader *reader)
{
	int outside = reader->python.brackets - 1;
	size_t left = AHEAD_MAX;

	do {
		flmem_python_advance(reader);
	} while (reader->word.kind != FLMEM_PYTHON_END && reader->python.brackets > outside &&
		 left--);
	if (reader->python.brackets > outside)
		return false;
	flmem_python_advance(reader);
	return true;
}

bool flmem_python_vars_assigns(const struct flmem_python_reader *reader)
{
	struct flmem_python_reader ahead = *reader, key;

	if (!skip_brackets(&ahead) || !flmem_python_is(&ahead.word, "["))
		return false;
	key = ahead;
	flmem_python_advance(&key);
	return key.word.kind != FLMEM_PYTHON_STRING && skip_brackets(&ahead) &&
	       flmem_python_is_target(&ahead, false);
}

size_t flmem_python_vars_method(const struct flmem_python_reader *reader)
{
	struct flmem_python_reader ahead = *reader;

	return skip_brackets(&ahead) && flmem_python_is(&ahead.word, ".") ? ahead.word.place.start
									  : SIZE_MAX;
}

const char *flmem_python_method_name(const char *dotted)
{
	static const char dictionary[] = "__dict__.";
	const char *dot = strrchr(dotted, '.'), *name = dot ? dot + 1 : dotted;
	size_t length = sizeof(dictionary) - 1;

	if ((size_t)(name - dotted) > length && strncmp(name - length, dictionary, length) == 0)
		return name - length;
	return name;
}

const char *flmem_python_foreign_attribute(const char *dotted)
{
	const char *dot = strrchr(dotted, '.');
	size_t length = dot ? (size_t)(dot - dotted) : 0;

	if (!dot || (length == 4 && strncmp(dotted, "self", 4) == 0) ||
	    (length == 3 && strncmp(dotted, "cls", 3) == 0))
		return NULL;
	return dot + 1;
}
