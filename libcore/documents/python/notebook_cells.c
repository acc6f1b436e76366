/* SPDX-License-Identifier: Apache-2.0 */
#include "documents/python/notebook_cells.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "documents/python/notebook_expansions.h"
#include "documents/python/notebook_kinds.h"
#include "documents/python/python_calls.h"
#include "documents/python/python_lazy.h"
#include "documents/python/python_unicode.h"

#define QUOTES	"\"\"\""
#define COMMAND "_os.system(r" QUOTES /* call that replaces a command; no cell has these names */
#define UNREAD	"_flmem.unread(r" QUOTES
#define WRITTEN " # " /* mark after which the line of the cell is kept */

static int notebook_nomem(struct flmem_notebook *notebook)
{
	return notebook->cursor->code = flmem_error_nomem(notebook->cursor->err,
							  "cannot store the code of the notebook");
}

void flmem_notebook_init(struct flmem_notebook *notebook, struct flmem_cursor *cursor)
{
	*notebook = (struct flmem_notebook){.cursor = cursor};
	flmem_buf_init(&notebook->code);
	flmem_buf_init(&notebook->expansions);
}

void flmem_notebook_clear(struct flmem_notebook *notebook)
{
	flmem_buf_clear(&notebook->code);
	flmem_buf_clear(&notebook->expansions);
	free(notebook->parts);
	free(notebook->lines);
}

static int add_cell_line(struct flmem_notebook *notebook, unsigned line)
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

/* Whether a line begins with a magic command; *ret_rest is the text after it. */
static bool begins_with(const char *line, const char *magic, const char **ret_rest)
{
	size_t length = strlen(magic);

	*ret_rest = line + length;
	return strncmp(line, magic, length) == 0 && strchr(" \t", line[length]);
}

/* Adds text to a raw string. Characters that would end it are replaced or padded. */
static void add_raw(struct flmem_buf *code, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		bool ends = length - i >= 3 && strncmp(text + i, QUOTES, 3) == 0;

		flmem_buf_putc(code, ends ? '\'' : text[i]);
	}
	if (length && strchr("\"\\", text[length - 1]))
		flmem_buf_putc(code, ' ');
}

/* Whether the line continues on the next one; if so, removes the mark at its end. */
static bool drop_continuation(const char *line, size_t *length)
{
	size_t end = *length;

	while (end && strchr(" \t\r", line[end - 1]))
		end--;
	if (!end || line[end - 1] != '\\')
		return false;
	*length = end - 1;
	return true;
}

/* Ends the call that stands for a command. Its expressions follow. */
static void end_command(struct flmem_notebook *notebook)
{
	flmem_buf_puts(&notebook->code, QUOTES ")");
	flmem_buf_append(&notebook->code, notebook->expansions.data, notebook->expansions.length);
	flmem_buf_clear(&notebook->expansions);
}

/* Adds the next line of a command that continues. */
static void continue_command(struct flmem_notebook *notebook, const char *line, size_t length)
{
	notebook->continues = drop_continuation(line, &length);
	add_raw(&notebook->code, line, length);
	if (!notebook->shell)
		flmem_notebook_expansions_add(&notebook->expansions, line, length);
	if (!notebook->continues)
		end_command(notebook);
}

/* Adds a command of the shell as a call of Python. */
static void add_command(struct flmem_notebook *notebook, const char *line, size_t length)
{
	if (!length)
		return;
	flmem_buf_puts(&notebook->code, "import os as _os; " COMMAND);
	continue_command(notebook, line, length);
}

/* Adds %run and the like, which run another file here, and the commands %sx and %pip. */
static bool add_outer(struct flmem_notebook *notebook, const char *line, size_t length)
{
	struct flmem_buf *code = &notebook->code;
	static const char *const files[] = {"%run", "%load", "%loadpy"};
	static const char *const commands[] = {"%sx", "%system", "%shell"};
	static const char *const tools[] = {"%pip", "%conda"};
	const char *rest;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(files); i++)
		if (begins_with(line, files[i], &rest)) {
			flmem_buf_printf(code,
					 "import runpy as _runpy; _runpy.run_path(file)" WRITTEN
					 "%.*s",
					 (int)length, line);
			return true;
		}
	if (length >= 7 && strncmp(line, "%dotenv", 7) == 0 &&
	    (length == 7 || strchr(" \t\r", line[7]))) {
		flmem_buf_printf(code,
				 "import dotenv as _dotenv; _dotenv.load_dotenv()" WRITTEN "%.*s",
				 (int)length, line);
		return true;
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(commands); i++)
		if (begins_with(line, commands[i], &rest)) {
			add_command(notebook, rest, length - (size_t)(rest - line));
			return true;
		}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(tools); i++)
		if (begins_with(line, tools[i], &rest)) {
			add_command(notebook, line + 1, length - 1);
			return true;
		}
	return false;
}

/* Adds %env NAME=VALUE. $OTHER and {other} in the value stand for values of Python. */
static void add_environment(struct flmem_buf *code, const char *line, size_t length)
{
	const char *end = line + length, *equals;

	line += strspn(line, " \t");
	equals = line + strcspn(line, "=\n ");
	if (equals >= end || memchr(line, '\'', (size_t)(equals - line)))
		return;
	flmem_buf_printf(code, "import os as _os; _os.environ['%.*s'] = ", (int)(equals - line),
			 line);
	for (equals++; equals < end && strchr(" \t", *equals);)
		equals++;
	if (memchr(equals, '$', (size_t)(end - equals)) ||
	    memchr(equals, '{', (size_t)(end - equals))) {
		flmem_buf_puts(code, "value");
		return;
	}
	flmem_buf_puts(code, "r" QUOTES);
	add_raw(code, equals, (size_t)(end - equals));
	flmem_buf_puts(code, QUOTES);
}

/* The line after %time and its options ("-n1 !command"); NULL if it is Python. */
static const char *inner_line(const char *rest, const char *end)
{
	rest += strspn(rest, " \t");
	while (rest < end && *rest == '-') {
		rest += strcspn(rest, " \t\n");
		rest += strspn(rest, " \t0123456789");
	}
	return rest < end && strchr("!%", *rest) ? rest : NULL;
}

static void add_line(struct flmem_notebook *notebook, const char *line, size_t length);

/* Adds the command of %alias NAME COMMAND, which runs where a line begins with the name. */
static bool add_alias(struct flmem_notebook *notebook, const char *line, size_t length)
{
	const char *rest, *end = line + length;

	if (!begins_with(line, "%alias", &rest))
		return false;
	rest += strspn(rest, " \t");
	rest += strcspn(rest, " \t\n");
	if (rest < end)
		add_command(notebook, rest, (size_t)(end - rest));
	return true;
}

/* Adds what follows %time, %prun and the like, which run Python, and %env. */
static void add_known_magic(struct flmem_notebook *notebook, const char *line, size_t length)
{
	static const char *const runs[] = {"%time",  "%timeit", "%prun",  "%memit",  "%mprun",
					   "%lprun", "%px",	"%debug", "%scalene"};
	const char *rest, *inner;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(runs); i++)
		if (begins_with(line, runs[i], &rest)) {
			inner = inner_line(rest, line + length);
			if (inner)
				add_line(notebook, inner, length - (size_t)(inner - line));
			else
				flmem_buf_append(&notebook->code, rest,
						 length - (size_t)(rest - line));
			return;
		}
	/* "%%bash" may follow blank lines, or be within a cell of %%time. */
	notebook->shell |= flmem_notebook_is_shell(line);
	if (add_outer(notebook, line, length) || add_alias(notebook, line, length))
		return;
	if (begins_with(line, "%env", &rest) || begins_with(line, "%set_env", &rest))
		add_environment(&notebook->code, rest, length - (size_t)(rest - line));
	else if (notebook->aliases.programs && flmem_notebook_is_program(line + 1, length - 1))
		add_command(notebook, line + 1, length - 1);
}

/* Writes a line with the magic command in place of its alias. */
static void put_unaliased(const char *line, size_t length, const char *other, struct flmem_buf *out)
{
	size_t name = strspn(line, "%"), rest = strcspn(line, " \t\r\n");

	flmem_buf_printf(out, "%.*s%s", (int)name, line, other);
	if (rest < length)
		flmem_buf_append(out, line + rest, length - rest);
}

static void add_magic(struct flmem_notebook *notebook, const char *line, size_t length)
{
	const char *other = flmem_notebook_alias_of(&notebook->aliases, line);
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	if (flmem_notebook_alias_note(&notebook->aliases, line, length))
		return;
	if (other)
		put_unaliased(line, length, other, &text);
	if (text.length)
		add_known_magic(notebook, text.data, text.length);
	else
		add_known_magic(notebook, line, length);
	if (!notebook->continues && !notebook->shell)
		flmem_notebook_expansions_add(&notebook->code, line, length);
}

/* Whether IPython runs a line as a command of the shell; `kind` is its first character. */
static bool is_command_line(const struct flmem_notebook *notebook, char kind, const char *line,
			    size_t length)
{
	if (!kind)
		return false;
	if (notebook->shell)
		return kind != '%';
	return kind != '!' && kind != '%' && notebook->aliases.programs &&
	       flmem_notebook_is_program(line, length);
}

/* Adds one line of a cell. IPython runs some lines itself. */
static void add_line(struct flmem_notebook *notebook, const char *line, size_t length)
{
	size_t blanks = notebook->quote ? 0 : flmem_notebook_assigned_command(line, length);
	char kind;

	if (!blanks)
		blanks = strspn(line, " \t");
	if (blanks > length)
		blanks = length;
	/* Within a string the line is text. */
	kind = notebook->quote || blanks == length ? '\0' : line[blanks];
	if (notebook->unread) {
		if (!notebook->continues)
			flmem_buf_puts(&notebook->code, "import _flmem; " UNREAD);
		notebook->continues = true;
		add_raw(&notebook->code, line, length);
	} else if (notebook->continues) {
		continue_command(notebook, line, length);
	} else if (is_command_line(notebook, kind, line + blanks, length - blanks)) {
		add_command(notebook, line + blanks, length - blanks);
	} else if (kind == '!') {
		blanks += line[blanks + 1] == '!'; /* the command after "!!" */
		add_command(notebook, line + blanks + 1, length - blanks - 1);
	} else if (kind == '%') {
		flmem_buf_append(&notebook->code, line, strspn(line, " \t"));
		add_magic(notebook, line + blanks, length - blanks);
	} else {
		flmem_buf_append(&notebook->code, line, length);
	}
}

bool flmem_notebook_is_read(struct flmem_notebook *notebook, const char *first)
{
	const char *magic = first + strspn(first, " \t\r\n");
	const char *other = flmem_text_starts(magic, "%%")
				    ? flmem_notebook_alias_of(&notebook->aliases, magic)
				    : NULL;
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	if (other)
		put_unaliased(magic, strlen(magic), other, &text);
	if (text.length)
		first = text.data;
	notebook->shell = flmem_notebook_is_shell(first);
	notebook->unread = flmem_notebook_writes_settings(first);
	return notebook->shell || notebook->unread || flmem_notebook_is_python(first);
}

static bool is_three(const char *text, const char *end, char quote)
{
	return end - text >= 3 && text[0] == quote && text[1] == quote && text[2] == quote;
}

/* The place after the quote that ends a string, or its line end; `at` is after the first one. */
static const char *skip_single(const char *at, const char *end, char quote)
{
	for (; at < end && *at != '\n'; at++)
		if (*at == quote)
			return at + 1;
		else if (*at == '\\' && at + 1 < end)
			at++;
	return at;
}

static const char *skip_cell_comment(const char *at, const char *end)
{
	const char *newline = memchr(at, '\n', (size_t)(end - at));

	return newline ? newline : end;
}

/* Notes whether the code from an offset on ends within a string of three quotes. */
static void note_quotes(struct flmem_notebook *notebook, size_t from)
{
	const char *at = notebook->code.data ? notebook->code.data + from : NULL;
	const char *end = at ? notebook->code.data + notebook->code.length : NULL;

	while (at < end) {
		char c = *at, open = notebook->quote;

		if (c == '\\') {
			at += at + 1 < end ? 2 : 1;
		} else if (strchr("\"'", c) && c && is_three(at, end, open ? open : c)) {
			notebook->quote = open ? '\0' : c;
			at += 3;
		} else if (!open && c == '#') {
			at = skip_cell_comment(at, end);
		} else if (!open && (c == '"' || c == '\'')) {
			at = skip_single(at + 1, end, c);
		} else {
			at++;
		}
	}
}

static bool is_at_line_start(const struct flmem_buf *code)
{
	return !code->length || code->data[code->length - 1] == '\n' ||
	       !code->data[code->length - 1];
}

int flmem_notebook_add_text(struct flmem_notebook *notebook, const char *text, size_t length,
			    unsigned line)
{
	const char *end = text + length;
	int rc = 0;

	while (text < end && !rc) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t count = (size_t)((newline ? newline : end) - text);
		size_t before = notebook->code.length;

		if (is_at_line_start(&notebook->code)) {
			rc = add_cell_line(notebook, line);
			add_line(notebook, text, count);
		} else {
			flmem_buf_append(&notebook->code, text, count);
		}
		note_quotes(notebook, before);
		text += count;
		if (newline) {
			flmem_buf_putc(&notebook->code, '\n');
			text++;
		}
	}
	return rc;
}

int flmem_notebook_begin_cell(struct flmem_notebook *notebook)
{
	struct flmem_python_part *grown = notebook->parts;

	if (!(notebook->part_count & (notebook->part_count - 1)))
		grown = reallocarray(grown, notebook->part_count ? notebook->part_count * 2 : 1,
				     sizeof(*grown));
	if (!grown)
		return notebook_nomem(notebook);
	notebook->parts = grown;
	notebook->quote = '\0';
	grown[notebook->part_count++] = (struct flmem_python_part){
		.at = notebook->code.length, .line = (unsigned)notebook->line_count + 1};
	return 0;
}

/* The NUL later becomes a line end; if the code ends in one, that makes an empty line. */
int flmem_notebook_end_cell(struct flmem_notebook *notebook)
{
	const struct flmem_buf *code = &notebook->code;
	size_t start = notebook->parts[notebook->part_count - 1].at;
	size_t count = notebook->line_count;
	int rc = 0;

	if (notebook->continues)
		end_command(notebook);
	notebook->continues = false;
	if (code->length == start || (!code->failed && code->data[code->length - 1] == '\n'))
		rc = add_cell_line(notebook, count ? notebook->lines[count - 1] : 1);
	flmem_buf_putc(&notebook->code, '\0');
	return rc;
}

static void translate_lines(const struct flmem_document *document, struct flmem_node *node)
{
	node->place.line = flmem_document_line(document, node->place.line);
	node->key_place.line = flmem_document_line(document, node->key_place.line);
	for (struct flmem_node *n = node->first; n && n->parent == node; n = n->next)
		translate_lines(document, n);
}

/* Joins the cells, each of which was read separately, to one text for rules that search it. */
static void join_cells(struct flmem_buf *text)
{
	for (size_t i = 0; i < text->length; i++)
		if (!text->data[i])
			text->data[i] = '\n';
}

int flmem_notebook_read_cells(struct flmem_notebook *notebook)
{
	struct flmem_document *document = notebook->cursor->document;
	struct flmem_cursor cursor = {.line = 1, .err = notebook->cursor->err};
	struct flmem_python_source source = {.parts = notebook->parts,
					     .count = notebook->part_count};
	int rc;

	flmem_buf_putc(&notebook->code, '\0');
	if (notebook->code.failed || notebook->expansions.failed)
		return notebook_nomem(notebook);
	flmem_buf_clear(&document->text);
	document->text = notebook->code;
	flmem_buf_init(&notebook->code);
	document->lines = notebook->lines;
	document->line_count = notebook->line_count;
	notebook->lines = NULL;
	cursor.document = document;
	source.text = cursor.text = document->text.data;
	cursor.length = document->text.length;
	rc = flmem_python_check_ends(&cursor, &source);
	if (!rc) {
		flmem_python_fold_lazy(document->text.data, &source);
		flmem_python_fold_letters(document->text.data, &source);
		rc = flmem_python_calls_read(&cursor, &source);
	}
	document->bad_line = flmem_document_line(document, document->bad_line);
	if (!rc && document->root)
		translate_lines(document, document->root);
	join_cells(&document->text);
	return rc;
}

/* The place up to the end of the line, or of the string that the text is in. */
static struct flmem_place line_at(const char *text, size_t start, const char *end)
{
	const char *found = strstr(text + start, end);
	struct flmem_place place = {.start = start,
				    .end = found ? (size_t)(found - text)
						 : start + strlen(text + start)};

	while (place.start < place.end && strchr(" \t\n", text[place.start]))
		place.start++;
	while (place.end > place.start && strchr(" \t\r\n", text[place.end - 1]))
		place.end--;
	return place;
}

bool flmem_notebook_written(const struct flmem_document *document, const struct flmem_place *place,
			    struct flmem_place *ret_written)
{
	static const char *const others[] = {"_runpy.", "_dotenv."};
	const char *text = document->text.data, *at = text + place->start;

	if (document->syntax != FLMEM_SYNTAX_NOTEBOOK)
		return false;
	if (flmem_text_starts(at, COMMAND)) {
		*ret_written = line_at(text, place->start + strlen(COMMAND), QUOTES);
		return true;
	}
	if (flmem_text_starts(at, UNREAD)) {
		*ret_written = line_at(text, place->start + strlen(UNREAD), "\n");
		return true;
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(others); i++) {
		const char *mark = flmem_text_starts(at, others[i]) ? strstr(at, WRITTEN) : NULL;

		if (!mark)
			continue;
		*ret_written = line_at(text, (size_t)(mark - text) + strlen(WRITTEN), "\n");
		return true;
	}
	return false;
}
