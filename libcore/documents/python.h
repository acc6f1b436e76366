/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_H
#define FLMEM_DOCUMENTS_PYTHON_H

/*
 * Python source as a sequence of words: enough to find imports and calls with their arguments.
 * Comments are skipped, a string is one word whatever it contains. Nothing is allocated.
 */

#include <stdbool.h>
#include <stddef.h>

#include "documents/document.h"

enum flmem_python_kind {
	FLMEM_PYTHON_END,
	FLMEM_PYTHON_NAME,   /* keywords too */
	FLMEM_PYTHON_STRING, /* with its prefix and quotes */
	FLMEM_PYTHON_NUMBER,
	FLMEM_PYTHON_MARK, /* one character of an operator or bracket */
	FLMEM_PYTHON_LINE, /* the end of a line outside of brackets */
};

struct flmem_python_word {
	enum flmem_python_kind kind;
	struct flmem_place place;
	const char *text; /* `place.end - place.start` bytes */
};

struct flmem_python {
	const char *text; /* ends in a NUL */
	size_t at, line_start;
	unsigned line;
	int brackets; /* that are open */
};

void flmem_python_init(struct flmem_python *python, const char *text);

/* The next word; at the end always END. */
struct flmem_python_word flmem_python_next(struct flmem_python *python);

/* Whether the word is a name or a mark with this text. */
bool flmem_python_is(const struct flmem_python_word *word, const char *text);

/* Whether the word is a plain string ('text' or "text", any prefix) of this content. */
bool flmem_python_is_string(const struct flmem_python_word *word, const char *content);

#endif
