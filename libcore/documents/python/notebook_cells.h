/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_NOTEBOOK_CELLS_H
#define FLMEM_DOCUMENTS_NOTEBOOK_CELLS_H

/*
 * Turns the cells of a notebook, or the blocks of code in a Markdown file, into Python. Each is a
 * part that is read separately, since one that is not Python could hide the next. What IPython runs
 * itself (magic commands, commands of the shell) becomes the call of Python that does the same.
 */

#include "base/cleanup.h"
#include "documents/build.h"
#include "documents/python/notebook_aliases.h"
#include "documents/python/python.h"

/* A notebook whose cells are being added. */
struct flmem_notebook {
	struct flmem_cursor *cursor;
	struct flmem_buf code; /* the code of all cells, each ending in a NUL */
	struct flmem_python_part *parts;
	size_t part_count;
	unsigned *lines; /* line of the file for each line of the code */
	size_t line_count;
	bool shell;	/* the current cell is for a shell */
	bool unread;	/* the current cell writes a file of settings; it becomes one string */
	bool continues; /* the last line is a command that continues on the next line */
	struct flmem_buf expansions; /* code after the current command */
	struct flmem_notebook_aliases aliases;
	char quote; /* quote of the string in three quotes that the code so far ends in; or NUL */
};

void flmem_notebook_init(struct flmem_notebook *notebook, struct flmem_cursor *cursor);

void flmem_notebook_clear(struct flmem_notebook *notebook);

#define FLMEM_AUTO_NOTEBOOK FLMEM_AUTO(flmem_notebook_clear)

/* Whether a cell that begins with the text `first` is read; sets `shell` and `unread`. */
bool flmem_notebook_is_read(struct flmem_notebook *notebook, const char *first);

/* Begins and ends a cell. Return 0 or FLMEM_EFAILED when out of memory. */
int flmem_notebook_begin_cell(struct flmem_notebook *notebook);

/*
 * Adds lines of the cell, or a part of one. `line` is the number in the file. The byte after the
 * text is a NUL or a line end.
 */
int flmem_notebook_add_text(struct flmem_notebook *notebook, const char *text, size_t length,
			    unsigned line);

int flmem_notebook_end_cell(struct flmem_notebook *notebook);

/* Reads the cells into the cursor's document; they become its text. */
int flmem_notebook_read_cells(struct flmem_notebook *notebook);

/*
 * Whether the code at a place stands for a line that IPython runs itself. *ret_written is then the
 * place of what the cell has there: "nvflare simulator job", "%run job.py".
 */
bool flmem_notebook_written(const struct flmem_document *document, const struct flmem_place *place,
			    struct flmem_place *ret_written);

#endif
