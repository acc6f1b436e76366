/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_H
#define FLMEM_DOCUMENTS_PYTHON_H

/*
 * Python source as a sequence of words, and a reader with one word of lookahead over it: enough to
 * find imports and calls with their arguments. Comments are skipped, a string is one word whatever
 * it contains. Nothing is allocated, and nothing of the source is executed.
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
	bool unclosed;	  /* a string in three quotes that the text ends in */
};

struct flmem_python {
	const char *text; /* ends in a NUL */
	size_t at, line_start;
	size_t limit; /* offset where the part ends; 0: at the NUL */
	unsigned line;
	int brackets; /* that are open */
};

/* Source in independent parts: a file is one, and each cell of a notebook. */
struct flmem_python_part {
	size_t at;     /* offset in the text; the part ends at a NUL */
	unsigned line; /* number of its first line */
};

struct flmem_python_source {
	const char *text;
	const struct flmem_python_part *parts;
	size_t count;
};

struct flmem_python_reader {
	struct flmem_python python;
	struct flmem_python_word word, before; /* `before` of the first word: an END */
};

/* Longest dotted name that is read; longer ones are read as "". */
#define FLMEM_PYTHON_DOTTED_MAX 256

void flmem_python_start(struct flmem_python_reader *reader,
			const struct flmem_python_source *source, size_t part);

void flmem_python_advance(struct flmem_python_reader *reader);

/* Whether the word is `text`, which is then read. */
bool flmem_python_accept(struct flmem_python_reader *reader, const char *text);

/* Reads "a.b.c" into `out`; the reader is then after it. */
void flmem_python_dotted(struct flmem_python_reader *reader, char out[FLMEM_PYTHON_DOTTED_MAX]);

/* Whether the word ends a statement: the end of a line or of the source, or a semicolon. */
bool flmem_python_ends(const struct flmem_python_word *word);

/* Whether the word ends an argument or another value in brackets. */
bool flmem_python_ends_value(const struct flmem_python_word *word);

/* Copies the word as text; false if the buffer is too small. */
bool flmem_python_word_text(const struct flmem_python_word *word,
			    char ret_text[FLMEM_PYTHON_DOTTED_MAX]);

/* Whether the word is "=" or begins an augmented assignment ("-=", "//="). */
bool flmem_python_assigns(const struct flmem_python_reader *reader);

/* Whether a statement may begin at the reader's word. */
bool flmem_python_at_statement(const struct flmem_python_reader *reader);

/* At the "(" of a call whose callee is the result of a call or an entry: f()(...), a[0](...). */
bool flmem_python_is_result_call(const struct flmem_python_reader *reader);

/* Whether the word begins a statement that only declares names. */
bool flmem_python_is_declaration(const struct flmem_python_word *word);

/* A built-in function whose calls are read: setattr, delattr, __import__, exec, eval and others. */
bool flmem_python_is_builtin(const char *name);

/* Whether Python takes a literal value as false. */
bool flmem_python_is_false(const struct flmem_node *value);

/* The next word; after the end of the source always END. */
struct flmem_python_word flmem_python_next(struct flmem_python *python);

/* Whether the word is a name or a mark with this text. */
bool flmem_python_is(const struct flmem_python_word *word, const char *text);

/* The same for any of `texts`, which ends in NULL. */
bool flmem_python_is_any(const struct flmem_python_word *word, const char *const *texts);

#endif
