/* SPDX-License-Identifier: Apache-2.0 */
/* Finds strings in Python source that may be commands, and skips those that are only shown. */
#include "frameworks/launch/launch_calls.h"

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "frameworks/launch/launch_programs.h"

#define TEXT_MAX    16384 /* bytes of one string that is examined */
#define LINE_MAX    512
#define WORDS_AHEAD 16
/* In larger files a command is judged by its line alone, without the marks of a kit. */
#define ALL_MAX (1U << 20)

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

/* Functions whose strings are shown to people or compared, so that they start nothing. */
static bool only_shows(const struct flmem_python_word *name)
{
	static const char *const names[] = {
		"print",
		/* Stands for a file that a notebook cell writes. */
		"unread", "debug", "info", "warning", "warn", "error", "critical", "exception",
		"log", "log_info", "log_error", "log_debug", "log_warning", "echo", "secho",
		"pprint", "Markdown", "HTML", "add_argument", "add_parser", "exit", "skip",
		"skipif", "ArgumentParser", "fail", "startswith", "endswith", "RuntimeError",
		"ValueError", "parametrize", "option", "search", "match", "compile",
		"add_argument_group", "Field", "Path", "getenv", "which", NULL};

	return name->kind == FLMEM_PYTHON_NAME && flmem_python_is_any(name, names);
}

/* Whether the string is compared: 'TEXT' in names, x == 'TEXT'. */
static bool is_compared(const struct flmem_launch_texts *texts)
{
	const char *all = texts->input->document.text.data;
	size_t at = texts->reader.word.place.start;
	struct flmem_python_reader ahead = texts->reader;

	while (at && strchr(" \t", all[at - 1]))
		at--;
	if (at >= 2 && all[at - 1] == '=' && strchr("=!", all[at - 2]))
		return true;
	flmem_python_advance(&ahead);
	return ahead.word.kind == FLMEM_PYTHON_NAME &&
	       (flmem_python_is(&ahead.word, "in") || flmem_python_is(&ahead.word, "not"));
}

bool flmem_launch_text_is_shown(const struct flmem_launch_texts *texts)
{
	if (texts->reader.word.kind == FLMEM_PYTHON_STRING && is_compared(texts))
		return true;
	return texts->raises || (texts->open && texts->open <= FLMEM_LAUNCH_BRACKETS_MAX &&
				 texts->shown[texts->open - 1]);
}

bool flmem_launch_text_in_environment(const struct flmem_launch_texts *texts)
{
	return texts->open && texts->open <= FLMEM_LAUNCH_BRACKETS_MAX &&
	       texts->environ[texts->open - 1];
}

/* Whether an environment is built in the bracket: env_vars = {, "env": {, env=dict( */
static bool holds_environment(const struct flmem_launch_texts *texts)
{
	const char *all = texts->input->document.text.data;
	size_t at = texts->reader.word.place.start, end;

	if (flmem_python_is(&texts->reader.before, "dict"))
		at = texts->reader.before.place.start;
	while (at && strchr(" \t", all[at - 1]))
		at--;
	if (!at || !strchr("=:", all[at - 1]))
		return false;
	at--;
	while (at && strchr(" \t\"'", all[at - 1]))
		at--;
	for (end = at; at && all[at - 1] && strchr(NAME_CHARACTERS, all[at - 1]); at--)
		if (end - at >= 3 && strncasecmp(all + at, "env", 3) == 0)
			return true;
	return end - at >= 3 && strncasecmp(all + at, "env", 3) == 0;
}

/* Keeps track of the open brackets, and of whether the statement raises or asserts. */
static void note_bracket(struct flmem_launch_texts *texts)
{
	const struct flmem_python_word *word = &texts->reader.word;
	char mark = word->kind == FLMEM_PYTHON_MARK ? *word->text : '\0';

	if (!texts->reader.python.brackets && flmem_python_at_statement(&texts->reader))
		texts->raises = flmem_python_is(word, "raise") || flmem_python_is(word, "assert");
	if (mark && strchr("([{", mark)) {
		bool shown = flmem_launch_text_is_shown(texts) ||
			     (mark == '(' && only_shows(&texts->reader.before));

		if (texts->open < FLMEM_LAUNCH_BRACKETS_MAX) {
			texts->shown[texts->open] = shown;
			texts->environ[texts->open] = mark != '[' && holds_environment(texts);
		}
		texts->open++;
	} else if (mark && strchr(")]}", mark) && texts->open) {
		texts->open--;
	}
}

/* The characters of a string without its quotes, or as many as fit. */
static void copy_string(const struct flmem_python_word *word, char *out, size_t size)
{
	const char *text = word->text + strspn(word->text, "fFrRbBuU");
	size_t length = (size_t)(word->text + (word->place.end - word->place.start) - text);
	size_t quotes = length >= 6 && text[1] == *text && text[2] == *text ? 3 : 1;

	snprintf(out, size, "%.*s", length > 2 * quotes ? (int)(length - 2 * quotes) : 0,
		 text + quotes);
}

void flmem_launch_text_copy(const struct flmem_python_word *word, char *out, size_t size)
{
	if (word->kind == FLMEM_PYTHON_STRING)
		copy_string(word, out, size);
	else
		snprintf(out, size, "%.*s", (int)(word->place.end - word->place.start), word->text);
}

/* Whether a line begins with a program, a module or an image of a framework. */
static bool begins_with_program(const char *line)
{
	struct flmem_launch_programs at = {0};
	const struct flmem_launch_program *p;

	while ((p = flmem_launch_program_next(&at)))
		if (flmem_text_starts(line, p->before ? p->before : p->word))
			return true;
	for (size_t i = 0; flmem_frameworks[i]; i++)
		if (flmem_text_starts(line, flmem_frameworks[i]->package))
			return true;
	return false;
}

/* Whether a line begins as commands do: a sentence that names a program begins differently. */
static bool begins_command(const char *line)
{
	static const char *const programs[] = {
		"python",     "bash ",	    "sh ",	"sudo ",     "env ",	"srun ",
		"sbatch ",    "mpirun ",    "mpiexec ", "nohup ",    "exec ",	"./",
		"docker run", "podman run", "ssh ",	"torchrun ", "export ", "{sys.executable}"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(programs); i++)
		if (flmem_text_starts(line, programs[i]))
			return true;
	return begins_with_program(line);
}

/*
 * Whether a line holds the name as a whole word: "PROGRAM", "PROGRAM:TAG", not "PROGRAM-tutorial".
 */
static bool has_whole_word(const char *line, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = line; (at = strstr(at, word)); at += length)
		if (!at[length] || !strchr(NAME_CHARACTERS "-.", at[length]))
			return true;
	return strchr(word, '/'); /* FOLDER/FILE: the command may enter the folder first */
}

static const struct flmem_launch_program *find_text_command(const struct flmem_launch_texts *texts,
							    enum flmem_framework framework,
							    const char *text)
{
	const struct flmem_buf *all = &texts->input->document.text;
	const struct flmem_launch_program *found;
	char line[LINE_MAX];

	for (; *text; text += strspn(text, "\n")) {
		text += strspn(text, " \t");
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
		found = begins_command(line)
				? flmem_launch_program_in(
					  framework, all->length > ALL_MAX ? line : all->data, line)
				: NULL;
		if (found && has_whole_word(line, found->word))
			return found;
		text += strcspn(text, "\n");
	}
	return NULL;
}

/* Writes the string literals of a list as one line: ["PROGRAM", "VERB", job]. */
static void join_list(struct flmem_python_reader ahead, char out[TEXT_MAX])
{
	size_t used = 0;

	*out = '\0';
	for (size_t i = 0; i < WORDS_AHEAD && ahead.word.kind == FLMEM_PYTHON_STRING; i++) {
		copy_string(&ahead.word, out + used, TEXT_MAX - used);
		used += strlen(out + used);
		flmem_python_advance(&ahead);
		if (!flmem_python_accept(&ahead, ",") || used + 2 >= TEXT_MAX)
			return;
		out[used++] = ' ';
		out[used] = '\0';
	}
}

const struct flmem_launch_program *flmem_launch_text_program(const struct flmem_launch_texts *texts,
							     enum flmem_framework framework)
{
	char text[TEXT_MAX];

	if (flmem_python_is(&texts->reader.before, "[") ||
	    flmem_python_is(&texts->reader.before, "("))
		join_list(texts->reader, text);
	else
		copy_string(&texts->reader.word, text, sizeof(text));
	return find_text_command(texts, framework, text);
}

void flmem_launch_texts_each(struct flmem_launch_texts *texts)
{
	const struct flmem_buf *all = &texts->input->document.text;
	struct flmem_python_part part = {.line = 1};
	const struct flmem_python_source source = {.text = all->data, .parts = &part, .count = 1};

	/* A NUL ends a cell of a notebook. */
	for (; part.at < all->length && !texts->stop; part.at += strlen(all->data + part.at) + 1) {
		texts->open = 0;
		texts->raises = false;
		flmem_python_start(&texts->reader, &source, 0);
		while (texts->reader.word.kind != FLMEM_PYTHON_END && !texts->stop) {
			bool documents = flmem_python_at_statement(&texts->reader) &&
					 !texts->reader.python.brackets;

			note_bracket(texts);
			if (texts->reader.word.kind == FLMEM_PYTHON_NAME ||
			    (texts->reader.word.kind == FLMEM_PYTHON_STRING && !documents))
				texts->note(texts);
			flmem_python_advance(&texts->reader);
		}
	}
}
