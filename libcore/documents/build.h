/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_BUILD_H
#define FLMEM_DOCUMENTS_BUILD_H

/*
 * Shared by the readers of the syntaxes: functions that build the tree, and a cursor over the text.
 */

#include <stdbool.h>
#include <stddef.h>

#include "documents/document.h"

/* The state of a reader: its place in the text and the document that it builds. */
struct flmem_cursor {
	struct flmem_document *document;
	const char *text; /* has a NUL after `length` bytes */
	/* Offset of the next character, after `length` bytes the NUL. */
	size_t length, at;
	size_t line_start; /* offset of the line that `at` is in */
	unsigned line;	   /* number of that line, from 1 */
	unsigned depth;	   /* brackets that are open; each reader counts and limits them */
	bool passing; /* values are parsed but not kept; only for numbers and lists of numbers */
	struct flmem_node passed; /* stands for all values that are not kept while `passing` */
	int code;		  /* of the first error; 0: none */
	struct flmem_error *err;
};

/*
 * Appends a value to its parent (NULL: it becomes the root); `key` is not copied. Returns NULL at a
 * limit or when out of memory, with the error and the cursor's code set.
 */
struct flmem_node *flmem_cursor_add(struct flmem_cursor *cursor, struct flmem_node *parent,
				    const char *key, const struct flmem_place *key_place);

/*
 * Returns memory that is freed with the document; NULL when out of memory, with the error and the
 * cursor's code set.
 */
void *flmem_cursor_take(struct flmem_cursor *cursor, size_t size);

/*
 * Returns a copy that is freed with the document; NULL when out of memory, with the error and the
 * cursor's code set.
 */
char *flmem_cursor_keep(struct flmem_cursor *cursor, const char *bytes, size_t length);

/*
 * Sets an error at the cursor: "column 5: <text>", and `bad_line` of the document. Returns
 * FLMEM_EUSAGE.
 */
int flmem_cursor_fail(struct flmem_cursor *cursor, const char *text);

/* Sets an error at an earlier place, as flmem_cursor_fail() does. */
int flmem_cursor_fail_at(struct flmem_cursor *cursor, const struct flmem_place *place,
			 const char *text);

/* The next character; NUL at the end. */
static inline char flmem_cursor_peek(const struct flmem_cursor *cursor)
{
	return cursor->text[cursor->at];
}

/* Whether the text at the cursor begins with `word`. */
static inline bool flmem_cursor_looks_at(const struct flmem_cursor *cursor, const char *word)
{
	size_t i = 0;

	while (word[i] && cursor->text[cursor->at + i] == word[i])
		i++;
	return !word[i];
}

/* Advances by `count` bytes, which must exist, and counts lines. */
void flmem_cursor_step(struct flmem_cursor *cursor, size_t count);

/* Returns a place that starts at the cursor; the caller sets its end. */
struct flmem_place flmem_cursor_place(const struct flmem_cursor *cursor);

/*
 * Advances past the opening bracket, makes the node a list or map, and increments `depth`, which
 * the caller decrements. Returns FLMEM_EUSAGE if `depth_max` brackets are already open.
 */
int flmem_cursor_open(struct flmem_cursor *cursor, struct flmem_node *node, unsigned depth_max);

/*
 * Reads a string in double quotes with JSON's escapes (RFC 8259, 7). Unpaired surrogates and NUL
 * become U+FFFD: strings end at a NUL here.
 */
int flmem_cursor_quoted(struct flmem_cursor *cursor, const char **ret_text);

/*
 * Reads a string between three equal quotes, over any number of lines, in which nothing is an
 * escape. Further quotes directly before the closing ones belong to the string.
 */
int flmem_cursor_triple(struct flmem_cursor *cursor, const char **ret_text);

/* Kind of a number in JSON's spelling: INTEGER, REAL, or STRING for any other word. */
enum flmem_node_kind flmem_number_kind(const char *text, size_t length);

/*
 * Decimal digits of a whole number in another base; NULL for other words and beyond 64 bits.
 * `letters` are the prefixes of the syntax ("xob": 0x, 0o, 0b), with "0" if a leading zero is a
 * prefix, too (017 in YAML 1.1). The result is freed with the document.
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
