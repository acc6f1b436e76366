/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML through libyaml's events, with plain scalars resolved as YAML 1.1 has it, since that is what
 * PyYAML and OmegaConf do. An alias becomes a node that shows the children of its anchor: nothing
 * is copied, so a small text cannot become a large tree. A file of several documents is a list of
 * them.
 */
#include "documents/build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/text/text.h"

/* An alias is searched among the anchors before it, so their number is limited. */
#define ANCHORS_MAX 1024U

struct anchor {
	struct anchor *next;
	const char *name;
	const struct flmem_node *node;
};

struct yaml_reader {
	struct flmem_cursor *cursor;
	struct anchor *anchors; /* the latest anchor first */
	unsigned anchor_count;
	struct flmem_node *open; /* the collection that is being read */
	const char *key;	 /* the key whose value follows */
	const char *key_tag;
	struct flmem_place key_place;
	size_t characters; /* characters before the cursor, as libyaml's marks count them */
};

/* Moves the cursor to a mark. Marks come in the order of the text, so it only moves forward. */
static void move_to(struct yaml_reader *reader, const yaml_mark_t *mark)
{
	struct flmem_cursor *cursor = reader->cursor;

	while (reader->characters < mark->index && cursor->at < cursor->length) {
		do
			flmem_cursor_step(cursor, 1);
		while ((flmem_cursor_peek(cursor) & 0xc0) == 0x80);
		reader->characters++;
	}
}

/* Removes underscores: 1_000 is 1000. */
static void drop_underscores(char *digits)
{
	char *out = digits;

	for (; *digits; digits++)
		if (*digits != '_')
			*out++ = *digits;
	*out = '\0';
}

/*
 * The number of 1:30, which is 90: [-+]?[1-9][0-9_]*(:[0-5]?[0-9])+ in PyYAML's resolver. NULL for
 * other words.
 */
static const char *number_to_base_60(struct flmem_cursor *cursor, const char *scalar)
{
	const char *digits = scalar + (*scalar == '-'), *part = strchr(digits, ':');
	int64_t value = 0;
	char out[24];

	if (!part || *digits < '1' || *digits > '9')
		return NULL;
	for (const char *p = digits; p < part; p++)
		if (*p != '_' && (*p < '0' || *p > '9' || value > INT32_MAX))
			return NULL;
		else if (*p != '_')
			value = value * 10 + (*p - '0');
	while (*part) {
		size_t length = strspn(part + 1, "0123456789");

		if (*part != ':' || !length || length > 2 || (length == 2 && part[1] > '5') ||
		    value > INT64_MAX / 120)
			return NULL;
		value = value * 60 + (length == 2 ? (part[1] - '0') * 10 : 0) + part[length] - '0';
		part += 1 + length;
	}
	snprintf(out, sizeof(out), "%s%" PRId64, *scalar == '-' ? "-" : "", value);
	return flmem_cursor_keep(cursor, out, strlen(out));
}

/*
 * Returns the kind of a plain scalar and sets its text, as PyYAML and OmegaConf do by YAML 1.1:
 * 0o17 and 0X1f are strings.
 */
static enum flmem_node_kind resolve_plain(struct flmem_cursor *cursor, char *scalar,
					  const char **text)
{
	static const char *const nothing[] = {"", "~", "null", "Null", "NULL", NULL};
	static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes",
					  "YES",  "on",	  "On",	  "ON",	 NULL};
	static const char *const no[] = {"false", "False", "FALSE", "no",  "No",
					 "NO",	  "off",   "Off",   "OFF", NULL};
	const char *number;

	*text = scalar;
	if (flmem_text_is_one_of(*text, nothing))
		return FLMEM_NODE_NULL;
	if (flmem_text_is_one_of(*text, yes)) {
		*text = "true";
		return FLMEM_NODE_BOOL;
	}
	if (flmem_text_is_one_of(*text, no)) {
		*text = "false";
		return FLMEM_NODE_BOOL;
	}
	if (*scalar == '+')
		*text = ++scalar;
	number = flmem_number_in_base(cursor, scalar, "xb0");
	if (number) {
		*text = number;
		return FLMEM_NODE_INTEGER;
	}
	number = number_to_base_60(cursor, scalar);
	if (number) {
		*text = number;
		return FLMEM_NODE_INTEGER;
	}
	if (*scalar != '_' && !scalar[strspn(scalar, "-0123456789_")])
		drop_underscores(scalar);
	return flmem_number_kind(scalar, strlen(scalar));
}

/* Keeps a tag; "!" means the same as no tag. */
static const char *kept_tag(struct yaml_reader *reader, const yaml_char_t *tag)
{
	const char *text = (const char *)tag;

	return text && strcmp(text, "!") != 0
		       ? flmem_cursor_keep(reader->cursor, text, strlen(text))
		       : NULL;
}

/* Adds the node for the next value: of the key, in a list, or as a document. NULL on error. */
static struct flmem_node *yaml_add_node(struct yaml_reader *reader, const yaml_char_t *tag)
{
	struct flmem_node *node;
	bool keyed = reader->open->kind == FLMEM_NODE_MAP;

	if (keyed && !reader->key) {
		flmem_cursor_fail(reader->cursor, "a key that is not a scalar");
		return NULL;
	}
	node = flmem_cursor_add(reader->cursor, reader->open, reader->key, &reader->key_place);
	if (node)
		node->tag = kept_tag(reader, tag);
	if (node && !node->tag)
		node->tag = reader->key_tag;
	reader->key = reader->key_tag = NULL;
	return node;
}

static bool add_anchor(struct yaml_reader *reader, const yaml_char_t *name,
		       const struct flmem_node *node)
{
	struct anchor *anchor;

	if (!name)
		return true;
	if (++reader->anchor_count > ANCHORS_MAX) {
		flmem_cursor_fail(reader->cursor, "too many anchors for a configuration");
		return false;
	}
	anchor = flmem_cursor_take(reader->cursor, sizeof(*anchor));
	if (!anchor)
		return false;
	*anchor = (struct anchor){.next = reader->anchors, .node = node};
	anchor->name =
		flmem_cursor_keep(reader->cursor, (const char *)name, strlen((const char *)name));
	reader->anchors = anchor;
	return anchor->name;
}

static void yaml_read_key(struct yaml_reader *reader, const yaml_event_t *event)
{
	reader->key = flmem_cursor_keep(reader->cursor, (const char *)event->data.scalar.value,
					event->data.scalar.length);
	/* !!str does not change the kind of a key. */
	if (event->data.scalar.tag && *event->data.scalar.tag == '!')
		reader->key_tag = kept_tag(reader, event->data.scalar.tag);
	reader->key_place = flmem_cursor_place(reader->cursor);
	move_to(reader, &event->end_mark);
	reader->key_place.end = reader->cursor->at;
}

/*
 * Whether the kind of a scalar is resolved: a plain one without a tag, one with the tag "!", as in
 * PyYAML, or with one of YAML's tags for what is not a string: !!int "5".
 */
static bool is_resolved(const yaml_event_t *event)
{
	static const char *const tags[] = {YAML_INT_TAG, YAML_BOOL_TAG, YAML_NULL_TAG, NULL};
	const char *tag = (const char *)event->data.scalar.tag;

	return event->data.scalar.plain_implicit || (tag && flmem_text_is_one_of(tag, tags));
}

static void read_yaml_scalar(struct yaml_reader *reader, const yaml_event_t *event)
{
	struct flmem_node *node;
	char *text;

	if (reader->open->kind == FLMEM_NODE_MAP && !reader->key) {
		yaml_read_key(reader, event);
		return;
	}
	node = yaml_add_node(reader, event->data.scalar.tag);
	if (!node)
		return;
	text = flmem_cursor_keep(reader->cursor, (const char *)event->data.scalar.value,
				 event->data.scalar.length);
	if (!text)
		return;
	node->kind = FLMEM_NODE_STRING;
	node->text = text;
	if (is_resolved(event))
		node->kind = resolve_plain(reader->cursor, text, &node->text);
	add_anchor(reader, event->data.scalar.anchor, node);
	move_to(reader, &event->end_mark);
	node->place.end = reader->cursor->at;
}

static bool is_inside(const struct flmem_node *node, const struct flmem_node *ancestor)
{
	while (node && node != ancestor)
		node = node->parent;
	return node;
}

static void read_alias(struct yaml_reader *reader, const yaml_event_t *event)
{
	const char *name = (const char *)event->data.alias.anchor;
	const struct anchor *anchor = reader->anchors;
	struct flmem_node *node;

	while (anchor && strcmp(anchor->name, name) != 0)
		anchor = anchor->next;
	if (!anchor || is_inside(reader->open, anchor->node)) {
		flmem_cursor_fail(reader->cursor, anchor ? "an alias inside its own anchor"
							 : "an alias without an anchor");
		return;
	}
	node = yaml_add_node(reader, NULL);
	if (!node)
		return;
	node->kind = anchor->node->kind;
	node->text = anchor->node->text;
	node->first = anchor->node->first;
	node->last = anchor->node->last;
	move_to(reader, &event->end_mark);
	node->place.end = reader->cursor->at;
}

static void open_collection(struct yaml_reader *reader, enum flmem_node_kind kind,
			    const yaml_char_t *anchor, const yaml_char_t *tag)
{
	struct flmem_node *node = yaml_add_node(reader, tag);

	if (!node)
		return;
	node->kind = kind;
	if (reader->cursor->depth >= FLMEM_DOCUMENT_DEPTH_MAX) {
		flmem_cursor_fail(reader->cursor, "nested too deep for a configuration");
		return;
	}
	reader->cursor->depth++;
	reader->open = node;
	add_anchor(reader, anchor, node);
}

/* Ends a block at the end of its last child, since libyaml reports the start of the next token. */
static void close_collection(struct yaml_reader *reader, const yaml_event_t *event)
{
	struct flmem_node *node = reader->open;

	move_to(reader, &event->end_mark);
	node->place.end = reader->cursor->at;
	if (event->start_mark.index == event->end_mark.index && node->last)
		node->place.end = node->last->place.end;
	reader->open = node->parent;
	reader->cursor->depth--;
}

static void handle_event(struct yaml_reader *reader, const yaml_event_t *event)
{
	if (event->type != YAML_MAPPING_END_EVENT && event->type != YAML_SEQUENCE_END_EVENT)
		move_to(reader, &event->start_mark);
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		read_yaml_scalar(reader, event);
		break;
	case YAML_ALIAS_EVENT:
		read_alias(reader, event);
		break;
	case YAML_MAPPING_START_EVENT:
		open_collection(reader, FLMEM_NODE_MAP, event->data.mapping_start.anchor,
				event->data.mapping_start.tag);
		break;
	case YAML_SEQUENCE_START_EVENT:
		open_collection(reader, FLMEM_NODE_LIST, event->data.sequence_start.anchor,
				event->data.sequence_start.tag);
		break;
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		close_collection(reader, event);
		break;
	case YAML_DOCUMENT_START_EVENT:
		reader->anchors = NULL;
		break;
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_STREAM_END_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		break;
	}
}

static int fail_with(struct yaml_reader *reader, const yaml_parser_t *parser)
{
	struct flmem_place place = {.line = (unsigned)parser->problem_mark.line + 1,
				    .column = (unsigned)parser->problem_mark.column + 1};

	return flmem_cursor_fail_at(reader->cursor, &place,
				    parser->problem ? parser->problem : "invalid YAML");
}

static int read_events(struct yaml_reader *reader, yaml_parser_t *parser)
{
	bool done = false;

	while (!done && !reader->cursor->code) {
		yaml_event_t event;

		if (!yaml_parser_parse(parser, &event))
			return fail_with(reader, parser);
		handle_event(reader, &event);
		done = event.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
	}
	return reader->cursor->code;
}

int flmem_yaml_read(struct flmem_cursor *cursor)
{
	struct flmem_document *document = cursor->document;
	struct yaml_reader reader = {.cursor = cursor};
	yaml_parser_t parser;
	int rc;

	reader.open = flmem_cursor_add(cursor, NULL, NULL, NULL);
	if (!reader.open)
		return cursor->code;
	document->root->kind = FLMEM_NODE_LIST;
	document->root->place.end = cursor->length;
	if (!yaml_parser_initialize(&parser))
		return flmem_error_nomem(cursor->err, "cannot read the document");
	if (flmem_cursor_looks_at(cursor, "\xef\xbb\xbf")) /* libyaml does not count it */
		flmem_cursor_step(cursor, 3);
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)cursor->text + cursor->at,
				     cursor->length - cursor->at);
	rc = read_events(&reader, &parser);
	yaml_parser_delete(&parser);
	if (!rc && document->root->first == document->root->last) {
		document->root = document->root->first;
		if (document->root)
			document->root->parent = NULL;
	}
	return rc;
}
