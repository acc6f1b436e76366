/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads Jupyter notebooks: the code of their cells (notebook_cells.h). Line numbers are those of
 * the file. Since nbformat 4 a notebook holds one list of cells; before, each of its worksheets
 * held one.
 */
#include <string.h>

#include "base/text/text.h"
#include "documents/python/notebook_cells.h"

/* The source of a cell: "source" since nbformat 4, "input" in 2 and 3, "code" in 1. */
static const struct flmem_node *source_of(const struct flmem_node *cell)
{
	static const char *const keys[] = {"source", "input", "code"};
	const struct flmem_node *source = NULL;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(keys) && !source; i++)
		source = flmem_node_get(cell, keys[i]);
	return source;
}

/*
 * Whether a kernel is a shell. Cells for other kernels are read as Python, which finds no imports
 * in them.
 */
static bool is_shell_name(const char *language)
{
	static const char *const names[] = {"bash", "sh", "zsh", "shell", NULL};

	return language && flmem_text_is_one_of(language, names);
}

/* The language of a notebook, or of a cell before nbformat 4; NULL if it is not stated. */
static const char *language_of(const struct flmem_node *root)
{
	const char *name =
		flmem_node_string(FLMEM_NODE_AT(root, "metadata", "language_info", "name"));

	return name ? name
		    : flmem_node_string(FLMEM_NODE_AT(root, "metadata", "kernelspec", "language"));
}

/* Adds a cell. Its source is a string, or a list of lines. */
static int add_cell(struct flmem_notebook *notebook, const struct flmem_node *cell, bool shell)
{
	const char *type = flmem_node_string(flmem_node_get(cell, "cell_type"));
	const char *language = flmem_node_string(flmem_node_get(cell, "language"));
	const struct flmem_node *source = source_of(cell), *n = flmem_node_first(source);
	const char *first = flmem_node_string(source);
	int rc;

	if (!type || strcmp(type, "code") != 0)
		return 0;
	if (!first)
		first = flmem_node_string(n);
	if (!first || !flmem_notebook_is_read(notebook, first))
		return 0;
	notebook->shell |= shell || is_shell_name(language);
	rc = flmem_notebook_begin_cell(notebook);
	if (!rc && !n)
		rc = flmem_notebook_add_text(notebook, source->text, strlen(source->text),
					     source->place.line);
	for (; n && !rc; n = n->next)
		if (flmem_node_string(n))
			rc = flmem_notebook_add_text(notebook, n->text, strlen(n->text),
						     n->place.line);
	return rc ? rc : flmem_notebook_end_cell(notebook);
}

static int add_cells(struct flmem_notebook *notebook, const struct flmem_node *list, bool shell)
{
	int rc = 0;

	for (const struct flmem_node *n = list->first; n && !rc; n = n->next)
		rc = add_cell(notebook, n, shell);
	return rc;
}

static int add_all(struct flmem_notebook *notebook, const struct flmem_node *root)
{
	const struct flmem_node *cells = flmem_node_get(root, "cells");
	const struct flmem_node *sheets = flmem_node_get(root, "worksheets"), *n;
	bool shell = is_shell_name(language_of(root)), found = false;
	int rc = 0;

	if (flmem_node_is_kind(cells, FLMEM_NODE_LIST))
		return add_cells(notebook, cells, shell);
	n = flmem_node_is_kind(sheets, FLMEM_NODE_LIST) ? sheets->first : NULL;
	for (; n && !rc; n = n->next) {
		cells = flmem_node_get(n, "cells");
		if (!flmem_node_is_kind(cells, FLMEM_NODE_LIST))
			continue;
		found = true;
		rc = add_cells(notebook, cells, shell);
	}
	return rc || found
		       ? rc
		       : flmem_cursor_fail(notebook->cursor,
					   "a notebook without cells (nbformat 1 to 4 is read)");
}

int flmem_notebook_read(struct flmem_cursor *cursor)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document json = {0};
	FLMEM_AUTO_NOTEBOOK struct flmem_notebook notebook = {0};
	int rc;

	flmem_notebook_init(&notebook, cursor);
	rc = flmem_document_read(FLMEM_SYNTAX_JSON, &cursor->document->text, &json, cursor->err);
	cursor->document->bad_line = json.bad_line;
	if (!rc)
		rc = add_all(&notebook, json.root);
	return rc ? rc : flmem_notebook_read_cells(&notebook);
}
