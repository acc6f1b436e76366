/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_PYTHON_NOTEBOOK_ALIASES_H
#define FLMEM_DOCUMENTS_PYTHON_NOTEBOOK_ALIASES_H

/*
 * Names that a notebook gives to magic commands, and programs that it makes available as commands
 * of a cell.
 */

#include <stdbool.h>
#include <stddef.h>

#define FLMEM_NOTEBOOK_ALIASES	   8
#define FLMEM_NOTEBOOK_ALIAS_BYTES 32

struct flmem_notebook_aliases {
	/* %alias_magic NAME OTHER; only the first ones are kept */
	struct {
		char name[FLMEM_NOTEBOOK_ALIAS_BYTES], other[FLMEM_NOTEBOOK_ALIAS_BYTES];
	} rows[FLMEM_NOTEBOOK_ALIASES];
	size_t count;
	bool programs; /* %rehashx: each program in PATH is a command of a cell */
};

/* Reads %alias_magic and %rehashx. Returns false for any other line. */
bool flmem_notebook_alias_note(struct flmem_notebook_aliases *aliases, const char *line,
			       size_t length);

/*
 * The magic command for which "%NAME" or "%%NAME" at the start of a line is an alias; NULL: none.
 */
const char *flmem_notebook_alias_of(const struct flmem_notebook_aliases *aliases, const char *line);

/* Whether a line is "PROGRAM WORD", which is not Python. */
bool flmem_notebook_is_program(const char *line, size_t length);

#endif
