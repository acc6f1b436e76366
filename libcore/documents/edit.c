/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/edit.h"

#include <stdlib.h>
#include <string.h>

/* How the entries of a map are written, by the example of its last one. */
struct entry_style {
	const char *newline;
	const char *quote;     /* quote around keys */
	const char *separator; /* between key and value, `separator_length` bytes */
	size_t separator_length;
};

static char byte_at(const struct flmem_document *document, size_t offset)
{
	return offset < document->text.length ? document->text.data[offset] : '\0';
}

static bool set_edit(struct flmem_buf *text, size_t start, size_t end, struct flmem_edit *ret_edit)
{
	char *taken = flmem_buf_take(text);

	if (!taken)
		return false;
	*ret_edit = (struct flmem_edit){.start = start, .end = end, .text = taken};
	return true;
}

/* Whether a document is Python. Its tree has too little to check a change with. */
static bool is_code(const struct flmem_document *document)
{
	return flmem_syntax_is_python(document->syntax);
}

bool flmem_edit_replace(const struct flmem_document *document, const struct flmem_node *node,
			const char *value, struct flmem_edit *ret_edit)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	const enum flmem_syntax syntax = document->syntax;
	char first = byte_at(document, node->place.start);

	if (!node->parent || is_code(document))
		return false;
	/* Maps of HOCON and TOML may follow a key without a separator, or be on separate lines. */
	if (node->kind == FLMEM_NODE_MAP &&
	    (syntax == FLMEM_SYNTAX_HOCON || syntax == FLMEM_SYNTAX_TOML))
		return false;
	if (node->place.start == node->place.end ||
	    (syntax == FLMEM_SYNTAX_YAML && strchr("&*!|>", first)))
		return false;
	/* A block scalar at the end contains the line end that the next entry needs. */
	if (document->text.data[node->place.end - 1] == '\n')
		return false;
	flmem_buf_puts(&text, value);
	return set_edit(&text, node->place.start, node->place.end, ret_edit);
}

/*
 * The line end to use at a place, as lines of a file may end differently: that of its line; on the
 * last line, that of the line above.
 */
static const char *newline_at(const struct flmem_document *document, size_t offset)
{
	const char *text = document->text.data, *end = strchr(text + offset, '\n');

	if (!end)
		end = memrchr(text, '\n', offset);
	return end && end > text && end[-1] == '\r' ? "\r\n" : "\n";
}

static struct entry_style style_of(const struct flmem_document *document,
				   const struct flmem_node *map)
{
	static const char *const separators[] = {
		[FLMEM_SYNTAX_JSON] = ": ",
		[FLMEM_SYNTAX_HOCON] = " = ",
		[FLMEM_SYNTAX_YAML] = ": ",
		[FLMEM_SYNTAX_TOML] = " = ",
	};
	const struct flmem_node *last = map->last;
	size_t end = last ? last->place.end : map->place.end;
	struct entry_style style = {
		.newline = newline_at(document, end - (end > 0)),
		.quote = document->syntax == FLMEM_SYNTAX_JSON ? "\"" : "",
		.separator = separators[document->syntax],
	};

	style.separator_length = strlen(style.separator);
	if (document->syntax == FLMEM_SYNTAX_JSON && last) {
		style.separator = document->text.data + last->key_place.end;
		style.separator_length = last->place.start - last->key_place.end;
	}
	return style;
}

/* Writes "key": value; for a dotted key, with a map around the value for each further word. */
static void put_entry(const struct entry_style *style, const char *key, const char *value,
		      struct flmem_buf *text)
{
	const char *dot = strchr(key, '.');
	size_t length = dot ? (size_t)(dot - key) : strlen(key);

	flmem_buf_puts(text, style->quote);
	flmem_buf_append(text, key, length);
	flmem_buf_puts(text, style->quote);
	flmem_buf_append(text, style->separator, style->separator_length);
	if (!dot) {
		flmem_buf_puts(text, value);
		return;
	}
	flmem_buf_putc(text, '{');
	put_entry(style, dot + 1, value, text);
	flmem_buf_putc(text, '}');
}

/* Offset of the start of the line that holds a byte. */
static size_t edit_line_start(const struct flmem_document *document, size_t offset)
{
	while (offset && document->text.data[offset - 1] != '\n')
		offset--;
	return offset;
}

/* Length of the blanks at the start of the line that holds a byte. */
static size_t indent_of(const struct flmem_document *document, size_t offset,
			const char **ret_blanks)
{
	*ret_blanks = document->text.data + edit_line_start(document, offset);
	return strspn(*ret_blanks, " \t");
}

static bool begins_its_line(const struct flmem_document *document, size_t offset)
{
	const char *blanks;

	return indent_of(document, offset, &blanks) == offset - edit_line_start(document, offset);
}

/*
 * Offset where the line of a value ends, if only blanks, a comma or a comment follow the value;
 * else SIZE_MAX.
 */
static size_t end_of_line(const struct flmem_document *document, size_t offset)
{
	const char *p = document->text.data + offset;

	p += strspn(p, document->syntax == FLMEM_SYNTAX_HOCON ? " \t," : " \t");
	if (*p == '#' || (p[0] == '/' && p[1] == '/'))
		p += strcspn(p, "\r\n");
	if (*p && *p != '\n' && !(p[0] == '\r' && p[1] == '\n'))
		return SIZE_MAX;
	return (size_t)(p - document->text.data);
}

/*
 * Fills {}: on new lines if the file has several lines, else in place. TOML 1.0 allows the latter
 * only.
 */
static bool fill_empty(const struct flmem_document *document, const struct flmem_node *map,
		       const char *key, const char *value, struct flmem_edit *ret_edit)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct entry_style style = style_of(document, map);
	bool lines = document->syntax != FLMEM_SYNTAX_YAML &&
		     document->syntax != FLMEM_SYNTAX_TOML && map->parent &&
		     map->place.line != document->root->place.line;
	const char *blanks, *outer = "";
	size_t indent = indent_of(document, map->place.start, &blanks);
	size_t before = map->parent && map->parent->parent
				? indent_of(document, map->parent->place.start, &outer)
				: 0;

	flmem_buf_putc(&text, '{');
	if (lines) {
		flmem_buf_puts(&text, style.newline);
		flmem_buf_append(&text, blanks, indent);
		flmem_buf_append(&text, blanks, indent > before ? indent - before : 0);
	}
	put_entry(&style, key, value, &text);
	if (lines) {
		flmem_buf_puts(&text, style.newline);
		flmem_buf_append(&text, blanks, indent);
	}
	flmem_buf_putc(&text, '}');
	return set_edit(&text, map->place.start, map->place.end, ret_edit);
}

/* Appends after the last entry in braces, on a separate line if that entry has one. */
static bool append_in_braces(const struct flmem_document *document, const struct flmem_node *map,
			     const char *key, const char *value, struct flmem_edit *ret_edit)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct entry_style style = style_of(document, map);
	const struct flmem_node *last = map->last;
	bool own_line = begins_its_line(document, last->key_place.start);
	size_t at = last->place.end, line_end = end_of_line(document, at);
	const char *blanks;
	size_t indent = indent_of(document, last->key_place.start, &blanks);

	if (document->syntax == FLMEM_SYNTAX_HOCON && own_line && line_end != SIZE_MAX) {
		at = line_end; /* after the comment; HOCON needs no comma there */
		own_line = true;
	} else {
		flmem_buf_putc(&text, ',');
	}
	if (own_line) {
		flmem_buf_puts(&text, style.newline);
		flmem_buf_append(&text, blanks, indent);
	} else {
		flmem_buf_putc(&text, ' ');
	}
	put_entry(&style, key, value, &text);
	return set_edit(&text, at, at, ret_edit);
}

/*
 * Whether a map ends in a block scalar that ends with the file, without a line end: it would
 * include any text that is appended.
 */
static bool ends_in_open_text(const struct flmem_document *document, const struct flmem_node *node)
{
	const char *text = document->text.data;

	while (node->last && node->last->parent == node)
		node = node->last;
	return document->text.length && text[document->text.length - 1] != '\n' &&
	       memchr(text + node->place.start, '\n', node->place.end - node->place.start);
}

/* Whether a carriage return is alone: YAML 1.1 (5.4) ends a line there, this reader does not. */
static bool has_lone_return(const struct flmem_document *document)
{
	const char *p = document->text.data;

	while ((p = strchr(p, '\r')))
		if (*++p != '\n')
			return true;
	return false;
}

/* Appends below the last entry of a YAML block. */
static bool append_in_block(const struct flmem_document *document, const struct flmem_node *map,
			    const char *key, const char *value, struct flmem_edit *ret_edit)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct entry_style style = style_of(document, map);
	const struct flmem_node *last = map->last;
	size_t end = last->place.end, at;
	/* Its last value is a text of several lines. */
	bool below = end && document->text.data[end - 1] == '\n';

	at = below ? end : end_of_line(document, end);
	if (at == SIZE_MAX || last->key_place.start >= end || ends_in_open_text(document, last) ||
	    has_lone_return(document))
		return false;
	if (!below)
		flmem_buf_puts(&text, style.newline);
	for (unsigned column = 1; column < last->key_place.column; column++)
		flmem_buf_putc(&text, ' ');
	put_entry(&style, key, value, &text);
	if (below)
		flmem_buf_puts(&text, style.newline);
	return set_edit(&text, at, at, ret_edit);
}

bool flmem_edit_insert(const struct flmem_document *document, const struct flmem_node *map,
		       const char *key, const char *value, struct flmem_edit *ret_edit)
{
	char first = byte_at(document, map->place.start);

	if (!flmem_node_is_kind(map, FLMEM_NODE_MAP) || is_code(document))
		return false;
	if (first == '{' && byte_at(document, map->place.end - 1) == '}')
		return map->first ? append_in_braces(document, map, key, value, ret_edit)
				  : fill_empty(document, map, key, value, ret_edit);
	/* The node of an alias shows the children of its anchor, so nothing is appended there. */
	if (document->syntax == FLMEM_SYNTAX_YAML && map->last && map->last->parent == map)
		return append_in_block(document, map, key, value, ret_edit);
	return false;
}

static int compare_start(const void *a, const void *b)
{
	const struct flmem_edit *x = *(const struct flmem_edit *const *)a;
	const struct flmem_edit *y = *(const struct flmem_edit *const *)b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

size_t flmem_edits_select(const struct flmem_edit **edits, size_t count)
{
	const struct flmem_edit *last = NULL;
	size_t kept = 0;

	qsort(edits, count, sizeof(*edits), compare_start);
	for (size_t i = 0; i < count; i++) {
		if (last && (edits[i]->start < last->end || edits[i]->start == last->start))
			continue;
		last = edits[i];
		edits[kept++] = last;
	}
	return kept;
}

char *flmem_edits_apply(const char *text, const struct flmem_edit *const *edits, size_t count)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		flmem_buf_append(&out, text + at, edits[i]->start - at);
		flmem_buf_puts(&out, edits[i]->text);
		at = edits[i]->end;
	}
	flmem_buf_puts(&out, text + at);
	return flmem_buf_take(&out);
}
