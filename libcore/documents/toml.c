/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TOML 1.0 to the extent that Flower's pyproject.toml uses it, with places: tables, arrays of
 * tables, dotted keys, strings of all four kinds (escapes in multi-line strings are not decoded),
 * numbers, truth values, arrays and inline tables. Dates stay strings. A duplicate key is rejected,
 * as by Python's tomllib.
 */
#include "documents/build.h"

#include <string.h>

/* Each key is compared with the earlier ones, so their number is limited. */
#define KEYS_MAX 2048U

static int toml_read_value(struct flmem_cursor *cursor, struct flmem_node *node);

static void toml_skip_blanks(struct flmem_cursor *cursor)
{
	flmem_cursor_step(cursor, strspn(cursor->text + cursor->at, " \t"));
}

/* Blanks, ends of lines and comments. */
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

/* Between single quotes nothing is an escape. */
static int read_literal(struct flmem_cursor *cursor, const char **ret_text)
{
	const char *start = cursor->text + cursor->at + 1;
	size_t length = strcspn(start, "'\n");

	if (start[length] != '\'')
		return flmem_cursor_fail(cursor, "unterminated string");
	*ret_text = flmem_cursor_keep(cursor, start, length);
	flmem_cursor_step(cursor, length + 2);
	return *ret_text ? 0 : FLMEM_EFAILED; /* only memory can be missing */
}

/* A line end behind the first quotes does not count. */
static int read_long(struct flmem_cursor *cursor, const char **ret_text)
{
	const char *text;
	int rc = flmem_cursor_triple(cursor, &text);

	if (rc)
		return rc;
	text += *text == '\r' && text[1] == '\n';
	*ret_text = text + (*text == '\n');
	return 0;
}

static int read_toml_string(struct flmem_cursor *cursor, const char **ret_text)
{
	if (flmem_cursor_looks_at(cursor, "\"\"\"") || flmem_cursor_looks_at(cursor, "'''"))
		return read_long(cursor, ret_text);
	return flmem_cursor_peek(cursor) == '"' ? flmem_cursor_quoted(cursor, ret_text)
						: read_literal(cursor, ret_text);
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

	if (*start == '"') {
		rc = flmem_cursor_quoted(cursor, ret_key);
	} else if (*start == '\'') {
		rc = read_literal(cursor, ret_key);
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

/* The table of this name below the map: an existing one, the last of several, or a new one. */
static int enter_table(struct flmem_cursor *cursor, struct flmem_node **map, const char *key,
		       const struct flmem_place *place)
{
	struct flmem_node *node = find_key(*map, key);

	if (!node) {
		node = add_value(cursor, *map, key, place);
		if (!node)
			return cursor->code;
		node->kind = FLMEM_NODE_MAP;
		node->place = *place;
	}
	if (node->kind == FLMEM_NODE_LIST && node->last)
		node = node->last;
	if (node->kind != FLMEM_NODE_MAP)
		return flmem_cursor_fail_at(cursor, place, "duplicate key: it already has a value");
	*map = node;
	return 0;
}

/* The tables along a dotted key; the caller reads its last word. */
static int toml_read_path(struct flmem_cursor *cursor, struct flmem_node **map,
			  const char **ret_key, struct flmem_place *ret_place)
{
	for (;;) {
		int rc = toml_read_key(cursor, ret_key, ret_place);

		if (rc || flmem_cursor_peek(cursor) != '.')
			return rc;
		flmem_cursor_step(cursor, 1);
		toml_skip_blanks(cursor);
		rc = enter_table(cursor, map, *ret_key, ret_place);
		if (rc)
			return rc;
	}
}

static int read_pair(struct flmem_cursor *cursor, struct flmem_node *map)
{
	struct flmem_place place = {0};
	struct flmem_node *node;
	const char *key = "";
	int rc = toml_read_path(cursor, &map, &key, &place);

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
	toml_skip_blanks(cursor);
	while (flmem_cursor_peek(cursor) != '}') {
		int rc = read_pair(cursor, map);

		if (rc)
			return rc;
		toml_skip_blanks(cursor);
		if (flmem_cursor_peek(cursor) == ',')
			flmem_cursor_step(cursor, 1);
		else if (flmem_cursor_peek(cursor) != '}')
			return flmem_cursor_fail(cursor, "expected ',' or '}'");
		toml_skip_blanks(cursor);
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
	cursor->depth--;
	flmem_cursor_step(cursor, 1);
	return 0;
}

/* A number, perhaps with underscores or in another base; a date stays a string. */
static int toml_read_number(struct flmem_cursor *cursor, struct flmem_node *node, size_t length)
{
	const char *start = cursor->text + cursor->at, *number;
	char *digits = flmem_cursor_keep(cursor, start, length), *out = digits;

	if (!digits)
		return cursor->code;
	for (const char *p = digits + (*digits == '+'); *p; p++)
		if (*p != '_')
			*out++ = *p;
	*out = '\0';
	number = flmem_number_in_base(cursor, digits, "xob");
	node->text = number ? number : digits;
	node->kind = number ? FLMEM_NODE_INTEGER : flmem_number_kind(digits, strlen(digits));
	if (node->kind == FLMEM_NODE_STRING)
		node->text = flmem_cursor_keep(cursor, start, length);
	flmem_cursor_step(cursor, length);
	return node->text ? 0 : cursor->code;
}

/* A truth value or a number. */
static int toml_read_word(struct flmem_cursor *cursor, struct flmem_node *node)
{
	static const char digits[] = "0123456789_+-.:abcdefABCDEFxoinTtZz"; /* +inf, 07:32Z */
	const char *start = cursor->text + cursor->at;
	size_t length = strcspn(start, " \t\r\n,]}#");

	if ((length == 4 && !strncmp(start, "true", 4)) ||
	    (length == 5 && !strncmp(start, "false", 5)))
		node->kind = FLMEM_NODE_BOOL;
	else if (length && strchr("0123456789+-", *start) && strspn(start, digits) >= length)
		return toml_read_number(cursor, node, length);
	else if (length == 3 && (!strncmp(start, "inf", 3) || !strncmp(start, "nan", 3)))
		node->kind = FLMEM_NODE_REAL;
	else
		return flmem_cursor_fail(cursor,
					 *start ? "expected a value"
						: "expected a value before the end of the text");
	node->text = flmem_cursor_keep(cursor, start, length);
	flmem_cursor_step(cursor, length);
	return node->text ? 0 : cursor->code;
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
		rc = read_toml_string(cursor, &node->text);
	} else {
		rc = toml_read_word(cursor, node);
	}
	node->place.end = cursor->at;
	return rc;
}

/* [[way.to.list]]: one more table in a list. */
static int add_table(struct flmem_cursor *cursor, struct flmem_node **map, const char *key,
		     const struct flmem_place *place)
{
	struct flmem_node *list = find_key(*map, key), *table;

	if (!list) {
		list = add_value(cursor, *map, key, place);
		if (!list)
			return cursor->code;
		list->kind = FLMEM_NODE_LIST;
		list->place = *place;
	}
	if (list->kind != FLMEM_NODE_LIST)
		return flmem_cursor_fail_at(cursor, place, "duplicate key: it already has a value");
	table = flmem_cursor_add(cursor, list, NULL, NULL);
	if (!table)
		return cursor->code;
	table->kind = FLMEM_NODE_MAP;
	table->place = *place;
	*map = table;
	return 0;
}

/* [way.to.table] or [[way.to.list]]; `*map` is the root, and then what follows belongs to. */
static int read_table_header(struct flmem_cursor *cursor, struct flmem_node **map)
{
	bool list = flmem_cursor_looks_at(cursor, "[[");
	const char *closing = list ? "]]" : "]", *key = "";
	struct flmem_place place = {0};
	int rc;

	flmem_cursor_step(cursor, strlen(closing));
	toml_skip_blanks(cursor);
	rc = toml_read_path(cursor, map, &key, &place);
	if (!rc)
		rc = list ? add_table(cursor, map, key, &place)
			  : enter_table(cursor, map, key, &place);
	if (rc)
		return rc;
	if (!flmem_cursor_looks_at(cursor, closing))
		return flmem_cursor_fail(cursor, "expected the end of the table's name");
	flmem_cursor_step(cursor, strlen(closing));
	return 0;
}

int flmem_toml_read(struct flmem_cursor *cursor)
{
	struct flmem_node *root = flmem_cursor_add(cursor, NULL, NULL, NULL), *table = root;
	int rc = 0;

	if (!root)
		return FLMEM_EFAILED;
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
