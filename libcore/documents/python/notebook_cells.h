/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_NOTEBOOK_CELLS_H
#define FLMEM_DOCUMENTS_NOTEBOOK_CELLS_H

/*
 * The cells of a notebook, or the blocks of code in a Markdown file, as Python. Each is read by
 * itself, as one that is not Python could otherwise hide the next. What IPython runs itself (magic
 * commands, commands of the shell) becomes the call of Python that does the same.
 */

#include "base/cleanup.h"
#include "documents/build.h"
#include "documents/python/notebook_aliases.h"
#include "documents/python/python.h"

struct flmem_notebook {
	struct flmem_cursor *cursor;
	struct flmem_buf code; /* the cells, each with a NUL at its end */
	struct flmem_python_part *parts;
	size_t part_count;
	unsigned *lines; /* in the file, by line of the code */
	size_t line_count;
	bool shell;	/* the cell is one for the shell */
	bool unread;	/* it writes a file of settings, which is one string to the reader */
	bool continues; /* its last line is a command that goes on in the next one */
	struct flmem_notebook_aliases aliases;
	char quote; /* of a string in three quotes that the code ends in, or NUL */
};

void flmem_notebook_init(struct flmem_notebook *notebook, struct flmem_cursor *cursor);

void flmem_notebook_clear(struct flmem_notebook *notebook);

#define FLMEM_AUTO_NOTEBOOK FLMEM_AUTO(flmem_notebook_clear)

/* Whether a cell that begins with this text is code that is read; sets `shell`. */
bool flmem_notebook_is_read(struct flmem_notebook *notebook, const char *first);

int flmem_notebook_begin_cell(struct flmem_notebook *notebook);

/* Lines of the cell, or parts of one; `line` is that of the file. A NUL or a line end follows. */
int flmem_notebook_add_text(struct flmem_notebook *notebook, const char *text, size_t length,
			    unsigned line);

int flmem_notebook_end_cell(struct flmem_notebook *notebook);

/* Reads the cells into the cursor's document, whose text they become. */
int flmem_notebook_read_cells(struct flmem_notebook *notebook);

/*
 * Whether the code at a place stands for a line that IPython runs itself; then the place of what
 * the cell has there: "nvflare simulator job", "%run job.py".
 */
bool flmem_notebook_written(const struct flmem_document *document, const struct flmem_place *place,
			    struct flmem_place *ret_written);

#endif
