/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes wrappers, which run a program with variables that the file does not show: scripts, .env
 * files.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_scan.h"

/* Whether a program sets variables from a file or a service for the command after it. */
static bool sets_variables(const char *name)
{
	static const char *const programs[] = {
		"dotenv", "dotenvx", "direnv",	"envdir",  "s6-envdir", "chpst", "with-contenv",
		"pipenv", "honcho",  "foreman", "doppler", "chamber",	NULL};

	return flmem_text_is_one_of(name, programs);
}

/*
 * Whether the word is after a variable that may hold "env NAME=VALUE": "$PREFIX python3", not
 * "$PYTHON -m MODULE".
 */
static bool is_behind_variable(const struct flmem_launch_scan *scan, const char *text)
{
	const struct flmem_launch_statement *now = &scan->now;

	return scan->shell && *now->command == '$' && now->command[1] != '(' && now->command[1] &&
	       strcmp(now->command, now->previous) == 0 && *text != '-';
}

static const char *wrapper_of(const struct flmem_launch_scan *scan, const char *text)
{
	const char *name = flmem_text_basename(text);

	if (flmem_text_ends(name, ".sh") && !strpbrk(text, ":= "))
		return "a script runs it, which may set variables";
	if (sets_variables(name))
		return "a program sets variables from elsewhere for it";
	if (is_behind_variable(scan, text))
		return "a variable holds what runs it";
	if (strcmp(name, "env") == 0 && strcmp(scan->now.command, "xargs") == 0)
		return "variables are set by another command";
	return NULL;
}

void flmem_launch_note_wrapper(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char *const arguments[] = {"$@", "$*", "${@", "${*", "$1"};
	struct flmem_launch_statement *now = &scan->now;
	const char *why;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(arguments); i++)
		now->runs_arguments |= flmem_text_starts(word->text, arguments[i]);
	if (now->launch >= 0 || now->names_only || now->shows_only)
		return;
	why = wrapper_of(scan, flmem_launch_skip_key(scan, word->text));
	if (!why)
		return;
	now->wrapper = why;
	now->wrapped_by = word->place;
}

void flmem_launch_end_wrapper(struct flmem_launch_scan *scan)
{
	const struct flmem_launch_statement *now = &scan->now;

	if (!now->wrapper || now->launch < 0 || scan->launches->launches[now->launch].doubted ||
	    now->wrapped_by.start == scan->launches->launches[now->launch].place.start)
		return;
	scan->launches->launches[now->launch].doubted = true;
	flmem_launch_add_doubt(scan->launches, &now->wrapped_by, now->wrapper);
}

/* Whether the script defines a function: "NAME()" or "function NAME". */
static bool is_function_name(const char *text, const char *name)
{
	static const char keyword[] = "function ";
	const size_t before = sizeof(keyword) - 1;
	size_t length = strlen(name);

	for (const char *at = text; length && (at = strstr(at, name)); at++) {
		const char *end = at + length;
		bool begins = at == text || strchr(" \t\n;{", at[-1]);

		if (!begins)
			continue;
		if ((size_t)(at - text) >= before && strncmp(at - before, keyword, before) == 0 &&
		    strchr(" \t\r\n({", *end))
			return true; /* the NUL at the end of the text counts, too */
		end += strspn(end, " \t");
		if (*end == '(' && end[1 + strspn(end + 1, " \t")] == ')')
			return true;
	}
	return false;
}

bool flmem_launch_sets_by_function(const struct flmem_launch_scan *scan)
{
	const struct flmem_launch_statement *now = &scan->now;
	unsigned char scope = scan->scope;

	if (!scan->shell || now->launch >= 0 ||
	    now->first_variable == scan->launches->variable_count)
		return false;
	if (is_function_name(scan->text, now->command))
		return true;
	while (scope && scan->launches->scopes[scope].kind != FLMEM_LAUNCH_FUNCTION)
		scope = scan->launches->scopes[scope].parent;
	return scope && now->runs_arguments;
}
