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

/* "--env NAME=VALUE,NAME=VALUE" of Apptainer, also with "=" behind the option. */
static bool is_apptainer_list(const struct flmem_launch_scan *scan,
			      const struct flmem_launch_word *word)
{
	return scan->now.runner == FLMEM_LAUNCH_BY_APPTAINER && strchr(word->text, '=') &&
	       (flmem_text_starts(word->text, "--env=") ||
		strcmp(scan->now.previous, "--env") == 0);
}

/*
 * --export=ALL,NAME=VALUE of srun and sbatch, and without ALL it is all that they pass on;
 * environment=NAME="VALUE",NAME="VALUE" of supervisord; a list for Apptainer.
 */
bool flmem_launch_note_list(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char option[] = "--export=", key[] = "environment=";
	bool slurm = flmem_text_starts(word->text, option),
	     apptainer = is_apptainer_list(scan, word);
	bool bare = apptainer && !flmem_text_starts(word->text, "--env=");
	char list[FLMEM_LAUNCH_WORD_MAX];

	if (!slurm && !apptainer && (scan->shell || !flmem_text_starts(word->text, key)))
		return false;
	snprintf(list, sizeof(list), "%s", bare ? word->text : strchr(word->text, '=') + 1);
	if (slurm && !flmem_text_starts(list, "ALL"))
		flmem_launch_drop(scan, &word->place, "srun --export");
	add_listed_variables(scan, list, &word->place);
	return true;
}

/* Options of batch scripts whose value is a list of variables, by what the comments begin with. */
static const struct directive {
	const char *mark, *option;
	bool anywhere; /* also behind commands */
} directives[] = {
	{"#SBATCH", "--export", false}, /* sbatch(1) */
	{"#PBS", "-v", false},		/* qsub(1) of PBS */
	{"#$", "-v", true},		/* qsub(1) of Grid Engine */
};

/* Reads an argument of a directive without its quotes. False at the end and at a comment. */
static bool next_argument(struct flmem_launch_scan *scan, struct flmem_launch_word *word)
{
	flmem_launch_skip(scan, strspn(scan->text + scan->at, " \t\r,"));
	if (!scan->text[scan->at] || strchr("\n#", scan->text[scan->at]))
		return false;
	flmem_launch_read_word(scan, word);
	return true;
}

/* What is behind an option in the same argument, "" for one alone; NULL: it is another one. */
static char *find_option_value(char *argument, const char *option)
{
	char *value = argument + strlen(option);

	if (!flmem_text_starts(argument, option))
		return NULL;
	if (*value == '=')
		return value + 1;
	return !*value || option[1] != '-' ? value : NULL;
}

static void note_directive(struct flmem_launch_scan *scan, const struct directive *directive)
{
	struct flmem_launch_word word;
	bool goes_on = false; /* the next argument belongs to the list, too */

	flmem_launch_skip(scan, strlen(directive->mark));
	while (next_argument(scan, &word)) {
		char *list = goes_on ? word.text : find_option_value(word.text, directive->option);

		goes_on = list && (scan->text[scan->at] == ',' || (!goes_on && !*list));
		if (!list)
			continue;
		scan->now.exports = true; /* the whole script has them */
		scan->launches->cut |= word.cut;
		add_listed_variables(scan, list, &word.place);
		flmem_launch_end_statement(scan);
	}
}

void flmem_launch_note_comment(struct flmem_launch_scan *scan)
{
	const char *text = scan->text + scan->at;

	/* Also in files that do not begin with "#!": qsub takes them. */
	for (size_t i = 0; scan->at == scan->line_start && i < FLMEM_ARRAY_SIZE(directives); i++) {
		size_t length = strlen(directives[i].mark);

		if (flmem_text_starts(text, directives[i].mark) &&
		    (text[length] == ' ' || text[length] == '\t') &&
		    (directives[i].anywhere || !scan->runs)) {
			note_directive(scan, &directives[i]);
			break;
		}
	}
	flmem_launch_skip(scan, strcspn(scan->text + scan->at, "\n"));
}
