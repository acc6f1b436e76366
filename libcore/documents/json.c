/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON as Python's json module reads it, since that is what the frameworks load their files with:
 * RFC 8259, plus NaN and Infinity. No library fits: cJSON and similar ones keep no positions, and
 * libyaml, which does, rejects escaped surrogate pairs and long keys.
 */
#include "documents/build.h"

#include <string.h>

static int json_read_value(struct flmem_cursor *cursor, struct flmem_node *node);

static void skip_space(struct flmem_cursor *cursor)
{
	while (flmem_cursor_peek(cursor) && strchr(" \t\r\n", flmem_cursor_peek(cursor)))
		flmem_cursor_step(cursor, 1);
}

static int read_json_member(struct flmem_cursor *cursor, struct flmem_node *map)
{
	struct flmem_place place = flmem_cursor_place(cursor);
	struct flmem_node *node;
	const char *key;
	int rc;

	if (flmem_cursor_peek(cursor) != '"')
		return flmem_cursor_fail(cursor, "expected a key in double quotes");
	rc = flmem_cursor_quoted(cursor, &key);
	if (rc)
		return rc;
	place.end = cursor->at;
	skip_space(cursor);
	if (flmem_cursor_peek(cursor) != ':')
		return flmem_cursor_fail(cursor, "expected ':' after the key");
	flmem_cursor_step(cursor, 1);
	skip_space(cursor);
	node = flmem_cursor_add(cursor, map, key, &place);
	return node ? json_read_value(cursor, node) : cursor->code;
}

/* Whether the value is a number, or a list of only numbers and such lists. */
static bool is_numbers(const struct flmem_cursor *cursor)
{
	static const char allowed[] = "0123456789+-.eENaInfity, \t\r\n[]";
	const char *p = cursor->text + cursor->at;
	unsigned depth = 0;

	if (*p != '[')
		return *p && strchr("0123456789-NI", *p);
	for (; *p && strchr(allowed, *p); p++) {
		depth += *p == '[';
		depth -= *p == ']';
		if (!depth)
			return true;
	}
	return false;
}

/* Reads an entry of a list. Of a list of weights, only the first numbers are kept. */
static int read_item(struct flmem_cursor *cursor, struct flmem_node *list)
{
	const bool was = cursor->passing;
	struct flmem_node *node;
	int rc;

	if (!was && list->last && list->last->index + 1 >= FLMEM_DOCUMENT_NUMBERS_KEPT)
		cursor->passing = is_numbers(cursor);
	node = flmem_cursor_add(cursor, list, NULL, NULL);
	rc = node ? json_read_value(cursor, node) : cursor->code;
	cursor->passing = was;
	return rc;
}

/* Reads the entries between brackets; the cursor is after the opening one. */
static int json_read_entries(struct flmem_cursor *cursor, struct flmem_node *node, char closing)
{
	skip_space(cursor);
	if (flmem_cursor_peek(cursor) == closing)
		return 0;
	for (;;) {
		int rc = closing == '}' ? read_json_member(cursor, node) : read_item(cursor, node);

		if (rc)
			return rc;
		skip_space(cursor);
		if (flmem_cursor_peek(cursor) == closing)
			return 0;
		if (flmem_cursor_peek(cursor) != ',')
			return flmem_cursor_fail(cursor, closing == '}' ? "expected ',' or '}'"
									: "expected ',' or ']'");
		flmem_cursor_step(cursor, 1);
		skip_space(cursor);
	}
}

static int json_read_collection(struct flmem_cursor *cursor, struct flmem_node *node)
{
	bool map = flmem_cursor_peek(cursor) == '{';
	int rc = flmem_cursor_open(cursor, node, FLMEM_DOCUMENT_DEPTH_MAX);

	if (!rc)
		rc = json_read_entries(cursor, node, map ? '}' : ']');
	if (rc)
		return rc;
	cursor->depth--;
	flmem_cursor_step(cursor, 1);
	return 0;
}

/* Reads a bare word (a number, true, null) up to the next separator. */
static int json_read_word(struct flmem_cursor *cursor, struct flmem_node *node)
{
	static const struct {
		const char *word;
		enum flmem_node_kind kind;
	} words[] = {
		{"true", FLMEM_NODE_BOOL},     {"false", FLMEM_NODE_BOOL},
		{"null", FLMEM_NODE_NULL},     {"NaN", FLMEM_NODE_REAL},
		{"Infinity", FLMEM_NODE_REAL}, {"-Infinity", FLMEM_NODE_REAL},
	};
	const char *start = cursor->text + cursor->at;
	size_t length = strcspn(start, " \t\r\n,:[]{}\"");

	node->kind = flmem_number_kind(start, length);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(words); i++)
		if (length == strlen(words[i].word) && !strncmp(start, words[i].word, length))
			node->kind = words[i].kind;
	if (node->kind == FLMEM_NODE_STRING)
		return flmem_cursor_fail(cursor,
					 *start ? "expected a value"
						: "expected a value before the end of the text");
	node->text = cursor->passing ? "" : flmem_cursor_keep(cursor, start, length);
	flmem_cursor_step(cursor, length);
	return node->text ? 0 : cursor->code;
}

static int json_read_value(struct flmem_cursor *cursor, struct flmem_node *node)
{
	char c = flmem_cursor_peek(cursor);
	int rc;

	if (c == '{' || c == '[') {
		rc = json_read_collection(cursor, node);
	} else if (c == '"') {
		node->kind = FLMEM_NODE_STRING;
		rc = flmem_cursor_quoted(cursor, &node->text);
	} else {
		rc = json_read_word(cursor, node);
	}
	node->place.end = cursor->at;
	return rc;
}

int flmem_json_read(struct flmem_cursor *cursor)
{
	struct flmem_node *root;
	int rc;

	skip_space(cursor);
	root = flmem_cursor_add(cursor, NULL, NULL, NULL);
	rc = root ? json_read_value(cursor, root) : cursor->code;
	if (rc)
		return rc;
	skip_space(cursor);
	return cursor->at == cursor->length
		       ? 0
		       : flmem_cursor_fail(cursor, "expected the end of the text");
}
