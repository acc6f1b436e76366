/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of a script that set variables or start NVFlare, wherever they end: in a call of a package
 * that is not known, in a file that the script writes, in the options of a scheduler.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "documents/python.h"
#include "frameworks/launch/launch_scan.h"
#include "frameworks/nvflare/nvflare_classes.h"
#include "frameworks/nvflare/nvflare_launch_rules.h"

#define BRACKETS_MAX 64
#define TEXT_MAX     16384 /* of a text that is examined */
#define LINE_MAX     512
#define WORDS_AHEAD  16
#define REPORTED_MAX 16
#define ALL_MAX	     (1U << 20) /* larger files are not searched for the marks of a kit */

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

struct texts {
	struct flmem_check *check;
	struct flmem_python_reader reader;
	bool shown[BRACKETS_MAX];   /* the call of an open bracket only shows its arguments */
	bool environ[BRACKETS_MAX]; /* it holds variables by its name: env={...} */
	bool starts;		    /* the script starts programs: its dictionaries are reported */
	size_t open;
	bool raises; /* the statement raises or asserts */
	size_t reported;
};

/* Functions whose texts are shown to people, or only compared. */
static bool only_shows(const struct flmem_python_word *name)
{
	static const char *const names[] = {"print",
					    "debug",
					    "info",
					    "warning",
					    "warn",
					    "error",
					    "critical",
					    "exception",
					    "log",
					    "log_info",
					    "log_error",
					    "log_debug",
					    "log_warning",
					    "echo",
					    "secho",
					    "pprint",
					    "Markdown",
					    "HTML",
					    "add_argument",
					    "add_parser",
					    "exit",
					    "skip",
					    "skipif",
					    "ArgumentParser",
					    "fail",
					    "startswith",
					    "endswith",
					    "RuntimeError",
					    "ValueError",
					    "parametrize",
					    "option",
					    "search",
					    "match",
					    "compile",
					    "add_argument_group",
					    "Field",
					    "Path",
					    "getenv",
					    NULL};

	for (size_t i = 0; names[i]; i++)
		if (name->kind == FLMEM_PYTHON_NAME && flmem_python_is(name, names[i]))
			return true;
	return false;
}

static bool is_shown(const struct texts *texts)
{
	return texts->raises ||
	       (texts->open && texts->open <= BRACKETS_MAX && texts->shown[texts->open - 1]);
}

/* Whether what a bracket opens is called an environment: env_vars = {, "env": {, env=dict( */
static bool holds_environment(const struct texts *texts)
{
	const char *all = texts->check->input->document.text.data;
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

/* Keeps track of the open brackets, and of the statement. */
static void note_bracket(struct texts *texts)
{
	const struct flmem_python_word *word = &texts->reader.word;
	char mark = word->kind == FLMEM_PYTHON_MARK ? *word->text : '\0';

	if (!texts->reader.python.brackets && flmem_python_at_statement(&texts->reader))
		texts->raises = flmem_python_is(word, "raise") || flmem_python_is(word, "assert");
	if (mark && strchr("([{", mark)) {
		bool shown = is_shown(texts) || (mark == '(' && only_shows(&texts->reader.before));

		if (texts->open < BRACKETS_MAX) {
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

/* The same of a name, as it is. */
static void copy_word(const struct flmem_python_word *word, char *out, size_t size)
{
	if (word->kind == FLMEM_PYTHON_STRING)
		copy_string(word, out, size);
	else
		snprintf(out, size, "%.*s", (int)(word->place.end - word->place.start), word->text);
}

/* NAME=value at the start of a word, unset NAME. */
static bool sets_here(const char *text, const char *at, size_t length)
{
	if (at > text && strchr(NAME_CHARACTERS "$#<", at[-1]))
		return false;
	if (at[length] == '=')
		return at[length + 1] != '=';
	return at - text >= 6 && strncmp(at - 6, "unset ", 6) == 0;
}

static bool sets_variable(const char *text)
{
	const char *name, *at;

	for (size_t i = 0; (name = flmem_launch_name_at(i)); i++)
		for (at = text; (at = strstr(at, name)); at += strlen(name))
			if (sets_here(text, at, strlen(name)))
				return true;
	return false;
}

/* What a line of a command begins with, as no sentence does. */
static bool begins_command(const char *line)
{
	static const char *const programs[] = {
		"nvflare",   "python",	   "bash ",	      "sh ",
		"sudo ",     "env ",	   "srun ",	      "sbatch ",
		"mpirun ",   "mpiexec ",   "nohup ",	      "exec ",
		"./",	     "docker run", "podman run",      "ssh ",
		"torchrun ", "export ",	   "{sys.executable}"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(programs); i++)
		if (flmem_text_starts(line, programs[i]))
			return true;
	return false;
}

static bool has_start_command(const struct texts *texts, const char *text)
{
	const struct flmem_buf *all = &texts->check->input->document.text;
	char line[LINE_MAX];

	for (; *text; text += strspn(text, "\n")) {
		size_t length = strcspn(text, "\n");

		text += strspn(text, " \t");
		snprintf(line, sizeof(line), "%.*s", (int)length, text);
		if (begins_command(line) &&
		    flmem_launch_is_likely_in(all->length > ALL_MAX ? line : all->data, line))
			return true;
		text += strcspn(text, "\n");
	}
	return false;
}

/* ["nvflare", "simulator", job]: the literals of a list as one line. */
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

/* V1EnvVar(name="NAME", value=...), {"name": "NAME", "value": ...} of Kubernetes. */
static bool names_listed_variable(const struct texts *texts, const char *text)
{
	const char *all = texts->check->input->document.text.data;
	size_t at = texts->reader.word.place.start;
	struct flmem_python_reader ahead = texts->reader;

	while (at && strchr(" \t:=\"'", all[at - 1]))
		at--;
	if (at < 4 || strncmp(all + at - 4, "name", 4) != 0 ||
	    !flmem_launch_variable_name(text, strlen(text)))
		return false;
	flmem_python_advance(&ahead);
	return flmem_python_accept(&ahead, ",") &&
	       memmem(ahead.word.text, ahead.word.place.end - ahead.word.place.start, "value", 5);
}

/* Whether the text is in a call that has been reported. */
static bool is_in_reported(const struct texts *texts, size_t at, unsigned line)
{
	static const char *const lists[] = {"calls", "methods"};
	const struct flmem_recommendations *found = texts->check->found;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++)
		for (const struct flmem_node *n = flmem_nvflare_first(texts->check, lists[i]); n;
		     n = n->next) {
			if (at < n->place.start || at >= n->place.end)
				continue;
			for (size_t k = 0; k < found->finding_count; k++)
				if (found->findings[k].rule == &texts->check->row->rule &&
				    found->findings[k].line >= n->place.line &&
				    found->findings[k].line <= line &&
				    !strcmp(found->findings[k].file, texts->check->input->file))
					return true;
		}
	return false;
}

static void report_script_text(struct texts *texts, const char *path, const char *detail)
{
	const struct flmem_python_word *word = &texts->reader.word;
	struct flmem_node node = {.kind = FLMEM_NODE_STRING, .text = "", .place = word->place};

	if (texts->check->input->document.syntax == FLMEM_SYNTAX_NOTEBOOK)
		node.place.line = flmem_nvflare_notebook_line(texts->check, word->place.start);
	if (is_in_reported(texts, word->place.start, node.place.line))
		return;
	texts->reported++;
	flmem_check_report(texts->check,
			   &(struct flmem_remark){.node = &node, .path = path, .detail = detail});
}

/* A key of a dictionary that is called an environment. */
static void check_key(struct texts *texts)
{
	const struct flmem_python_word *word = &texts->reader.word;
	struct flmem_python_reader ahead = texts->reader;
	bool inside = texts->open && texts->open <= BRACKETS_MAX && texts->environ[texts->open - 1];
	const char *name;
	char text[64];

	if (!inside || texts->starts)
		return;
	copy_word(word, text, sizeof(text));
	name = flmem_launch_variable_name(text, strlen(text));
	flmem_python_advance(&ahead);
	if (name && (flmem_python_is(&ahead.word, ":") || flmem_python_is(&ahead.word, "=")) &&
	    (strcmp(name, FLMEM_LAUNCH_TMPDIR) != 0 || texts->check->found->disk_offload))
		report_script_text(texts, name, "what gets it is known only when the script runs");
}

static void check_text(struct texts *texts)
{
	bool first = flmem_python_is(&texts->reader.before, "[") ||
		     flmem_python_is(&texts->reader.before, "(");
	char text[TEXT_MAX];

	copy_string(&texts->reader.word, text, sizeof(text));
	if (sets_variable(text) || names_listed_variable(texts, text)) {
		report_script_text(
			texts, "environment",
			"a text of the script sets variables: what gets them is known only "
			"when it runs");
		return;
	}
	if (first)
		join_list(texts->reader, text);
	if (has_start_command(texts, text))
		report_script_text(texts, "command",
				   "a text of the script is a command that starts NVFlare");
}

void flmem_nvflare_check_texts(struct flmem_check *check)
{
	const struct flmem_buf *all = &check->input->document.text;
	struct flmem_python_part part = {.line = 1};
	const struct flmem_python_source source = {.text = all->data, .parts = &part, .count = 1};

	const bool starts = flmem_nvflare_has_start(check);

	/* A NUL ends a cell of a notebook. */
	for (; part.at < all->length; part.at += strlen(all->data + part.at) + 1) {
		struct texts texts = {.check = check, .starts = starts};

		flmem_python_start(&texts.reader, &source, 0);
		while (texts.reader.word.kind != FLMEM_PYTHON_END &&
		       texts.reported < REPORTED_MAX) {
			bool documents = flmem_python_at_statement(&texts.reader) &&
					 !texts.reader.python.brackets;

			note_bracket(&texts);
			if (texts.reader.word.kind == FLMEM_PYTHON_STRING ||
			    texts.reader.word.kind == FLMEM_PYTHON_NAME)
				check_key(&texts);
			if (texts.reader.word.kind == FLMEM_PYTHON_STRING && !documents &&
			    !is_shown(&texts))
				check_text(&texts);
			flmem_python_advance(&texts.reader);
		}
	}
}
