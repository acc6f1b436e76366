/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of variables that schedulers and supervisors pass on. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_scan.h"

/* NAME=VALUE,NAME: the list is changed. */
static void add_listed_variables(struct flmem_launch_scan *scan, char *list,
				 const struct flmem_place *place)
{
	char *rest = NULL;

	for (char *one = strtok_r(list, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
		char *equals = strchr(one, '=');
		const char *name = flmem_launch_variable_name(one, equals ? (size_t)(equals - one)
									  : strlen(one));

		if (name)
			flmem_launch_add_variable(scan->launches, name, equals ? equals + 1 : NULL,
						  -1, place);
	}
}

/*
 * --export=ALL,NAME=VALUE of srun and sbatch, and without ALL it is all that they pass on;
 * environment=NAME="VALUE",NAME="VALUE" of supervisord.
 */
bool flmem_launch_note_list(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char option[] = "--export=", key[] = "environment=";
	bool slurm = flmem_text_starts(word->text, option);
	char list[FLMEM_LAUNCH_WORD_MAX];

	if (!slurm && (scan->shell || !flmem_text_starts(word->text, key)))
		return false;
	snprintf(list, sizeof(list), "%s", strchr(word->text, '=') + 1);
	if (slurm && !flmem_text_starts(list, "ALL"))
		flmem_launch_drop(scan, &word->place, "srun --export");
	add_listed_variables(scan, list, &word->place);
	return true;
}

/* The option of a batch script whose value is a list of variables, by what its comments begin with. */
static const struct directive {
	const char *mark, *option;
} directives[] = {
	{"#SBATCH", "--export"}, /* sbatch(1) */
	{"#PBS", "-v"},		 /* qsub(1) of PBS */
	{"#$", "-v"},		 /* qsub(1) of Grid Engine */
};

/* The list of the option in the arguments of a directive, cut off behind it; NULL without one. */
static char *find_directive_list(char *arguments, const char *option)
{
	size_t length = strlen(option);
	char *rest = NULL;

	for (char *one = strtok_r(arguments, " \t\r", &rest); one && *one != '#';
	     one = strtok_r(NULL, " \t\r", &rest)) {
		if (strncmp(one, option, length) != 0)
			continue;
		if (!one[length])
			return strtok_r(NULL, " \t\r", &rest);
		if (one[length] == '=' || option[1] != '-')
			return one + length + (one[length] == '=');
	}
	return NULL;
}

static void note_directive(struct flmem_launch_scan *scan, const struct directive *directive)
{
	const struct flmem_place place = {.start = scan->at, .line = scan->line, .column = 1};
	const char *arguments = scan->text + scan->at + strlen(directive->mark);
	char line[FLMEM_LAUNCH_WORD_MAX], *list;

	snprintf(line, sizeof(line), "%.*s", (int)strcspn(arguments, "\n"), arguments);
	list = find_directive_list(line, directive->option);
	if (!list)
		return;
	scan->now.exports = true; /* the whole script has them */
	add_listed_variables(scan, list, &place);
	flmem_launch_end_statement(scan);
}

void flmem_launch_note_comment(struct flmem_launch_scan *scan)
{
	const char *text = scan->text + scan->at;

	for (size_t i = 0;
	     scan->shell && scan->at == scan->line_start && i < FLMEM_ARRAY_SIZE(directives); i++) {
		size_t length = strlen(directives[i].mark);

		if (flmem_text_starts(text, directives[i].mark) &&
		    (text[length] == ' ' || text[length] == '\t'))
			note_directive(scan, &directives[i]);
	}
	flmem_launch_skip(scan, strcspn(text, "\n"));
}
