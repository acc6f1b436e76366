/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HOCON to the extent that NVFlare's configurations use it: unquoted and dotted keys, '=', ':' or
 * nothing before a brace, commas that may be left out, comments, strings in one or three quotes,
 * and equal keys whose maps are merged. A substitution (${name}) stays a string. Other features
 * (includes, +=, concatenated maps) are rejected with their line, never guessed.
 */
#include "documents/build.h"

#include <string.h>

/* Each key is compared with the earlier ones, so their number is limited. */
#define KEYS_MAX 2048U

static int hocon_read_value(struct flmem_cursor *cursor, struct flmem_node *node);
static int read_hocon_members(struct flmem_cursor *cursor, struct flmem_node *map, char closing);

static bool at_comment(const struct flmem_cursor *cursor)
{
	return flmem_cursor_peek(cursor) == '#' || flmem_cursor_looks_at(cursor, "//");
}

static void skip_comment(struct flmem_cursor *cursor)
{
	if (at_comment(cursor))
		flmem_cursor_step(cursor, strcspn(cursor->text + cursor->at, "\n"));
}

static void hocon_skip_blanks(struct flmem_cursor *cursor)
{
	flmem_cursor_step(cursor, strspn(cursor->text + cursor->at, " \t\r"));
}

/* Skips blanks, line ends, comments, and the commas between entries. */
static void skip_to_entry(struct flmem_cursor *cursor)
{
	for (;;) {
		size_t length = strspn(cursor->text + cursor->at, " \t\r\n,");

		flmem_cursor_step(cursor, length);
		if (at_comment(cursor))
			skip_comment(cursor);
		else if (!length)
			return;
	}
}

/* Whether an unquoted value ends here. */
static bool at_end_of_value(const struct flmem_cursor *cursor)
{
	char c = flmem_cursor_peek(cursor);

	return !c || strchr("\n,}]", c) || at_comment(cursor);
}

static int read_key_word(struct flmem_cursor *cursor, const char **ret_key,
			 struct flmem_place *ret_place)
{
	struct flmem_place place = flmem_cursor_place(cursor);
	const char *start = cursor->text + cursor->at;
	int rc = 0;

	if (*start == '"') {
		rc = flmem_cursor_quoted(cursor, ret_key);
	} else {
		size_t length = strcspn(start, " \t\r\n.=:{}[]+,\"#$");

		if (!length)
			return flmem_cursor_fail(cursor, "expected a key");
		*ret_key = flmem_cursor_keep(cursor, start, length);
		flmem_cursor_step(cursor, length);
		rc = *ret_key ? 0 : FLMEM_EFAILED; /* only memory can be missing */
	}
	place.end = cursor->at;
	*ret_place = place;
	return rc;
}

/*
 * The node for a key: the map of an earlier equal key if the value is a map, too, since HOCON
 * merges them; else a new node. NULL on error.
 */
static struct flmem_node *child_for(struct flmem_cursor *cursor, struct flmem_node *map,
				    const char *key, const struct flmem_place *place, bool is_map)
{
	struct flmem_node *last = NULL;

	for (struct flmem_node *n = map->first; n; n = n->next)
		if (strcmp(n->key, key) == 0)
			last = n;
	if (is_map && last && last->kind == FLMEM_NODE_MAP)
		return last;
	if (map->last && map->last->index >= KEYS_MAX) {
		flmem_cursor_fail(cursor, "too many keys for a configuration");
		return NULL;
	}
	return flmem_cursor_add(cursor, map, key, place);
}

/* Reads a dotted key. *map becomes the map of its last word, which *ret_key names. */
static int hocon_read_key(struct flmem_cursor *cursor, struct flmem_node **map,
			  const char **ret_key, struct flmem_place *ret_place)
{
	for (;;) {
		int rc = read_key_word(cursor, ret_key, ret_place);
		struct flmem_node *node;

		if (rc || flmem_cursor_peek(cursor) != '.')
			return rc;
		if (++cursor->depth >= FLMEM_DOCUMENT_DEPTH_MAX)
			return flmem_cursor_fail(cursor, "nested too deep for a configuration");
		flmem_cursor_step(cursor, 1);
		node = child_for(cursor, *map, *ret_key, ret_place, true);
		if (!node)
			return cursor->code;
		node->kind = FLMEM_NODE_MAP;
		node->place = *ret_place;
		*map = node;
	}
}

static int read_separator(struct flmem_cursor *cursor)
{
	hocon_skip_blanks(cursor);
	if (flmem_cursor_peek(cursor) == '{')
		return 0;
	if (flmem_cursor_peek(cursor) != '=' && flmem_cursor_peek(cursor) != ':')
		return flmem_cursor_fail(cursor,
					 flmem_cursor_looks_at(cursor, "+=")
						 ? "'+=' is not supported"
						 : "expected '=', ':' or '{' after the key");
	flmem_cursor_step(cursor, 1);
	for (;;) {
		size_t length = strspn(cursor->text + cursor->at, " \t\r\n");

		flmem_cursor_step(cursor, length);
		if (!at_comment(cursor))
			return 0;
		skip_comment(cursor);
	}
}

static int read_hocon_member(struct flmem_cursor *cursor, struct flmem_node *map)
{
	unsigned depth = cursor->depth;
	struct flmem_place place;
	struct flmem_node *node;
	const char *key = "";
	int rc;

	if (flmem_cursor_looks_at(cursor, "include") &&
	    strchr(" \t\"", cursor->text[cursor->at + strlen("include")]))
		return flmem_cursor_fail(cursor, "includes are not supported");
	rc = hocon_read_key(cursor, &map, &key, &place);
	if (!rc)
		rc = read_separator(cursor);
	if (rc)
		return rc;
	node = child_for(cursor, map, key, &place, flmem_cursor_peek(cursor) == '{');
	rc = node ? hocon_read_value(cursor, node) : cursor->code;
	cursor->depth = depth; /* the words of a dotted key increased it */
	return rc;
}

static int read_hocon_members(struct flmem_cursor *cursor, struct flmem_node *map, char closing)
{
	for (;;) {
		int rc;

		skip_to_entry(cursor);
		if (cursor->at == cursor->length || flmem_cursor_peek(cursor) == closing)
			return 0;
		rc = read_hocon_member(cursor, map);
		if (rc)
			return rc;
	}
}

static int read_items(struct flmem_cursor *cursor, struct flmem_node *list)
{
	for (;;) {
		struct flmem_node *node;
		int rc;

		skip_to_entry(cursor);
		if (cursor->at == cursor->length || flmem_cursor_peek(cursor) == ']')
			return 0;
		node = flmem_cursor_add(cursor, list, NULL, NULL);
		rc = node ? hocon_read_value(cursor, node) : cursor->code;
		if (rc)
			return rc;
	}
}

static int hocon_read_collection(struct flmem_cursor *cursor, struct flmem_node *node)
{
	bool map = flmem_cursor_peek(cursor) == '{';
	unsigned depth = cursor->depth;
	int rc = flmem_cursor_open(cursor, node, FLMEM_DOCUMENT_DEPTH_MAX);

	if (!rc)
		rc = map ? read_hocon_members(cursor, node, '}') : read_items(cursor, node);
	if (rc)
		return rc;
	cursor->depth = depth;
	if (cursor->at == cursor->length)
		return flmem_cursor_fail(cursor, map ? "expected '}'" : "expected ']'");
	flmem_cursor_step(cursor, 1);
	return 0;
}

static enum flmem_node_kind word_kind(const char *text)
{
	if (!strcasecmp(text, "true") || !strcasecmp(text, "false"))
		return FLMEM_NODE_BOOL;
	return strcasecmp(text, "null") ? flmem_number_kind(text, strlen(text)) : FLMEM_NODE_NULL;
}

/* Reads an unquoted value, with substitutions in it, up to the end of its line or entry. */
static int hocon_read_word(struct flmem_cursor *cursor, struct flmem_node *node)
{
	const char *start = cursor->text + cursor->at;
	size_t length = 0;
	char *text;

	while (!at_end_of_value(cursor)) {
		size_t braces = flmem_cursor_looks_at(cursor, "${")
					? strcspn(cursor->text + cursor->at, "}\n")
					: 0;
		char c = flmem_cursor_peek(cursor);

		if (c == '{' || c == '[' || c == '"')
			return flmem_cursor_fail(cursor, "concatenated values are not supported");
		flmem_cursor_step(cursor, braces ? braces : 1);
		if (braces && flmem_cursor_peek(cursor) == '}')
			flmem_cursor_step(cursor, 1);
		if (!strchr(" \t\r", c))
			length = (size_t)(cursor->text + cursor->at - start);
	}
	if (!length)
		return flmem_cursor_fail(cursor, "expected a value");
	node->place.end = node->place.start + length;
	text = flmem_cursor_keep(cursor, start, length);
	if (!text)
		return cursor->code;
	node->text = text;
	node->kind = word_kind(text);
	if (node->kind == FLMEM_NODE_BOOL)
		for (char *p = text; *p; p++)
			*p = (char)(*p | 0x20);
	return 0;
}

/* Checks that only the end of the entry follows a value in quotes or braces. */
static int finish_value(struct flmem_cursor *cursor)
{
	hocon_skip_blanks(cursor);
	return at_end_of_value(cursor)
		       ? 0
		       : flmem_cursor_fail(cursor, "concatenated values are not supported");
}

static int hocon_read_value(struct flmem_cursor *cursor, struct flmem_node *node)
{
	char c = flmem_cursor_peek(cursor);
	int rc;

	node->place = flmem_cursor_place(cursor);
	if (c != '{' && c != '[' && c != '"')
		return hocon_read_word(cursor, node);
	if (c != '"') {
		rc = hocon_read_collection(cursor, node);
	} else {
		node->kind = FLMEM_NODE_STRING;
		rc = flmem_cursor_looks_at(cursor, "\"\"\"")
			     ? flmem_cursor_triple(cursor, &node->text)
			     : flmem_cursor_quoted(cursor, &node->text);
	}
	node->place.end = cursor->at;
	return rc ? rc : finish_value(cursor);
}

int flmem_hocon_read(struct flmem_cursor *cursor)
{
	struct flmem_node *root;
	int rc;

	skip_to_entry(cursor);
	root = flmem_cursor_add(cursor, NULL, NULL, NULL);
	if (!root)
		return cursor->code;
	root->kind = FLMEM_NODE_MAP;
	if (flmem_cursor_peek(cursor) == '{' || flmem_cursor_peek(cursor) == '[')
		rc = hocon_read_value(cursor, root);
	else
		rc = read_hocon_members(cursor, root, '\0');
	if (rc)
		return rc;
	root->place.end = cursor->at;
	skip_to_entry(cursor);
	return cursor->at == cursor->length
		       ? 0
		       : flmem_cursor_fail(cursor, "expected the end of the text");
}
