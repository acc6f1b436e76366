/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads blocks of code between fences in Markdown. Quarto, R Markdown and MyST run blocks whose
 * language is in braces ("{python}", "{code-cell} ipython3"); Jupytext runs those of a file whose
 * header names it. In any other file blocks are only shown, and those in Python are read.
 */
#include <string.h>
#include <strings.h>

#include "base/text/text.h"
#include "documents/python/notebook_cells.h"

#define FENCE_MIN    3
#define LANGUAGE_MAX 32
#define ELIDED	     "**elided,\n"

struct markdown {
	struct flmem_notebook *notebook;
	const char *at; /* start of the next line */
	unsigned line;	/* number of that line */
	bool run;	/* the blocks are cells that are run */
	bool braces;	/* only blocks whose language is in braces are cells */
};

/* The line that begins a block. */
struct fence {
	char mark;
	size_t count, indent;
	char language[LANGUAGE_MAX]; /* without braces; "" if there is none */
	bool braces;
};

static size_t markdown_line(const char *line)
{
	return strcspn(line, "\n");
}

static void next_line(struct markdown *markdown)
{
	markdown->at += markdown_line(markdown->at);
	markdown->at += *markdown->at == '\n';
	markdown->line++;
}

/*
 * Reads the line that begins a block: "```python", "~~~ {python, echo=FALSE}", "```{code-cell}
 * ipython3". Returns false for any other line.
 */
static bool read_fence(const char *line, struct fence *ret_fence)
{
	const char *p = line + strspn(line, " \t");
	struct fence fence = {.mark = *p, .indent = (size_t)(p - line)};
	size_t length;

	if (*p != '`' && *p != '~')
		return false;
	while (*p == fence.mark) {
		fence.count++;
		p++;
	}
	if (fence.count < FENCE_MIN ||
	    (fence.mark == '`' && memchr(p, '`', markdown_line(p)))) /* code within a line */
		return false;
	p += strspn(p, " \t");
	fence.braces = p[0] == '{' && p[1] != '.' && p[1] != '#';
	p += *p == '{';
	p += *p == '.'; /* "{.python}" of Pandoc, which only colours the code */
	length = strcspn(p, " \t\r\n,}");
	if (length < sizeof(fence.language))
		memcpy(fence.language, p, length);
	*ret_fence = fence;
	return true;
}

static bool ends_block(const char *line, const struct fence *fence)
{
	const char *p = line + strspn(line, " \t");
	size_t count = 0;

	for (; *p == fence->mark; p++)
		count++;
	p += strspn(p, " \t\r");
	return count >= fence->count && (*p == '\n' || !*p);
}

static bool is_language(const char *language, const char *const *names)
{
	for (; *names; names++)
		if (strcasecmp(language, *names) == 0)
			return true;
	return false;
}

static bool is_python_block(const char *language)
{
	static const char *const names[] = {"python",	"python3",   "py", "ipython",
					    "ipython3", "code-cell", NULL};

	return is_language(language, names);
}

static bool is_shell_block(const char *language)
{
	static const char *const names[] = {"bash", "sh", "shell", "zsh", NULL};

	return is_language(language, names);
}

/* Whether a block without a language imports something, so that it is Python. */
static bool shows_import(const char *line, const struct fence *fence)
{
	for (; *line && !ends_block(line, fence); line += *line == '\n') {
		const char *word = line + strspn(line, " \t>");

		if (flmem_text_starts(word, "import ") ||
		    (flmem_text_starts(word, "from ") &&
		     memmem(word, markdown_line(word), " import ", 8)))
			return true;
		line += markdown_line(line);
	}
	return false;
}

static bool is_read_block(const struct markdown *markdown, const struct fence *fence)
{
	if (markdown->run && markdown->braces && !fence->braces)
		return false;
	if (!*fence->language)
		return !markdown->run && shows_import(markdown->at, fence);
	return is_python_block(fence->language) ||
	       (markdown->run && is_shell_block(fence->language));
}

/*
 * Whether a line is "...", by which a text leaves out arguments of a call or a part of the code. It
 * is read as an argument that is not known.
 */
static bool leaves_out(const char *text, size_t length)
{
	size_t blanks = strspn(text, " \t"), marks;

	if (blanks + 3 > length || strncmp(text + blanks, "...", 3) != 0)
		return false;
	marks = strspn(text + blanks + 3, ", \t\r\n");
	return blanks + 3 + marks >= length;
}

/* Adds a line of a block, without the indent of its fence and without the prompt of Python. */
static int add_block_line(struct markdown *markdown, const struct fence *fence, bool prompts)
{
	const char *text = markdown->at;
	size_t length = markdown_line(text) + (text[markdown_line(text)] == '\n'), indent = 0;

	while (indent < fence->indent && strchr(" \t", text[indent]) && text[indent])
		indent++;
	if (prompts) {
		indent += strspn(text + indent, " \t");
		if (flmem_text_starts(text + indent, ">>> ") ||
		    flmem_text_starts(text + indent, "... "))
			indent += 4;
		else
			indent = markdown_line(text); /* output of Python, without a prompt */
	}
	if (!markdown->run && leaves_out(text + indent, length - indent))
		return flmem_notebook_add_text(markdown->notebook, ELIDED, strlen(ELIDED),
					       markdown->line);
	return flmem_notebook_add_text(markdown->notebook, text + indent, length - indent,
				       markdown->line);
}

/* Adds the lines up to the closing fence. */
static int add_code_block(struct markdown *markdown, const struct fence *fence)
{
	struct flmem_notebook *notebook = markdown->notebook;
	const char *first = markdown->at + strspn(markdown->at, " \t\r\n");
	bool prompts = flmem_text_starts(first, ">>> ");
	bool read = is_read_block(markdown, fence) && flmem_notebook_is_read(notebook, first);
	int rc = read ? flmem_notebook_begin_cell(notebook) : 0;

	notebook->shell |= is_shell_block(fence->language);
	for (; !rc && *markdown->at && !ends_block(markdown->at, fence); next_line(markdown))
		if (read)
			rc = add_block_line(markdown, fence, prompts);
	if (*markdown->at)
		next_line(markdown);
	return rc || !read ? rc : flmem_notebook_end_cell(notebook);
}

/* Whether a header begins, with a line "---". */
static bool begins_header(const char *text)
{
	return flmem_text_starts(text, "---") && strchr("\r\n", text[3 + strspn(text + 3, "- \t")]);
}

/* Whether the header between two lines "---" makes the file a notebook. */
static bool has_notebook_header(const char *text)
{
	const char *end;

	if (!begins_header(text))
		return false;
	end = strstr(text + 3, "\n---");
	return end && (memmem(text, (size_t)(end - text), "jupytext:", 9) ||
		       memmem(text, (size_t)(end - text), "kernelspec:", 11));
}

/* Whether any block has its language in braces. */
static bool has_braces(const char *text)
{
	struct fence fence;

	for (; *text; text += *text == '\n') {
		if (read_fence(text, &fence) && fence.braces &&
		    (is_python_block(fence.language) || is_shell_block(fence.language)))
			return true;
		text += markdown_line(text);
	}
	return false;
}

int flmem_markdown_read(struct flmem_cursor *cursor)
{
	FLMEM_AUTO_NOTEBOOK struct flmem_notebook notebook = {0};
	struct markdown markdown = {.notebook = &notebook, .at = cursor->text, .line = 1};
	struct fence fence;
	int rc = 0;

	flmem_notebook_init(&notebook, cursor);
	markdown.braces = has_braces(cursor->text);
	markdown.run = markdown.braces || has_notebook_header(cursor->text);
	while (*markdown.at && !rc) {
		bool opens = read_fence(markdown.at, &fence);

		next_line(&markdown);
		if (opens)
			rc = add_code_block(&markdown, &fence);
	}
	cursor->document->syntax = FLMEM_SYNTAX_NOTEBOOK;
	cursor->document->shown = !markdown.run;
	return rc ? rc : flmem_notebook_read_cells(&notebook);
}
