/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jupyter notebooks (nbformat 4): the code of their cells is read as Python, each cell by itself,
 * as one that is not Python could otherwise hide the next. Lines are those of the file.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "documents/build.h"
#include "documents/python_calls.h"

struct notebook {
	struct flmem_cursor *cursor;
	struct flmem_buf code; /* the cells, each with a NUL at its end */
	struct flmem_python_part *parts;
	size_t part_count;
	unsigned *lines; /* in the file, by line of the code */
	size_t line_count;
	bool shell; /* the cell is one for the shell */
};

static int notebook_nomem(struct notebook *notebook)
{
	return notebook->cursor->code = flmem_error_nomem(notebook->cursor->err,
							  "cannot hold the code of the notebook");
}

/* Cells whose first line is one of these magic commands hold Python. */
static bool is_python_cell(const char *code)
{
	static const char *const magics[] = {"time",	"timeit", "capture",   "prun",
					     "python3", "python", "writefile", "file"};
	const char *p = code + strspn(code, " \t\r\n");
	size_t length;

	if (strncmp(p, "%%", 2) != 0)
		return true;
	p += 2;
	length = strcspn(p, " \t\r\n");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(magics); i++) {
		if (strlen(magics[i]) != length || strncmp(p, magics[i], length) != 0)
			continue;
		if (!flmem_text_ends(magics[i], "file"))
			return true;
		p += strcspn(p, "\r\n");
		return strncmp(p - 3, ".py", 3) == 0;
	}
	return false;
}

static bool is_shell_cell(const char *code)
{
	static const char *const magics[] = {"%%bash", "%%sh", "%%script", "%%system", "%%!"};
	size_t line;

	code += strspn(code, " \t\r\n");
	line = strcspn(code, "\r\n");
	if ((flmem_text_starts(code, "%%writefile") || flmem_text_starts(code, "%%file")) &&
	    line > 3 && strncmp(code + line - 3, ".sh", 3) == 0)
		return true;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(magics); i++)
		if (flmem_text_starts(code, magics[i]))
			return true;
	return false;
}

static int add_cell_line(struct notebook *notebook, unsigned line)
{
	unsigned *grown = notebook->lines;

	if (!(notebook->line_count & (notebook->line_count - 1)))
		grown = reallocarray(grown, notebook->line_count ? notebook->line_count * 2 : 1,
				     sizeof(*grown));
	if (!grown)
		return notebook_nomem(notebook);
	notebook->lines = grown;
	grown[notebook->line_count++] = line;
	return 0;
}

/* Whether a line begins with a magic command; `*ret_rest` is what follows it. */
static bool begins_with(const char *line, const char *magic, const char **ret_rest)
{
	size_t length = strlen(magic);

	*ret_rest = line + length;
	return strncmp(line, magic, length) == 0 && strchr(" \t", line[length]);
}

/* A command of the shell, as Python would start it. */
static void add_command(struct flmem_buf *code, const char *line, size_t length)
{
	if (!length || memmem(line, length, "\"\"\"", 3) || line[length - 1] == '\\' ||
	    line[length - 1] == '"')
		return;
	flmem_buf_printf(code, "import os as _os; _os.system(r\"\"\"%.*s\"\"\")", (int)length,
			 line);
}

/* %run and the like run other files in this process; %sx and %pip are commands. */
static bool add_outer(struct flmem_buf *code, const char *line, size_t length)
{
	static const char *const files[] = {"%run", "%load", "%loadpy"};
	static const char *const commands[] = {"%sx", "%system"}, *const tools[] = {"%pip",
										    "%conda"};
	const char *rest;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(files); i++)
		if (begins_with(line, files[i], &rest)) {
			flmem_buf_puts(code, "import runpy as _runpy; _runpy.run_path(file)");
			return true;
		}
	if (length >= 7 && strncmp(line, "%dotenv", 7) == 0 &&
	    (length == 7 || strchr(" \t\r", line[7]))) {
		flmem_buf_puts(code, "import dotenv as _dotenv; _dotenv.load_dotenv()");
		return true;
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(commands); i++)
		if (begins_with(line, commands[i], &rest)) {
			add_command(code, rest, length - (size_t)(rest - line));
			return true;
		}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(tools); i++)
		if (begins_with(line, tools[i], &rest)) {
			add_command(code, line + 1, length - 1);
			return true;
		}
	return false;
}

/* %time, %prun and the like run Python; %env sets a variable of the process. */
static void add_magic(struct flmem_buf *code, const char *line, size_t length)
{
	static const char *const runs[] = {"%time", "%timeit", "%prun", "%memit", "%mprun"};
	const char *rest, *equals;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(runs); i++)
		if (begins_with(line, runs[i], &rest)) {
			flmem_buf_append(code, rest, length - (size_t)(rest - line));
			return;
		}
	if (add_outer(code, line, length))
		return;
	if (!begins_with(line, "%env", &rest) && !begins_with(line, "%set_env", &rest))
		return;
	rest += strspn(rest, " \t");
	equals = rest + strcspn(rest, "=\n ");
	if (*equals != '\n' && *equals && !memchr(rest, '\'', (size_t)(equals - rest)))
		flmem_buf_printf(code, "import os as _os; _os.environ['%.*s'] = value",
				 (int)(equals - rest), rest);
}

/* One line of a cell, of which IPython runs some itself. */
static void add_line(struct notebook *notebook, const char *line, size_t length)
{
	size_t blanks = strspn(line, " \t");
	size_t named =
		strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789 \t");

	/* "output = !command" */
	if (line[named] == '=' && strchr("!%", line[named + 1 + strspn(line + named + 1, " \t")]))
		blanks = named + 1 + strspn(line + named + 1, " \t");
	if (blanks > length)
		blanks = length;
	if (notebook->shell && blanks < length && line[blanks] != '%') {
		add_command(&notebook->code, line + blanks, length - blanks);
	} else if (blanks < length && line[blanks] == '!') {
		blanks += line[blanks + 1] == '!'; /* "!!command" */
		add_command(&notebook->code, line + blanks + 1, length - blanks - 1);
	} else if (blanks < length && line[blanks] == '%') {
		flmem_buf_append(&notebook->code, line, strspn(line, " \t"));
		add_magic(&notebook->code, line + blanks, length - blanks);
	} else {
		flmem_buf_append(&notebook->code, line, length);
	}
}

/* One string of a cell. */
static int add_text(struct notebook *notebook, const struct flmem_node *node)
{
	const char *p = node->text;
	int rc = 0;

	while (*p && !rc) {
		size_t length = strcspn(p, "\n");
		bool starts = !notebook->code.length ||
			      notebook->code.data[notebook->code.length - 1] == '\n' ||
			      !notebook->code.data[notebook->code.length - 1];

		if (starts) {
			rc = add_cell_line(notebook, node->place.line);
			add_line(notebook, p, length);
		} else {
			flmem_buf_append(&notebook->code, p, length);
		}
		p += length;
		if (*p == '\n') {
			flmem_buf_putc(&notebook->code, '\n');
			p++;
		}
	}
	return rc;
}

static int add_part(struct notebook *notebook)
{
	struct flmem_python_part *grown = notebook->parts;

	if (!(notebook->part_count & (notebook->part_count - 1)))
		grown = reallocarray(grown, notebook->part_count ? notebook->part_count * 2 : 1,
				     sizeof(*grown));
	if (!grown)
		return notebook_nomem(notebook);
	notebook->parts = grown;
	grown[notebook->part_count++] = (struct flmem_python_part){
		.at = notebook->code.length, .line = (unsigned)notebook->line_count + 1};
	return 0;
}

/* The source of a cell is a string, or a list of lines. */
static int add_cell(struct notebook *notebook, const struct flmem_node *cell)
{
	const char *type = flmem_node_string(flmem_node_get(cell, "cell_type"));
	const struct flmem_node *source = flmem_node_get(cell, "source"), *n;
	const char *first = flmem_node_string(source);
	int rc;

	if (!type || strcmp(type, "code") != 0)
		return 0;
	n = flmem_node_first(source);
	if (!first)
		first = flmem_node_string(n);
	if (!first)
		return 0;
	notebook->shell = is_shell_cell(first);
	if (!notebook->shell && !is_python_cell(first))
		return 0;
	rc = add_part(notebook);
	if (!rc && !n)
		rc = add_text(notebook, source);
	for (; n && !rc; n = n->next)
		if (flmem_node_string(n))
			rc = add_text(notebook, n);
	flmem_buf_putc(&notebook->code, '\0');
	return rc;
}

static int add_cells(struct notebook *notebook, const struct flmem_node *root)
{
	const struct flmem_node *cells = flmem_node_get(root, "cells"), *cell;
	int rc = 0;

	if (!flmem_node_is_kind(cells, FLMEM_NODE_LIST))
		return flmem_cursor_fail(notebook->cursor,
					 "a notebook without cells (nbformat 4 is read)");
	for (cell = cells->first; cell && !rc; cell = cell->next)
		rc = add_cell(notebook, cell);
	flmem_buf_putc(&notebook->code, '\0');
	return rc ? rc : notebook->code.failed ? notebook_nomem(notebook) : 0;
}

static unsigned line_of(const struct notebook *notebook, unsigned line)
{
	return line && line <= notebook->line_count ? notebook->lines[line - 1] : line;
}

static void translate_lines(const struct notebook *notebook, struct flmem_node *node)
{
	node->place.line = line_of(notebook, node->place.line);
	node->key_place.line = line_of(notebook, node->key_place.line);
	for (struct flmem_node *n = node->first; n && n->parent == node; n = n->next)
		translate_lines(notebook, n);
}

/* Rules search the text of all cells, which have been read one by one up to here. */
static void join_cells(struct flmem_buf *text)
{
	for (size_t i = 0; i < text->length; i++)
		if (!text->data[i])
			text->data[i] = '\n';
}

/* The code takes the place of the notebook's text. */
static int read_code(struct notebook *notebook)
{
	struct flmem_document *document = notebook->cursor->document;
	struct flmem_cursor cursor = {.line = 1, .err = notebook->cursor->err};
	struct flmem_python_source source = {.parts = notebook->parts,
					     .count = notebook->part_count};
	int rc;

	document->text = notebook->code;
	flmem_buf_init(&notebook->code);
	cursor.document = document;
	source.text = cursor.text = document->text.data;
	cursor.length = document->text.length;
	rc = flmem_python_calls_read(&cursor, &source);
	document->bad_line = line_of(notebook, document->bad_line);
	if (!rc && document->root)
		translate_lines(notebook, document->root);
	join_cells(&document->text);
	return rc;
}

int flmem_notebook_read(struct flmem_cursor *cursor)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document json = {0};
	struct notebook notebook = {.cursor = cursor};
	int rc;

	flmem_buf_init(&notebook.code);
	rc = flmem_document_read(FLMEM_SYNTAX_JSON, &cursor->document->text, &json, cursor->err);
	cursor->document->bad_line = json.bad_line;
	if (!rc)
		rc = add_cells(&notebook, json.root);
	if (!rc)
		rc = read_code(&notebook);
	flmem_buf_clear(&notebook.code);
	free(notebook.parts);
	free(notebook.lines);
	return rc;
}
