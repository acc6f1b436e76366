/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/python_calls.h"

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "documents/python/python_class_names.h"
#include "documents/python/python_deletions.h"
#include "documents/python/python_dictionaries.h"
#include "documents/python/python_entries.h"
#include "documents/python/python_fields.h"
#include "documents/python/python_literal.h"
#include "documents/python/python_members.h"
#include "documents/python/python_names.h"
#include "documents/python/python_nodes.h"
#include "documents/python/python_partial.h"
#include "documents/python/python_paths.h"
#include "documents/python/python_subscripts.h"
#include "documents/python/python_targets.h"
#include "documents/python/python_values.h"

#define BRACKETS_MAX 128
#define DEPTH_MAX    (FLMEM_DOCUMENT_DEPTH_MAX - 8) /* the tree itself has a few levels */

/* Kinds of open brackets, besides the bracket itself. */
#define TEST	   'i' /* of isinstance() and the like, and Optional[]: names are only compared */
#define PARAMETERS 'd' /* of a function definition */
#define BASES	   'c' /* of a class definition */

struct call_collector {
	struct flmem_cursor *cursor;
	struct flmem_python_reader reader;
	struct flmem_python_names names;
	struct flmem_node *calls, *methods, *bases, *values, *items, *keys;
	struct flmem_python_members members;
	char open[BRACKETS_MAX]; /* kind of each open bracket, the outermost first */
	size_t open_count;	 /* may exceed BRACKETS_MAX */
	char next;		 /* kind of the next "("; NUL: the bracket itself */
	size_t vars_at;		 /* offset of the "." after vars(...) */
	size_t value_at; /* offset of the ":" of a lambda or "=" of an entry before a value */
	struct flmem_python_partials partials;
};

static int calls_read_value(struct call_collector *calls, struct flmem_node *node);
static int scan_word(struct call_collector *calls);

static char innermost_bracket(const struct call_collector *calls)
{
	return calls->open_count && calls->open_count <= BRACKETS_MAX
		       ? calls->open[calls->open_count - 1]
		       : '\0';
}

/* Advances by a word and keeps track of the open brackets. */
static void calls_advance(struct call_collector *calls)
{
	const struct flmem_python_word *word = &calls->reader.word;
	char mark = word->kind == FLMEM_PYTHON_MARK ? *word->text : '\0';

	if (mark && strchr("([{", mark)) {
		bool types = innermost_bracket(calls) == TEST ||
			     (mark == '[' && flmem_python_is_generic(&calls->reader.before));

		if (calls->open_count < BRACKETS_MAX)
			calls->open[calls->open_count] = mark == '(' && calls->next ? calls->next
							 : types		    ? TEST
										    : mark;
		calls->open_count++;
		calls->next = '\0';
	} else if (mark && strchr(")]}", mark) && calls->open_count) {
		calls->open_count--;
	}
	flmem_python_advance(&calls->reader);
}

static bool accept_word(struct call_collector *calls, const char *text)
{
	if (!flmem_python_is(&calls->reader.word, text))
		return false;
	calls_advance(calls);
	return true;
}

/* Advances to the current word of a reader that is ahead. */
static void skip_to_reader(struct call_collector *calls, const struct flmem_python_reader *ahead)
{
	while (calls->reader.word.place.start < ahead->word.place.start)
		calls_advance(calls);
}

static struct flmem_node *add_list(struct call_collector *calls, struct flmem_node *root,
				   const char *key)
{
	const struct flmem_place start = {.line = 1, .column = 1};
	struct flmem_node *list = flmem_python_node_add(calls->cursor, root, key, NULL, &start);

	if (list)
		list->kind = FLMEM_NODE_LIST;
	return list;
}

/* Reads a literal of one word, also with a sign. Returns false, with nothing read, for others. */
static bool read_scalar(struct call_collector *calls, struct flmem_node *node)
{
	struct flmem_python_reader ahead = calls->reader;
	bool negative = flmem_python_is(&ahead.word, "-");
	struct flmem_python_word word;
	bool known;

	if (negative || flmem_python_is(&ahead.word, "+"))
		flmem_python_advance(&ahead);
	word = ahead.word;
	flmem_python_advance(&ahead);
	if (!flmem_python_ends_value(&ahead.word))
		return false;
	known = (word.kind == FLMEM_PYTHON_NUMBER || word.place.start == node->place.start) &&
		flmem_python_literal(calls->cursor, &word, negative, node);
	if (known)
		skip_to_reader(calls, &ahead);
	return known;
}

/* Skips a value; the calls in it are read, too. */
static int skip_expression(struct call_collector *calls)
{
	size_t depth = calls->open_count;
	int rc = 0;

	if (flmem_python_is(&calls->reader.word, "lambda")) /* its parameters have commas */
		while (calls->reader.word.kind != FLMEM_PYTHON_END &&
		       !(calls->open_count == depth && flmem_python_is(&calls->reader.word, ":")) &&
		       calls->open_count >= depth) {
			calls_advance(calls);
			calls->value_at = calls->reader.word.place.start;
		}
	while (!rc && calls->reader.word.kind != FLMEM_PYTHON_END &&
	       (calls->open_count > depth || !flmem_python_ends_value(&calls->reader.word)))
		rc = scan_word(calls);
	return rc;
}

/* Sets the text of a value that is a single name to its path, or to the name. */
static int read_single_name(struct call_collector *calls, struct flmem_node *node)
{
	char name[FLMEM_PYTHON_DOTTED_MAX], path[FLMEM_PYTHON_DOTTED_MAX];
	struct flmem_python_reader ahead = calls->reader;
	const char *text = name;

	if (ahead.word.kind != FLMEM_PYTHON_NAME)
		return 0;
	flmem_python_dotted(&ahead, name);
	if (!flmem_python_ends_value(&ahead.word))
		return 0;
	if (flmem_python_names_find(&calls->names, name, node->place.start, 0, path))
		text = path;
	node->text = flmem_cursor_keep(calls->cursor, text, strlen(text));
	return node->text ? 0 : calls->cursor->code;
}

/* Reads a value as an expression, a node without children. */
static int read_expression(struct call_collector *calls, struct flmem_node *node)
{
	int rc;

	node->kind = FLMEM_NODE_EXPRESSION;
	node->text = "";
	node->first = node->last = NULL;
	rc = read_single_name(calls, node);
	return rc ? rc : skip_expression(calls);
}

static int read_keyed(struct call_collector *calls, struct flmem_node *map, const char *key,
		      const struct flmem_place *place)
{
	struct flmem_node *value = flmem_python_node_add(calls->cursor, map, key, NULL, place);

	if (!value)
		return calls->cursor->code;
	value->place = calls->reader.word.place;
	return calls_read_value(calls, value);
}

/* Reads an entry of a dictionary. The key "**" stands for one that is not a literal. */
static int read_entry(struct call_collector *calls, struct flmem_node *map)
{
	struct flmem_python_reader ahead = calls->reader;
	struct flmem_place place = calls->reader.word.place;
	struct flmem_node key = {.place = place};
	bool literal = ahead.word.kind == FLMEM_PYTHON_STRING &&
		       flmem_python_literal(calls->cursor, &ahead.word, false, &key);

	flmem_python_advance(&ahead);
	if (literal && flmem_python_accept(&ahead, ":")) {
		skip_to_reader(calls, &ahead);
		return read_keyed(calls, map, key.text, &place);
	}
	while (accept_word(calls, "*"))
		continue;
	return read_keyed(calls, map, "**", &place);
}

static int read_python_map(struct call_collector *calls, struct flmem_node *node)
{
	int rc = 0;

	node->kind = FLMEM_NODE_MAP;
	calls_advance(calls);
	while (!rc && calls->reader.word.kind != FLMEM_PYTHON_END &&
	       !flmem_python_is(&calls->reader.word, "}")) {
		size_t at = calls->reader.word.place.start;

		rc = read_entry(calls, node);
		accept_word(calls, ",");
		if (calls->reader.word.place.start == at) /* a bracket of another kind */
			calls_advance(calls);
	}
	accept_word(calls, "}");
	return rc;
}

/* Reads the name of an argument: "name=", not "name==". */
static bool read_argument_name(struct call_collector *calls, char name[FLMEM_PYTHON_DOTTED_MAX])
{
	struct flmem_python_reader ahead = calls->reader;

	if (ahead.word.kind != FLMEM_PYTHON_NAME)
		return false;
	flmem_python_dotted(&ahead, name);
	if (!flmem_python_accept(&ahead, "=") || flmem_python_is(&ahead.word, "="))
		return false;
	skip_to_reader(calls, &ahead);
	return true;
}

static int read_argument(struct call_collector *calls, struct flmem_node *args, size_t *position)
{
	struct flmem_place place = calls->reader.word.place;
	char name[FLMEM_PYTHON_DOTTED_MAX] = "";

	if (accept_word(calls, "*"))
		snprintf(name, sizeof(name), accept_word(calls, "*") ? "**" : "*");
	else if (!read_argument_name(calls, name))
		snprintf(name, sizeof(name), "%zu", (*position)++);
	return read_keyed(calls, args, name, &place);
}

/* Reads the arguments from "(" to ")"; the place of the map includes both. */
static int read_arguments(struct call_collector *calls, struct flmem_node *args)
{
	size_t position = 0;
	int rc = 0;

	args->kind = FLMEM_NODE_MAP;
	calls_advance(calls);
	while (!rc && calls->reader.word.kind != FLMEM_PYTHON_END &&
	       !flmem_python_is(&calls->reader.word, ")")) {
		size_t at = calls->reader.word.place.start;

		rc = read_argument(calls, args, &position);
		accept_word(calls, ",");
		if (calls->reader.word.place.start == at) /* a bracket of another kind */
			calls_advance(calls);
	}
	accept_word(calls, ")");
	args->place.end = calls->reader.before.place.end;
	return rc;
}

/* Adds a call of `path` and the map *ret_args for its arguments; NULL if there is no room. */
static struct flmem_node *add_call(struct call_collector *calls, struct flmem_node *list,
				   const char *path, const struct flmem_place *place,
				   struct flmem_node **ret_args)
{
	struct flmem_node *call = flmem_python_node_add(calls->cursor, list, NULL, NULL, place);
	struct flmem_node *name =
		call ? flmem_python_node_add(calls->cursor, call, "path", path, place) : NULL;

	*ret_args = name ? flmem_python_node_add(calls->cursor, call, "args", NULL, place) : NULL;
	if (!*ret_args)
		return NULL;
	call->kind = (*ret_args)->kind = FLMEM_NODE_MAP;
	name->kind = FLMEM_NODE_STRING;
	return call;
}

/* Adds the same call under another path. */
static int repeat_call(struct call_collector *calls, struct flmem_node *list, const char *path,
		       const struct flmem_node *call)
{
	const struct flmem_node *args = call->last;
	struct flmem_node *copied;
	struct flmem_node *copy = add_call(calls, list, path, &call->place, &copied);

	if (!copy)
		return calls->cursor->code;
	copied->place = args->place;
	copied->first = args->first;
	copied->last = args->last;
	return 0;
}

/* Reads a call of an imported name, or of a method (`name` is ""). The reader is at the "(". */
static int read_call(struct call_collector *calls, const char *name, const char *path,
		     const struct flmem_place *place)
{
	char other[FLMEM_PYTHON_DOTTED_MAX];
	struct flmem_node *call, *args, *last = calls->values->last;
	int rc;

	if (calls->cursor->depth >= DEPTH_MAX)
		return flmem_cursor_fail_at(calls->cursor, place, "nested too deep");
	call = add_call(calls, *name ? calls->calls : calls->methods, path, place, &args);
	if (!call)
		return calls->cursor->code;
	calls->cursor->depth++;
	rc = read_arguments(calls, args);
	calls->cursor->depth--;
	call->place.end = args->place.end;
	if (!rc)
		rc = flmem_python_partial_resolve(calls->cursor, &calls->names, &calls->partials,
						  name, call,
						  last ? last->next : calls->values->first);
	for (size_t i = 1;
	     !rc && *name && flmem_python_names_find(&calls->names, name, place->start, i, other);
	     i++)
		rc = repeat_call(calls, calls->calls, other, call);
	if (!rc && flmem_python_is_of_star(&calls->names, name, path))
		rc = repeat_call(calls, calls->methods, strrchr(name, '.') + 1, call);
	return rc;
}

/* Reads a dictionary: {...} or dict(...). */
static int read_dictionary(struct call_collector *calls, struct flmem_node *node)
{
	bool map = flmem_python_is_map(calls->reader);
	int rc;

	calls->cursor->depth++;
	if (!map)
		calls_advance(calls);
	rc = map ? read_python_map(calls, node) : read_arguments(calls, node);
	calls->cursor->depth--;
	return rc;
}

static int calls_read_value(struct call_collector *calls, struct flmem_node *node)
{
	bool deep = calls->cursor->depth >= DEPTH_MAX;
	int rc = 0;

	if (calls->cursor->code)
		return calls->cursor->code;
	if (!deep && (flmem_python_is_map(calls->reader) ||
		      flmem_python_is_dictionary_call(calls->reader))) {
		rc = read_dictionary(calls, node);
		if (!rc && !flmem_python_ends_value(&calls->reader.word))
			rc = read_expression(calls, node);
	} else if (!read_scalar(calls, node)) {
		rc = calls->cursor->code ? calls->cursor->code : read_expression(calls, node);
	}
	node->place.end = calls->reader.before.place.end;
	if (node->place.end < node->place.start) /* there is no value */
		node->place.end = node->place.start;
	return rc;
}

/* Notes a use of an imported name without a call. */
static int note_use(struct call_collector *calls, const char *name,
		    const struct flmem_python_word *before, const struct flmem_place *place)
{
	char path[FLMEM_PYTHON_DOTTED_MAX];
	bool base = innermost_bracket(calls) == BASES;

	if ((!base && !flmem_text_ends(name, ".__dict__") &&
	     before->place.start != calls->value_at &&
	     !flmem_python_is_value(&calls->reader, before, innermost_bracket(calls))) ||
	    !flmem_python_names_find(&calls->names, name, place->start, 0, path))
		return 0;
	return flmem_python_path_add(calls->cursor, base ? calls->bases : calls->values, path,
				     place);
}

/* Whether a call is one of a built-in function that is read, or of a method of a value. */
static bool is_unbound_call(const struct call_collector *calls, const char *name,
			    char ret_path[FLMEM_PYTHON_DOTTED_MAX])
{
	if ((!strchr(name, '.') && !flmem_python_is_builtin(name)) ||
	    calls->cursor->depth >= DEPTH_MAX / 2 ||
	    calls->cursor->document->node_count >= FLMEM_DOCUMENT_NODES_MAX / 2)
		return false;
	snprintf(ret_path, FLMEM_PYTHON_DOTTED_MAX, "%s", flmem_python_method_name(name));
	return true;
}

/* Reads a method or attribute of a result or of an entry: "f().name", "a[0].name". */
static int scan_member(struct call_collector *calls)
{
	struct flmem_place place = calls->reader.word.place;
	bool of_vars = calls->reader.before.place.start == calls->vars_at;
	char member[FLMEM_PYTHON_DOTTED_MAX], path[FLMEM_PYTHON_DOTTED_MAX];
	char name[FLMEM_PYTHON_DOTTED_MAX + 16];

	flmem_python_dotted(&calls->reader, member);
	place.end = calls->reader.before.place.end;
	snprintf(name, sizeof(name), "%s.%s", of_vars ? "vars.__dict__" : "", member);
	if (flmem_python_is_target(&calls->reader, false))
		return flmem_python_member_assigned(calls->cursor, &calls->names, &calls->members,
						    name, &place);
	if (*member && flmem_python_is(&calls->reader.word, "(") &&
	    is_unbound_call(calls, name, path))
		return read_call(calls, "", path, &place);
	return 0;
}

/* Notes "Class.__init__(self, ...)" as a use of the class: it calls the constructor. */
static int note_constructor(struct call_collector *calls, char path[FLMEM_PYTHON_DOTTED_MAX],
			    const struct flmem_place *place)
{
	char *dot = strrchr(path, '.');
	int rc = 0;

	if (!dot || (strcmp(dot, ".__init__") != 0 && strcmp(dot, ".__new__") != 0))
		return 0;
	*dot = '\0';
	rc = flmem_python_path_add(calls->cursor, calls->values, path, place);
	*dot = '.';
	return rc;
}

/* Notes vars(object), whose entries are the attributes of the object. */
static int note_vars(struct call_collector *calls, const struct flmem_place *place)
{
	calls->vars_at = flmem_python_vars_method(&calls->reader);
	if (!flmem_python_vars_assigns(&calls->reader))
		return 0;
	return flmem_python_path_add(calls->cursor, calls->members.attributes, "__dict__", place);
}

static int scan_name(struct call_collector *calls)
{
	struct flmem_place place = calls->reader.word.place;
	const struct flmem_python_word before = calls->reader.before;
	bool starts = flmem_python_at_statement(&calls->reader);
	char name[FLMEM_PYTHON_DOTTED_MAX], path[FLMEM_PYTHON_DOTTED_MAX];

	flmem_python_dotted(&calls->reader, name);
	place.end = calls->reader.before.place.end;
	if (!*name)
		return 0;
	if (flmem_python_is_target(&calls->reader, starts) || flmem_python_binds(&before, name))
		return flmem_python_member_assigned(calls->cursor, &calls->names, &calls->members,
						    name, &place);
	if (strcmp(name, "lambda") == 0)
		calls->value_at = flmem_python_lambda_colon(&calls->reader);
	if (starts && flmem_python_is(&calls->reader.word, "[")) {
		int rc = note_use(calls, name, &before, &place);

		calls->value_at = flmem_python_item_equals(&calls->reader);
		return rc ? rc
			  : flmem_python_subscript_read(calls->cursor, &calls->names,
							&calls->reader, name, calls->calls,
							calls->members.attributes);
	}
	if (!flmem_python_is(&calls->reader.word, "("))
		return note_use(calls, name, &before, &place);
	if (flmem_python_names_find(&calls->names, name, place.start, 0, path))
		return note_constructor(calls, path, &place) || read_call(calls, name, path, &place)
			       ? calls->cursor->code
			       : 0;
	if (is_unbound_call(calls, name, path))
		return read_call(calls, "", path, &place);
	calls->next = flmem_python_is_type_test(name) ? TEST : '\0';
	return strcmp(name, "vars") == 0 ? note_vars(calls, &place) : 0;
}

/* Reads "def f(" and "class C(" up to the bracket. */
static int scan_definition(struct call_collector *calls)
{
	bool class = flmem_python_is(&calls->reader.word, "class");
	int rc = 0;

	calls->next = class ? BASES : PARAMETERS;
	calls_advance(calls);
	if (!class && calls->reader.word.kind == FLMEM_PYTHON_NAME)
		rc = flmem_python_member_defined(calls->cursor, &calls->members,
						 &calls->reader.word);
	if (calls->reader.word.kind == FLMEM_PYTHON_NAME)
		calls_advance(calls);
	if (!flmem_python_is(&calls->reader.word, "("))
		calls->next = '\0';
	return rc;
}

static int scan_word(struct call_collector *calls)
{
	const struct flmem_python_reader *reader = &calls->reader;
	bool name = reader->word.kind == FLMEM_PYTHON_NAME;

	if (name && flmem_python_is(&reader->before, "."))
		return scan_member(calls);
	if (reader->word.kind == FLMEM_PYTHON_STRING &&
	    flmem_python_item_read(calls->cursor, reader, calls->items, calls->keys))
		return calls->cursor->code;
	if (flmem_python_is_result_call(reader))
		return read_call(calls, "", "", &reader->word.place);
	if (flmem_python_deletions_read(calls->cursor, &calls->names, reader, calls->calls,
					&calls->members))
		return calls->cursor->code;
	if (!name)
		calls_advance(calls);
	else if (flmem_python_at_statement(reader) && flmem_python_is_declaration(&reader->word))
		while (!flmem_python_ends(&calls->reader.word))
			calls_advance(calls);
	else if (flmem_python_is(&reader->word, "def") || flmem_python_is(&reader->word, "class"))
		return scan_definition(calls);
	else
		return scan_name(calls);
	return 0;
}

static int scan_part(struct call_collector *calls, const struct flmem_python_source *source,
		     size_t part)
{
	int rc = 0;

	flmem_python_start(&calls->reader, source, part);
	calls->open_count = 0;
	calls->next = '\0';
	while (calls->reader.word.kind != FLMEM_PYTHON_END && !rc)
		rc = scan_word(calls);
	return rc;
}

static int add_imports(struct call_collector *calls, struct flmem_node *list)
{
	int rc = 0;

	for (size_t i = 0; i < calls->names.imports.count && !rc; i++) {
		const struct flmem_python_binding *row = &calls->names.imports.rows[i];

		if (row->path)
			rc = flmem_python_path_add(calls->cursor, list, row->path, &row->place);
	}
	return rc;
}

static bool add_lists(struct call_collector *calls, struct flmem_node *root)
{
	const struct {
		const char *key;
		struct flmem_node **list;
	} lists[] = {
		{"calls", &calls->calls},
		{"methods", &calls->methods},
		{"bases", &calls->bases},
		{"values", &calls->values},
		{"attributes", &calls->members.attributes},
		{"items", &calls->items},
		{"keys", &calls->keys},
		{"rebound", &calls->members.rebound},
		{"definitions", &calls->members.definitions},
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++) {
		*lists[i].list = add_list(calls, root, lists[i].key);
		if (!*lists[i].list)
			return false;
	}
	return true;
}

int flmem_python_calls_read(struct flmem_cursor *cursor, const struct flmem_python_source *source)
{
	struct call_collector calls = {.cursor = cursor};
	FLMEM_AUTO_PYTHON_NAMES struct flmem_python_names names = {0};
	struct flmem_node *root, *imports;
	int rc = flmem_python_names_read(cursor, source, &names);

	if (rc)
		return rc;
	calls.names = names;
	root = flmem_cursor_add(cursor, NULL, NULL, NULL);
	if (!root)
		return cursor->code;
	root->kind = FLMEM_NODE_MAP;
	imports = add_list(&calls, root, "imports");
	if (!imports || !add_lists(&calls, root))
		return cursor->code;
	rc = add_imports(&calls, imports);
	for (size_t i = 0; i < source->count && !rc; i++)
		rc = scan_part(&calls, source, i);
	if (rc || flmem_python_fields_read(cursor, &calls.names, source, calls.values) ||
	    flmem_python_class_names_read(cursor, &calls.names, source, calls.values) ||
	    flmem_python_paths_read(cursor, root, source) ||
	    flmem_python_dictionaries_read(cursor, root, source))
		return cursor->code ? cursor->code : FLMEM_EFAILED;
	return flmem_python_entries_read(cursor, root, source);
}
