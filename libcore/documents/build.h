/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_BUILD_H
#define FLMEM_DOCUMENTS_BUILD_H

/*
 * Shared by the readers of the syntaxes: functions that build the tree, and a cursor over the text.
 */

#include <stdbool.h>
#include <stddef.h>

#include "documents/document.h"

struct flmem_cursor {
	struct flmem_document *document;
	const char *text; /* has a NUL after `length` bytes */
	size_t length, at;
	size_t line_start;
	unsigned line;
	unsigned depth;
	bool passing; /* values are parsed but not kept; only for numbers and lists of numbers */
	struct flmem_node passed;
	int code; /* of the error, if any */
	struct flmem_error *err;
};

/*
 * Appends a value to its parent (NULL: the root); `key` is not copied. NULL, with the error and the
 * cursor's code set, at a limit or when out of memory.
 */
struct flmem_node *flmem_cursor_add(struct flmem_cursor *cursor, struct flmem_node *parent,
				    const char *key, const struct flmem_place *key_place);

/*
 * Memory with the lifetime of the document; NULL, with the error and the code set, when out of
 * memory.
 */
void *flmem_cursor_take(struct flmem_cursor *cursor, size_t size);

/*
 * A copy with the lifetime of the document; NULL, with the error and the code set, when out of
 * memory.
 */
char *flmem_cursor_keep(struct flmem_cursor *cursor, const char *bytes, size_t length);

/* An error at the cursor: "column 5: <text>"; `bad_line` has its line. Returns FLMEM_EUSAGE. */
int flmem_cursor_fail(struct flmem_cursor *cursor, const char *text);

/* An error at an earlier place. */
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

/* Advances by `count` bytes, which must exist, and counts lines. */
void flmem_cursor_step(struct flmem_cursor *cursor, size_t count);

/* A place that starts at the cursor; the caller sets its end. */
struct flmem_place flmem_cursor_place(const struct flmem_cursor *cursor);

/*
 * Advances past the opening bracket and makes the node a list or map. FLMEM_EUSAGE when `depth_max`
 * are already open; `depth` counts them, and the caller decrements it.
 */
int flmem_cursor_open(struct flmem_cursor *cursor, struct flmem_node *node, unsigned depth_max);

/*
 * Reads a string in double quotes with JSON's escapes (RFC 8259, 7). Unpaired surrogates and NUL
 * become U+FFFD: strings end at a NUL here.
 */
int flmem_cursor_quoted(struct flmem_cursor *cursor, const char **ret_text);

/*
 * Reads a string between three quotes of a kind, over any number of lines, in which nothing is an
 * escape. Quotes in front of the last three belong to it.
 */
int flmem_cursor_triple(struct flmem_cursor *cursor, const char **ret_text);

/* Kind of a number as JSON writes it: INTEGER, REAL, or STRING for any other word. */
enum flmem_node_kind flmem_number_kind(const char *text, size_t length);

/*
 * A whole number in another base, as decimal digits; NULL for other words, and beyond 64 bits.
 * `letters` are those of its prefixes that the syntax has ("xob": 0x, 0o, 0b), and "0" where a
 * leading zero is one, too (017 in YAML 1.1).
 */
const char *flmem_number_in_base(struct flmem_cursor *cursor, const char *text,
				 const char *letters);

/* The readers: the cursor is at the start, the document has no root yet. */
int flmem_json_read(struct flmem_cursor *cursor);
int flmem_hocon_read(struct flmem_cursor *cursor);
int flmem_yaml_read(struct flmem_cursor *cursor);
int flmem_toml_read(struct flmem_cursor *cursor);
int flmem_python_read(struct flmem_cursor *cursor);
int flmem_notebook_read(struct flmem_cursor *cursor);
int flmem_markdown_read(struct flmem_cursor *cursor);

#endif
