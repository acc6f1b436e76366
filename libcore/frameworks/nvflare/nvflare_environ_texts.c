/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports strings of a script that set variables or start NVFlare, wherever they are used: in a
 * call of an unknown package, in a file that the script writes, in the options of a scheduler.
 */
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "frameworks/launch/launch_calls.h"
#include "frameworks/launch/launch_scan.h"
#include "frameworks/nvflare/nvflare_classes.h"
#include "frameworks/nvflare/rules/nvflare_launch_rules.h"

#define TEXT_MAX     16384 /* bytes of a string that are examined */
#define REPORTED_MAX 16
#define AROUND_MAX   32

#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

/* The calls of a list around a place. Places are asked for in the order of the text. */
struct calls_around {
	const struct flmem_node *next; /* the first call after the place */
	const struct flmem_node *open[AROUND_MAX];
	size_t count;
};

struct environ_texts {
	struct flmem_check *check;
	struct calls_around around[2];
	bool starts; /* the script starts programs, so its dictionaries are reported, too */
	size_t reported;
};

/* Whether a variable is set at `at`: NAME=value at the start of a word, unset NAME. */
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

/*
 * Whether a string names a variable of Kubernetes: V1EnvVar(name="NAME", value=...), {"name":
 * "NAME", "value": ...}.
 */
static bool names_listed_variable(const struct flmem_launch_texts *texts, const char *text)
{
	const char *all = texts->input->document.text.data;
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

static void go_to_place(struct calls_around *around, size_t at)
{
	while (around->next && around->next->place.start <= at) {
		const struct flmem_node *call = around->next;

		while (around->count && around->open[around->count - 1]->place.end <= at)
			around->count--;
		if (around->count < AROUND_MAX)
			around->open[around->count++] = call;
		around->next = call->next;
	}
}

/* Whether the rule has reported a call in one of its lines up to `line`. */
static bool is_reported_call(const struct flmem_check *check, const struct flmem_node *call,
			     unsigned line)
{
	const struct flmem_recommendations *found = check->found;

	for (size_t k = 0; k < found->finding_count; k++)
		if (found->findings[k].rule == &check->row->rule &&
		    found->findings[k].line >= call->place.line &&
		    found->findings[k].line <= line &&
		    !strcmp(found->findings[k].file, check->input->file))
			return true;
	return false;
}

/* Whether a place is in a call that has been reported. */
static bool is_in_reported(struct environ_texts *own, size_t at, unsigned line)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(own->around); i++) {
		const struct calls_around *around = &own->around[i];

		go_to_place(&own->around[i], at);
		for (size_t k = 0; k < around->count; k++)
			if (at < around->open[k]->place.end &&
			    is_reported_call(own->check, around->open[k], line))
				return true;
	}
	return false;
}

static void report_script_text(struct flmem_launch_texts *texts, const char *path,
			       const char *detail)
{
	const struct flmem_python_word *word = &texts->reader.word;
	struct flmem_node node = {.kind = FLMEM_NODE_STRING, .text = "", .place = word->place};
	struct environ_texts *own = texts->data;

	node.place.line = flmem_document_line(&texts->input->document, word->place.line);
	if (is_in_reported(own, word->place.start, node.place.line) ||
	    flmem_launch_is_only_named(&texts->input->document, word->place.start))
		return;
	texts->stop = ++own->reported >= REPORTED_MAX;
	flmem_check_report(own->check,
			   &(struct flmem_remark){.node = &node, .path = path, .detail = detail});
}

/* Reports a key of a dictionary that is an environment: env={...}. */
static void check_key(struct flmem_launch_texts *texts)
{
	const struct environ_texts *own = texts->data;
	const struct flmem_python_word *word = &texts->reader.word;
	struct flmem_python_reader ahead = texts->reader;
	const char *name;
	char text[64];

	if (own->starts || !flmem_launch_text_in_environment(texts))
		return;
	flmem_launch_text_copy(word, text, sizeof(text));
	name = flmem_launch_variable_name(text, strlen(text));
	flmem_python_advance(&ahead);
	if (name && (flmem_python_is(&ahead.word, ":") || flmem_python_is(&ahead.word, "=")) &&
	    (strcmp(name, FLMEM_LAUNCH_TMPDIR) != 0 || own->check->found->disk_offload))
		report_script_text(texts, name, "what gets it is known only when the script runs");
}

/* Whether the part of a long string that is not examined mentions what the rules are about. */
static bool mentions_behind(const struct flmem_python_word *word)
{
	static const char *const words[] = {"nvflare", "startup/", FLMEM_LAUNCH_ARENA_MAX,
					    FLMEM_LAUNCH_LD_PRELOAD, FLMEM_LAUNCH_TUNABLES};
	size_t length = word->place.end - word->place.start;
	const size_t start = TEXT_MAX - 64; /* a word may be across the limit */

	for (size_t i = 0; length > TEXT_MAX && i < FLMEM_ARRAY_SIZE(words); i++)
		if (memmem(word->text + start, length - start, words[i], strlen(words[i])))
			return true;
	return false;
}

static void check_environ_text(struct flmem_launch_texts *texts)
{
	char text[TEXT_MAX];

	check_key(texts);
	if (texts->reader.word.kind != FLMEM_PYTHON_STRING || flmem_launch_text_is_shown(texts))
		return;
	flmem_launch_text_copy(&texts->reader.word, text, sizeof(text));
	if (sets_variable(text) || names_listed_variable(texts, text))
		report_script_text(
			texts, "environment",
			"a text of the script sets variables: what gets them is known only "
			"when it runs");
	else if (flmem_launch_text_program(texts, FLMEM_FRAMEWORK_NVFLARE))
		report_script_text(texts, "command",
				   "a text of the script is a command that starts NVFlare");
	else if (mentions_behind(&texts->reader.word))
		report_script_text(texts, "environment",
				   "only the first 16 KiB of this text are read, and the rest "
				   "mentions NVFlare or an allocator");
}

void flmem_nvflare_check_texts(struct flmem_check *check)
{
	struct environ_texts own = {.check = check,
				    .around = {{.next = flmem_nvflare_first(check, "calls")},
					       {.next = flmem_nvflare_first(check, "methods")}},
				    .starts = flmem_launch_has_start(check->subject)};
	struct flmem_launch_texts texts = {
		.input = check->input, .note = check_environ_text, .data = &own};

	flmem_launch_texts_each(&texts);
}
