/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/document.h"

#include <stdlib.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/text/text.h"
#include "documents/build.h"
#include "documents/python/python_encoding.h"

#define BLOCK_BYTES 16384U
#define MERGES_MAX  8

/* A block of memory that is freed with the document. */
struct flmem_document_block {
	struct flmem_document_block *next;
	size_t used, size;
	max_align_t bytes[];
};

static void *add_block(struct flmem_document *document, size_t size)
{
	struct flmem_document_block *block = document->blocks;
	size_t rounded = (size + sizeof(max_align_t) - 1) & ~(sizeof(max_align_t) - 1);
	void *taken;

	if (!block || block->size - block->used < rounded) {
		size_t room = rounded > BLOCK_BYTES ? rounded : BLOCK_BYTES;

		block = malloc(sizeof(*block) + room);
		if (!block)
			return NULL;
		*block = (struct flmem_document_block){.next = document->blocks, .size = room};
		document->blocks = block;
	}
	taken = (char *)block->bytes + block->used;
	block->used += rounded;
	return taken;
}

void flmem_document_clear(struct flmem_document *document)
{
	while (document->blocks) {
		struct flmem_document_block *next = document->blocks->next;

		free(document->blocks);
		document->blocks = next;
	}
	flmem_buf_clear(&document->text);
	free(document->lines);
	document->lines = NULL;
	document->line_count = 0;
	document->root = NULL;
	document->node_count = 0;
}

unsigned flmem_document_line(const struct flmem_document *document, unsigned line)
{
	return line && line <= document->line_count ? document->lines[line - 1] : line;
}

void *flmem_cursor_take(struct flmem_cursor *cursor, size_t size)
{
	void *taken = add_block(cursor->document, size);

	if (!taken)
		cursor->code = flmem_error_nomem(cursor->err, "cannot store the document");
	return taken;
}

struct flmem_node *flmem_cursor_add(struct flmem_cursor *cursor, struct flmem_node *parent,
				    const char *key, const struct flmem_place *key_place)
{
	struct flmem_document *document = cursor->document;
	struct flmem_node *node;

	if (cursor->passing)
		return &cursor->passed;
	if (document->node_count >= FLMEM_DOCUMENT_NODES_MAX) {
		flmem_cursor_fail(cursor, "too many values for a configuration");
		return NULL;
	}
	node = flmem_cursor_take(cursor, sizeof(*node));
	if (!node)
		return NULL;
	*node = (struct flmem_node){.key = key, .text = "", .parent = parent};
	node->place = flmem_cursor_place(cursor);
	if (key_place)
		node->key_place = *key_place;
	document->node_count++;
	if (!parent) {
		document->root = node;
		return node;
	}
	node->index = parent->last ? parent->last->index + 1 : 0;
	*(parent->last ? &parent->last->next : &parent->first) = node;
	parent->last = node;
	return node;
}

char *flmem_cursor_keep(struct flmem_cursor *cursor, const char *bytes, size_t length)
{
	char *copy = flmem_cursor_take(cursor, length + 1);

	if (!copy)
		return NULL;
	memcpy(copy, bytes, length);
	copy[length] = '\0';
	return copy;
}

/* Bytes before the first control character that no configuration holds. */
static size_t plain_length(const char *text)
{
	static const char controls[] =
		"\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0e\x0f\x10\x11"
		"\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f";

	return strcspn(text, controls);
}

/*
 * Replaces bytes of other encodings, as Latin-1 has them in comments, by "?". Shells, Docker and
 * systemd read bytes; what they and the rules compare is ASCII. YAML, JSON and HOCON have to be
 * UTF-8: the programs that read those refuse them, too.
 */
static void replace_other_bytes(struct flmem_buf *text)
{
	if (memchr(text->data, '\0', text->length)) /* UTF-16, or not a text */
		return;
	for (char *at = text->data; *(at += flmem_text_utf8_length(at)); at++)
		*at = '?';
}

static int check_encoding(struct flmem_cursor *cursor)
{
	size_t good = flmem_text_utf8_length(cursor->text), plain = plain_length(cursor->text);

	if (plain < good)
		good = plain;
	if (good == cursor->length)
		return 0;
	flmem_cursor_step(cursor, good);
	if (good == plain && cursor->text[good])
		return flmem_cursor_fail(cursor, "a control character");
	return flmem_cursor_fail(cursor, cursor->text[good] ? "not UTF-8" : "a binary file");
}

static int read_syntax(struct flmem_cursor *cursor)
{
	static int (*const readers[])(struct flmem_cursor *) = {
		[FLMEM_SYNTAX_JSON] = flmem_json_read,
		[FLMEM_SYNTAX_HOCON] = flmem_hocon_read,
		[FLMEM_SYNTAX_YAML] = flmem_yaml_read,
		[FLMEM_SYNTAX_TOML] = flmem_toml_read,
		[FLMEM_SYNTAX_PYTHON] = flmem_python_read,
		[FLMEM_SYNTAX_NOTEBOOK] = flmem_notebook_read,
		[FLMEM_SYNTAX_MARKDOWN] = flmem_markdown_read,
	};
	struct flmem_cursor start = *cursor;
	int rc;

	if (cursor->length > FLMEM_DOCUMENT_BYTES_MAX)
		return flmem_error_set(cursor->err, FLMEM_EUSAGE, 0,
				       "larger than %u MiB, the limit for a configuration",
				       FLMEM_DOCUMENT_BYTES_MAX >> 20);
	rc = check_encoding(cursor);
	if (rc)
		return rc;
	*cursor = start;
	if (cursor->document->syntax == FLMEM_SYNTAX_PLAIN)
		return 0;
	return readers[cursor->document->syntax](cursor);
}

int flmem_document_read(enum flmem_syntax syntax, struct flmem_buf *text,
			struct flmem_document *ret_document, struct flmem_error *err)
{
	struct flmem_cursor cursor = {.line = 1, .err = err};
	int rc;

	*ret_document = (struct flmem_document){.syntax = syntax, .text = *text};
	flmem_buf_init(text);
	if (syntax == FLMEM_SYNTAX_PYTHON) {
		rc = flmem_python_decode(&ret_document->text, err);
		if (rc)
			return rc;
	}
	if (syntax == FLMEM_SYNTAX_PLAIN && ret_document->text.data)
		replace_other_bytes(&ret_document->text);
	cursor.document = ret_document;
	cursor.text = ret_document->text.data;
	cursor.length = ret_document->text.length;
	return read_syntax(&cursor);
}

static const struct flmem_node *get_own(const struct flmem_node *map, const char *key)
{
	const struct flmem_node *found = NULL;

	if (!flmem_node_is_kind(map, FLMEM_NODE_MAP))
		return NULL;
	for (const struct flmem_node *n = map->first; n; n = n->next)
		if (strcmp(n->key, key) == 0)
			found = n;
	return found;
}

/*
 * Value of a key that a map takes over: "<<" of YAML holds a map, or a list of maps, whose keys
 * count if the map itself lacks them.
 */
static const struct flmem_node *get_merged(const struct flmem_node *map, const char *key,
					   int levels)
{
	const struct flmem_node *found = get_own(map, key), *merged;

	if (found || !levels)
		return found;
	merged = get_own(map, "<<");
	if (flmem_node_is_kind(merged, FLMEM_NODE_MAP))
		return get_merged(merged, key, levels - 1);
	for (merged = flmem_node_first(merged); merged && !found; merged = merged->next)
		found = get_own(merged, key);
	return found;
}

const struct flmem_node *flmem_node_get(const struct flmem_node *map, const char *key)
{
	return get_merged(map, key, MERGES_MAX);
}

const struct flmem_node *flmem_node_at(const struct flmem_node *map, const char *const *keys)
{
	for (; map && *keys; keys++)
		map = flmem_node_get(map, *keys);
	return map;
}

const struct flmem_node *flmem_node_first(const struct flmem_node *node)
{
	return node ? node->first : NULL;
}

const char *flmem_node_string(const struct flmem_node *node)
{
	return flmem_node_is_kind(node, FLMEM_NODE_STRING) ? node->text : NULL;
}

bool flmem_node_integer(const struct flmem_node *node, int64_t *ret_value)
{
	bool negative, sign;
	uint64_t magnitude;

	if (!flmem_node_is_kind(node, FLMEM_NODE_INTEGER))
		return false;
	negative = node->text[0] == '-';
	sign = negative || node->text[0] == '+';
	if (flmem_parse_u64(node->text + sign, 0, INT64_MAX, &magnitude, NULL))
		return false;
	*ret_value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
	return true;
}

bool flmem_node_is_true(const struct flmem_node *node)
{
	return flmem_node_is_kind(node, FLMEM_NODE_BOOL) && strcmp(node->text, "true") == 0;
}

bool flmem_node_is_kind(const struct flmem_node *node, enum flmem_node_kind kind)
{
	return node && node->kind == kind;
}

void flmem_node_path(const struct flmem_node *node, struct flmem_buf *buf)
{
	const struct flmem_node *way[FLMEM_DOCUMENT_DEPTH_MAX + 1];
	size_t count = 0;

	for (; node && node->parent && count < FLMEM_ARRAY_SIZE(way); node = node->parent)
		way[count++] = node;
	while (count--) {
		if (!way[count]->key)
			flmem_buf_printf(buf, "[%zu]", way[count]->index);
		else
			flmem_buf_printf(buf, "%s%s", buf->length ? "." : "", way[count]->key);
	}
}
