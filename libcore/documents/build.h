/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_BUILD_H
#define FLMEM_DOCUMENTS_BUILD_H

/* What the readers of the syntaxes share: growing the tree, and a cursor over the text. */

#include <stdbool.h>
#include <stddef.h>

#include "documents/document.h"

struct flmem_cursor {
	struct flmem_document *document;
	const char *text; /* ends in a NUL behind `length` */
	size_t length, at;
	size_t line_start;
	unsigned line;
	unsigned depth;
	bool passing; /* values are read and not kept; only numbers and lists of them */
	struct flmem_node passed;
	int code; /* of the error, once there is one */
	struct flmem_error *err;
};

/*
 * Adds a value behind the others of its parent (NULL: the root); `key` is kept as it is. NULL, with
 * the error and the cursor's code set, at a limit or when memory is out.
 */
struct flmem_node *flmem_cursor_add(struct flmem_cursor *cursor, struct flmem_node *parent,
				    const char *key, const struct flmem_place *key_place);

/* Memory that lives as long as the document; NULL, with the error and the code set, without it. */
void *flmem_cursor_take(struct flmem_cursor *cursor, size_t size);

/*
 * A copy that lives as long as the document; NULL, with the error and the code set, when memory is
 * out.
 */
char *flmem_cursor_keep(struct flmem_cursor *cursor, const char *bytes, size_t length);

/* An error at the cursor: "line 3, column 5: <text>". Returns FLMEM_EUSAGE. */
int flmem_cursor_fail(struct flmem_cursor *cursor, const char *text);

/* An error at a place that was passed already. */
int flmem_cursor_fail_at(struct flmem_cursor *cursor, const struct flmem_place *place,
			 const char *text);

static inline char flmem_cursor_peek(const struct flmem_cursor *cursor)
{
	return cursor->text[cursor->at];
}

static inline bool flmem_cursor_looks_at(const struct flmem_cursor *cursor, const char *word)
{
	size_t i = 0;

	while (word[i] && cursor->text[cursor->at + i] == word[i])
		i++;
	return !word[i];
}

/* Steps over `count` bytes, which are there, and counts lines. */
void flmem_cursor_step(struct flmem_cursor *cursor, size_t count);

/* The cursor as the start of a place; the end is for the caller to set. */
struct flmem_place flmem_cursor_place(const struct flmem_cursor *cursor);

/*
 * Steps behind the bracket of a list or map, of which the node becomes one. FLMEM_EUSAGE when
 * `depth_max` are open already; `depth` counts them, and is for the caller to take back.
 */
int flmem_cursor_open(struct flmem_cursor *cursor, struct flmem_node *node, unsigned depth_max);

/*
 * Reads a string in double quotes with JSON's escapes (RFC 8259, 7). Surrogates that are no pair,
 * and the NUL, become U+FFFD: strings end at a NUL here.
 */
int flmem_cursor_quoted(struct flmem_cursor *cursor, const char **ret_text);

/*
 * Reads a string between three quotes of a kind, over any number of lines, in which nothing is an
 * escape. Quotes in front of the last three belong to it.
 */
int flmem_cursor_triple(struct flmem_cursor *cursor, const char **ret_text);

/* Kind of a number as JSON writes it: INTEGER, REAL, or STRING for what is none. */
enum flmem_node_kind flmem_number_kind(const char *text, size_t length);

/* The readers: the cursor is at the start, the document has no root yet. */
int flmem_json_read(struct flmem_cursor *cursor);
int flmem_hocon_read(struct flmem_cursor *cursor);
int flmem_yaml_read(struct flmem_cursor *cursor);
int flmem_toml_read(struct flmem_cursor *cursor);

#endif
