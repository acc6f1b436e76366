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
	bool unclosed;	  /* a string in three quotes that the text ends within */
};

/* A position in the source. */
struct flmem_python {
	const char *text; /* ends in a NUL */
	size_t at, line_start;
	size_t limit; /* offset at which the part ends; 0: at the NUL */
	unsigned line;
	int brackets; /* how many brackets are open */
};

/* Source in independent parts: a file is one, and each cell of a notebook. */
struct flmem_python_part {
	size_t at;     /* offset in the text; the part ends at a NUL */
	unsigned line; /* number of its first line */
};

/* Source of one or several parts; `text` ends in a NUL and is not owned. */
struct flmem_python_source {
	const char *text;
	const struct flmem_python_part *parts;
	size_t count;
};

/* A reader: the current word, and the word before it. */
struct flmem_python_reader {
	struct flmem_python python;	       /* position after `word` */
	struct flmem_python_word word, before; /* `before` of the first word is an END */
};

/* Longest dotted name that is read, with NUL; a longer one is read as "". */
#define FLMEM_PYTHON_DOTTED_MAX 256

/* Starts at the first word of a part. */
void flmem_python_start(struct flmem_python_reader *reader,
			const struct flmem_python_source *source, size_t part);

/* Goes on to the next word; stays at END. */
void flmem_python_advance(struct flmem_python_reader *reader);

/* Advances if the current word is the name or mark `text`. Returns whether it is. */
bool flmem_python_accept(struct flmem_python_reader *reader, const char *text);

/* Reads "a.b.c" into `out` and advances past it. */
void flmem_python_dotted(struct flmem_python_reader *reader, char out[FLMEM_PYTHON_DOTTED_MAX]);

/* Whether the word ends a statement: the end of a line or of the source, or a semicolon. */
bool flmem_python_ends(const struct flmem_python_word *word);

/* Whether the word ends an argument or another value in brackets. */
bool flmem_python_ends_value(const struct flmem_python_word *word);

/* Copies the text of a word. Returns false if the buffer is too small. */
bool flmem_python_word_text(const struct flmem_python_word *word,
			    char ret_text[FLMEM_PYTHON_DOTTED_MAX]);

/* Whether the word is "=" or begins an augmented assignment ("-=", "//="). */
bool flmem_python_assigns(const struct flmem_python_reader *reader);

/* Whether the current word is one with which a statement may begin. */
bool flmem_python_at_statement(const struct flmem_python_reader *reader);

/* Whether the current word is the "(" of a call of a result: f()(...), a[0](...). */
bool flmem_python_is_result_call(const struct flmem_python_reader *reader);

/* Whether a word begins a statement that only binds names: import, from, global, nonlocal. */
bool flmem_python_is_declaration(const struct flmem_python_word *word);

/* Whether calls of a built-in function are read: setattr, delattr, __import__, exec, eval. */
bool flmem_python_is_builtin(const char *name);

/* Whether Python takes a literal value as false: 0, "", None, False. */
bool flmem_python_is_false(const struct flmem_node *value);

/* Returns the next word; END at and after the end of the source. */
struct flmem_python_word flmem_python_next(struct flmem_python *python);

/* Whether the word is a name or a mark with this text. */
bool flmem_python_is(const struct flmem_python_word *word, const char *text);

/* The same for any of `texts`, which ends in NULL. */
bool flmem_python_is_any(const struct flmem_python_word *word, const char *const *texts);

#endif
