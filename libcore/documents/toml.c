/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TOML 1.1, with places, as strict as tomli, with which Flower reads pyproject.toml: tables, arrays
 * of tables, dotted keys, arrays and inline tables. Dates and times stay strings.
 */
#include "documents/toml.h"

#include <string.h>

/* Each key is compared with the earlier ones, so their number is limited. */
#define KEYS_MAX 2048U

/*
 * How a table or array was declared, in `declared` of its node: this determines what may be added
 * to it later.
 */
enum toml_declared {
	TOML_IMPLIED, /* in front of a name only, as a in [a.b]: [a] may follow, once */
	TOML_HEADED,  /* by [a], or [[a]] */
	TOML_DOTTED,  /* by a key, as a in a.b = 1: no header may have that name */
	TOML_CLOSED,  /* by a value: nothing may be added */
};

static int toml_read_value(struct flmem_cursor *cursor, struct flmem_node *node);

static void toml_skip_blanks(struct flmem_cursor *cursor)
{
	flmem_cursor_step(cursor, strspn(cursor->text + cursor->at, " \t"));
}

/* Skips blanks, line ends and comments. */
static void skip_lines(struct flmem_cursor *cursor)
{
	for (;;) {
		flmem_cursor_step(cursor, strspn(cursor->text + cursor->at, " \t\r\n"));
		if (flmem_cursor_peek(cursor) != '#')
			return;
		flmem_cursor_step(cursor, strcspn(cursor->text + cursor->at, "\n"));
	}
}

static int toml_end_line(struct flmem_cursor *cursor)
{
	toml_skip_blanks(cursor);
	if (flmem_cursor_peek(cursor) == '#')
		flmem_cursor_step(cursor, strcspn(cursor->text + cursor->at, "\n"));
	if (flmem_cursor_looks_at(cursor, "\r\n"))
		flmem_cursor_step(cursor, 1);
	if (flmem_cursor_peek(cursor) && flmem_cursor_peek(cursor) != '\n')
		return flmem_cursor_fail(cursor, "expected the end of the line");
	return 0;
}

static int toml_read_key(struct flmem_cursor *cursor, const char **ret_key,
			 struct flmem_place *ret_place)
{
	static const char bare[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789_-";
	struct flmem_place place = flmem_cursor_place(cursor);
	const char *start = cursor->text + cursor->at;
	size_t length = strspn(start, bare);
	int rc = 0;

	if (*start == '"' || *start == '\'') {
		rc = flmem_toml_string(cursor, true, ret_key);
	} else if (length) {
		*ret_key = flmem_cursor_keep(cursor, start, length);
		flmem_cursor_step(cursor, length);
		rc = *ret_key ? 0 : FLMEM_EFAILED;
	} else {
		rc = flmem_cursor_fail(cursor, "expected a key");
	}
	place.end = cursor->at;
	*ret_place = place;
	toml_skip_blanks(cursor);
	return rc;
}

static struct flmem_node *find_key(const struct flmem_node *map, const char *key)
{
	for (struct flmem_node *n = map->first; n; n = n->next)
		if (strcmp(n->key, key) == 0)
			return n;
	return NULL;
}

static struct flmem_node *add_value(struct flmem_cursor *cursor, struct flmem_node *parent,
				    const char *key, const struct flmem_place *place)
{
	unsigned depth = 1;

	for (const struct flmem_node *n = parent->parent; n; n = n->parent)
		depth++;
	if (depth >= FLMEM_DOCUMENT_DEPTH_MAX ||
	    (parent->last && parent->last->index >= KEYS_MAX)) {
		flmem_cursor_fail_at(cursor, place, "too large for a configuration");
		return NULL;
	}
	return flmem_cursor_add(cursor, parent, key, place);
}

/* Adds a table, or a list of tables. */
static struct flmem_node *add_declared(struct flmem_cursor *cursor, struct flmem_node *parent,
				       const char *key, const struct flmem_place *place)
{
	struct flmem_node *node = add_value(cursor, parent, key, place);

	if (!node)
		return NULL;
	node->kind = FLMEM_NODE_MAP;
	node->place = *place;
	return node;
}

/* The node of a key, or a new table; NULL when out of memory. */
static struct flmem_node *obtain_table(struct flmem_cursor *cursor, struct flmem_node *map,
				       const char *key, const struct flmem_place *place)
{
	struct flmem_node *node = find_key(map, key);

	return node ? node : add_declared(cursor, map, key, place);
}

/*
 * Enters the table of a part of a header other than the last: an existing one, or the last of a
 * list of tables.
 */
static int enter_headed(struct flmem_cursor *cursor, struct flmem_node **map, const char *key,
			const struct flmem_place *place)
{
	struct flmem_node *node = obtain_table(cursor, *map, key, place);

	if (!node)
		return cursor->code;
	if (node->kind == FLMEM_NODE_LIST && node->declared == TOML_HEADED)
		node = node->last;
	if (node->kind != FLMEM_NODE_MAP)
		return flmem_cursor_fail_at(cursor, place, "duplicate key: it already has a value");
	if (node->declared == TOML_CLOSED)
		return flmem_cursor_fail_at(cursor, place,
					    "a table within braces cannot be extended");
	*map = node;
	return 0;
}

/*
 * Enters the table of a part of a dotted key other than the last. A header must not have named it.
 */
static int enter_dotted(struct flmem_cursor *cursor, struct flmem_node **map, const char *key,
			const struct flmem_place *place)
{
	struct flmem_node *node = obtain_table(cursor, *map, key, place);

	if (!node)
		return cursor->code;
	if (node->kind != FLMEM_NODE_MAP || node->declared == TOML_HEADED ||
	    node->declared == TOML_CLOSED)
		return flmem_cursor_fail_at(cursor, place, "duplicate key: it already has a value");
	node->declared = TOML_DOTTED;
	*map = node;
	return 0;
}

/* Enters the tables along a dotted key or a header, and reads the last word into *ret_key. */
static int toml_read_path(struct flmem_cursor *cursor, bool header, struct flmem_node **map,
			  const char **ret_key, struct flmem_place *ret_place)
{
	for (;;) {
		int rc = toml_read_key(cursor, ret_key, ret_place);

		if (rc || flmem_cursor_peek(cursor) != '.')
			return rc;
		flmem_cursor_step(cursor, 1);
		toml_skip_blanks(cursor);
		rc = header ? enter_headed(cursor, map, *ret_key, ret_place)
			    : enter_dotted(cursor, map, *ret_key, ret_place);
		if (rc)
			return rc;
	}
}

static int read_pair(struct flmem_cursor *cursor, struct flmem_node *map)
{
	struct flmem_place place = {0};
	struct flmem_node *node;
	const char *key = "";
	int rc = toml_read_path(cursor, false, &map, &key, &place);

	if (rc)
		return rc;
	if (find_key(map, key))
		return flmem_cursor_fail_at(cursor, &place, "duplicate key");
	if (flmem_cursor_peek(cursor) != '=')
		return flmem_cursor_fail(cursor, "expected '=' after the key");
	flmem_cursor_step(cursor, 1);
	toml_skip_blanks(cursor);
	node = add_value(cursor, map, key, &place);
	return node ? toml_read_value(cursor, node) : cursor->code;
}

static int read_toml_array(struct flmem_cursor *cursor, struct flmem_node *list)
{
	for (skip_lines(cursor); flmem_cursor_peek(cursor) != ']'; skip_lines(cursor)) {
		struct flmem_node *node = flmem_cursor_add(cursor, list, NULL, NULL);
		int rc = node ? toml_read_value(cursor, node) : cursor->code;

		if (rc)
			return rc;
		skip_lines(cursor);
		if (flmem_cursor_peek(cursor) == ',')
			flmem_cursor_step(cursor, 1);
		else if (flmem_cursor_peek(cursor) != ']')
			return flmem_cursor_fail(cursor, "expected ',' or ']'");
	}
	return 0;
}

static int read_inline(struct flmem_cursor *cursor, struct flmem_node *map)
{
	for (skip_lines(cursor); flmem_cursor_peek(cursor) != '}'; skip_lines(cursor)) {
		int rc = read_pair(cursor, map);

		if (rc)
			return rc;
		skip_lines(cursor);
		if (flmem_cursor_peek(cursor) == ',')
			flmem_cursor_step(cursor, 1);
		else if (flmem_cursor_peek(cursor) != '}')
			return flmem_cursor_fail(cursor, "expected ',' or '}'");
	}
	return 0;
}

static int toml_read_collection(struct flmem_cursor *cursor, struct flmem_node *node)
{
	bool map = flmem_cursor_peek(cursor) == '{';
	int rc = flmem_cursor_open(cursor, node, FLMEM_DOCUMENT_DEPTH_MAX / 2);

	if (!rc)
		rc = map ? read_inline(cursor, node) : read_toml_array(cursor, node);
	if (rc)
		return rc;
	node->declared = TOML_CLOSED;
	cursor->depth--;
	flmem_cursor_step(cursor, 1);
	return 0;
}

static int toml_read_value(struct flmem_cursor *cursor, struct flmem_node *node)
{
	char c = flmem_cursor_peek(cursor);
	int rc;

	node->place = flmem_cursor_place(cursor);
	if (c == '{' || c == '[') {
		rc = toml_read_collection(cursor, node);
	} else if (c == '"' || c == '\'') {
		node->kind = FLMEM_NODE_STRING;
		rc = flmem_toml_string(cursor, false, &node->text);
	} else {
		rc = flmem_toml_word(cursor, node);
	}
	node->place.end = cursor->at;
	return rc;
}

/* Declares [way.to.table]: a new one, or one that so far was only in front of other names. */
static int declare_table(struct flmem_cursor *cursor, struct flmem_node **map, const char *key,
			 const struct flmem_place *place)
{
	struct flmem_node *node = obtain_table(cursor, *map, key, place);

	if (!node)
		return cursor->code;
	if (node->kind != FLMEM_NODE_MAP || node->declared != TOML_IMPLIED)
		return flmem_cursor_fail_at(cursor, place,
					    "duplicate table: it is already "
					    "defined");
	node->declared = TOML_HEADED;
	*map = node;
	return 0;
}

/* Declares [[way.to.list]]: adds a table to a list. */
static int add_table(struct flmem_cursor *cursor, struct flmem_node **map, const char *key,
		     const struct flmem_place *place)
{
	struct flmem_node *list = find_key(*map, key), *table;

	if (!list) {
		list = add_declared(cursor, *map, key, place);
		if (!list)
			return cursor->code;
		list->kind = FLMEM_NODE_LIST;
		list->declared = TOML_HEADED;
	}
	if (list->kind != FLMEM_NODE_LIST || list->declared != TOML_HEADED)
		return flmem_cursor_fail_at(cursor, place, "duplicate key: it already has a value");
	table = flmem_cursor_add(cursor, list, NULL, NULL);
	if (!table)
		return cursor->code;
	table->kind = FLMEM_NODE_MAP;
	table->declared = TOML_HEADED;
	table->place = *place;
	*map = table;
	return 0;
}

/*
 * Reads [way.to.table] or [[way.to.list]]. *map is the root, and then the table to which the
 * following entries belong.
 */
static int read_table_header(struct flmem_cursor *cursor, struct flmem_node **map)
{
	bool list = flmem_cursor_looks_at(cursor, "[[");
	const char *closing = list ? "]]" : "]", *key = "";
	struct flmem_place place = {0};
	int rc;

	flmem_cursor_step(cursor, strlen(closing));
	toml_skip_blanks(cursor);
	rc = toml_read_path(cursor, true, map, &key, &place);
	if (!rc)
		rc = list ? add_table(cursor, map, key, &place)
			  : declare_table(cursor, map, key, &place);
	if (rc)
		return rc;
	if (!flmem_cursor_looks_at(cursor, closing))
		return flmem_cursor_fail(cursor, "expected the end of the table's name");
	flmem_cursor_step(cursor, strlen(closing));
	return 0;
}

/*
 * Checks that there is no form feed, and a carriage return only before a line feed. No document has
 * other control characters.
 */
static int check_returns(struct flmem_cursor *cursor)
{
	struct flmem_cursor at = *cursor;

	for (;;) {
		flmem_cursor_step(&at, strcspn(at.text + at.at, "\r\f"));
		if (!flmem_cursor_peek(&at))
			return 0;
		if (!flmem_cursor_looks_at(&at, "\r\n")) {
			struct flmem_place place = flmem_cursor_place(&at);

			return flmem_cursor_fail_at(cursor, &place, "a control character");
		}
		flmem_cursor_step(&at, 2);
	}
}

int flmem_toml_read(struct flmem_cursor *cursor)
{
	struct flmem_node *root = flmem_cursor_add(cursor, NULL, NULL, NULL), *table = root;
	int rc;

	if (!root)
		return FLMEM_EFAILED;
	rc = check_returns(cursor);
	root->kind = FLMEM_NODE_MAP;
	for (skip_lines(cursor); !rc && flmem_cursor_peek(cursor); skip_lines(cursor)) {
		if (flmem_cursor_peek(cursor) == '[') {
			table = root;
			rc = read_table_header(cursor, &table);
		} else {
			rc = read_pair(cursor, table);
		}
		if (!rc)
			rc = toml_end_line(cursor);
	}
	if (!rc)
		root->place.end = cursor->length;
	return rc;
}
