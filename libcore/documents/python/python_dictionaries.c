/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds dictionaries that a script assigns to a name and then only passes on: their entries are
 * known where the name is an argument. A name with any other use may hold another value by then and
 * is left out.
 */
#include "documents/python/python_dictionaries.h"

#include <string.h>

#include "base/cleanup.h"
#include "documents/python/python_literal.h"
#include "documents/python/python_nodes.h"
#include "documents/python/python_values.h"

#define NAMES_MAX    32 /* each word is compared with all of them */
#define BRACKETS_MAX 32
#define LEVELS_MAX   8 /* levels of maps in maps; deeper ones are expressions */

struct dictionary_candidate {
	struct flmem_python_reader value; /* reader at the first word of the dictionary */
	struct flmem_python_word name;
	bool spoiled;
};

struct dictionary_candidates {
	struct dictionary_candidate rows[NAMES_MAX];
	size_t count;
};

/* The scan for uses of the names. */
struct use_scan {
	struct dictionary_candidates *found;
	struct flmem_python_reader reader;
	/* For each open bracket: the function leaves its arguments unchanged. */
	bool reads_only[BRACKETS_MAX];
	bool definition, lambda; /* the scan is within parameters of a definition, of a lambda */
};

static bool is_same_word(const struct flmem_python_word *a, const struct flmem_python_word *b)
{
	size_t length = a->place.end - a->place.start;

	return length == b->place.end - b->place.start && memcmp(a->text, b->text, length) == 0;
}

/* Notes a name to which a dictionary is assigned: "name = {", "name = dict(". */
static void note_candidate(struct dictionary_candidates *found,
			   const struct flmem_python_reader *reader)
{
	struct flmem_python_reader ahead = *reader;
	struct dictionary_candidate *row = &found->rows[found->count];

	if (found->count == NAMES_MAX || ahead.word.kind != FLMEM_PYTHON_NAME ||
	    !flmem_python_at_statement(&ahead))
		return;
	flmem_python_advance(&ahead);
	if (!flmem_python_accept(&ahead, "=") ||
	    (!flmem_python_is_map(ahead) && !flmem_python_is_dictionary_call(ahead)))
		return;
	*row = (struct dictionary_candidate){.value = ahead, .name = reader->word};
	found->count++;
}

/* Whether a function leaves a dictionary that is passed by position unchanged. */
static bool is_reading_function(const struct flmem_python_word *word)
{
	static const char *const names[] = {"set_per_site_config",
					    "set_recipe_meta",
					    "add_resource_spec",
					    "print",
					    "len",
					    NULL};

	return flmem_python_is_any(word, names);
}

/*
 * Whether the name is only passed on: f(x=name), f(**name), f(name=x), and f(name) of functions
 * that do not change it.
 */
static bool is_harmless_use(const struct use_scan *uses)
{
	const struct flmem_python_reader *reader = &uses->reader;
	struct flmem_python_reader ahead = *reader;
	int depth = reader->python.brackets;
	bool ends, named;

	if (!depth || uses->definition || uses->lambda)
		return false;
	flmem_python_advance(&ahead);
	ends = flmem_python_is(&ahead.word, ",") || flmem_python_is(&ahead.word, ")");
	named = flmem_python_is(&ahead.word, "=");
	if (flmem_python_is(&reader->before, "=") || flmem_python_is(&reader->before, "*"))
		return ends;
	if (!flmem_python_is(&reader->before, "(") && !flmem_python_is(&reader->before, ","))
		return false;
	return named || (ends && depth <= BRACKETS_MAX && uses->reads_only[depth - 1]);
}

static void note_use_of_name(struct use_scan *uses)
{
	const struct flmem_python_word *word = &uses->reader.word;

	for (size_t i = 0; i < uses->found->count; i++) {
		struct dictionary_candidate *row = &uses->found->rows[i];

		if (is_same_word(word, &row->name) && word->text != row->name.text &&
		    !is_harmless_use(uses))
			row->spoiled = true;
	}
}

static void note_context(struct use_scan *uses)
{
	const struct flmem_python_reader *reader = &uses->reader;
	int depth = reader->python.brackets;

	if (flmem_python_is(&reader->word, "def"))
		uses->definition = true;
	if (flmem_python_is(&reader->word, "lambda"))
		uses->lambda = true;
	if (flmem_python_is(&reader->word, ":"))
		uses->lambda = false;
	if (flmem_python_is(&reader->word, ":") && !depth)
		uses->definition = false;
	if (flmem_python_is(&reader->word, "(") && depth && depth <= BRACKETS_MAX)
		uses->reads_only[depth - 1] = is_reading_function(&reader->before);
}

static void find_uses(const struct flmem_python_source *source, struct dictionary_candidates *found)
{
	for (size_t i = 0; i < source->count; i++) {
		struct use_scan uses = {.found = found};

		flmem_python_start(&uses.reader, source, i);
		for (; uses.reader.word.kind != FLMEM_PYTHON_END;
		     flmem_python_advance(&uses.reader)) {
			note_context(&uses);
			if (uses.reader.word.kind == FLMEM_PYTHON_NAME &&
			    !flmem_python_is(&uses.reader.before, "."))
				note_use_of_name(&uses);
		}
	}
}

static bool ends_entry(const struct flmem_python_word *word)
{
	return word->kind == FLMEM_PYTHON_END ||
	       (word->kind == FLMEM_PYTHON_MARK && strchr(",)]}", *word->text));
}

/* Reads a literal of one word, also with a sign. Returns false for other values. */
static bool read_single(struct flmem_cursor *cursor, struct flmem_python_reader *reader,
			struct flmem_node *node)
{
	struct flmem_python_reader ahead = *reader;
	bool negative = flmem_python_accept(&ahead, "-");
	struct flmem_python_word word = ahead.word;

	flmem_python_advance(&ahead);
	if (!ends_entry(&ahead.word) || (negative && word.kind != FLMEM_PYTHON_NUMBER) ||
	    !flmem_python_literal(cursor, &word, negative, node))
		return false;
	*reader = ahead;
	return true;
}

static void make_expression(struct flmem_node *node)
{
	node->kind = FLMEM_NODE_EXPRESSION;
	node->text = "";
	node->first = node->last = NULL;
}

/* Skips the value of an entry up to the comma or bracket after it. */
static void skip_value(struct flmem_python_reader *reader)
{
	size_t depth = 0;

	while (reader->word.kind != FLMEM_PYTHON_END && (depth || !ends_entry(&reader->word))) {
		char mark = reader->word.kind == FLMEM_PYTHON_MARK ? *reader->word.text : '\0';

		depth += mark && strchr("([{", mark);
		depth -= mark && strchr(")]}", mark);
		flmem_python_advance(reader);
	}
}

/*
 * Reads the key of an entry; "**" stands for a key that is not a literal. Returns false if there is
 * none.
 */
static bool read_key(struct flmem_cursor *cursor, struct flmem_python_reader *reader, bool call,
		     struct flmem_node *key)
{
	char name[FLMEM_PYTHON_DOTTED_MAX];
	struct flmem_python_reader ahead = *reader;

	key->place = reader->word.place;
	key->text = "**";
	if (call && ahead.word.kind == FLMEM_PYTHON_NAME) {
		flmem_python_dotted(&ahead, name);
		if (!flmem_python_accept(&ahead, "="))
			return true;
		key->text = flmem_cursor_keep(cursor, name, strlen(name));
	} else if (!call && ahead.word.kind == FLMEM_PYTHON_STRING &&
		   flmem_python_literal(cursor, &ahead.word, false, key)) {
		flmem_python_advance(&ahead);
		if (!flmem_python_accept(&ahead, ":"))
			key->text = "**";
	}
	if (key->text && strcmp(key->text, "**") != 0)
		*reader = ahead;
	return key->text;
}

static int read_entry_value(struct flmem_cursor *cursor, struct flmem_python_reader *reader,
			    struct flmem_node *node, int level);

static int read_map(struct flmem_cursor *cursor, struct flmem_python_reader *reader,
		    struct flmem_node *map, int level)
{
	bool call = flmem_python_accept(reader, "dict");

	map->kind = FLMEM_NODE_MAP;
	flmem_python_advance(reader);
	while (!cursor->code && !ends_entry(&reader->word)) {
		struct flmem_node key = {0}, *value;

		if (!read_key(cursor, reader, call, &key))
			return cursor->code;
		value = flmem_python_node_add(cursor, map, key.text, NULL, &key.place);
		if (!value)
			return cursor->code;
		value->place = reader->word.place;
		read_entry_value(cursor, reader, value, level + 1);
		flmem_python_accept(reader, ",");
	}
	flmem_python_advance(reader);
	return cursor->code;
}

static int read_entry_value(struct flmem_cursor *cursor, struct flmem_python_reader *reader,
			    struct flmem_node *node, int level)
{
	bool map = flmem_python_is_map(*reader) || flmem_python_is_dictionary_call(*reader);

	if (map && level < LEVELS_MAX)
		read_map(cursor, reader, node, level);
	else if (!read_single(cursor, reader, node))
		skip_value(reader);
	if (!ends_entry(&reader->word) && level) { /* the entry is {...} | other */
		make_expression(node);
		skip_value(reader);
	}
	/* The value may be missing. */
	if (reader->before.place.end > node->place.start)
		node->place.end = reader->before.place.end;
	else
		node->place.end = node->place.start;
	return cursor->code;
}

static int add_dictionary(struct flmem_cursor *cursor, struct flmem_node *list,
			  struct dictionary_candidate *row)
{
	char name[FLMEM_PYTHON_DOTTED_MAX];
	size_t length = row->name.place.end - row->name.place.start;
	struct flmem_node *node;

	if (length >= sizeof(name))
		return 0;
	memcpy(name, row->name.text, length);
	name[length] = '\0';
	node = flmem_python_node_add(cursor, list, name, NULL, &row->name.place);
	if (!node || read_entry_value(cursor, &row->value, node, 0))
		return cursor->code;
	if (!flmem_python_ends(&row->value.word)) /* name = {...}[key] */
		make_expression(node);
	return 0;
}

int flmem_python_dictionaries_read(struct flmem_cursor *cursor, struct flmem_node *root,
				   const struct flmem_python_source *source)
{
	const struct flmem_place nowhere = {.line = 1, .column = 1};
	struct flmem_node *list =
		flmem_python_node_add(cursor, root, "dictionaries", NULL, &nowhere);
	struct dictionary_candidates found = {.count = 0};

	if (!list)
		return cursor->code;
	list->kind = FLMEM_NODE_MAP;
	for (size_t i = 0; i < source->count; i++) {
		struct flmem_python_reader reader;

		flmem_python_start(&reader, source, i);
		for (; reader.word.kind != FLMEM_PYTHON_END; flmem_python_advance(&reader))
			note_candidate(&found, &reader);
	}
	find_uses(source, &found);
	for (size_t i = 0; i < found.count && !cursor->code; i++)
		if (!found.rows[i].spoiled &&
		    cursor->document->node_count < FLMEM_DOCUMENT_NODES_MAX / 2)
			add_dictionary(cursor, list, &found.rows[i]);
	return cursor->code;
}
