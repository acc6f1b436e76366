/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lists of variables that schedulers and supervisors pass on. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_scan.h"

/* Adds a copy of a row for the current statement. */
static void repeat_variable(struct flmem_launch_scan *scan, const struct flmem_launch_variable *row)
{
	struct flmem_launches *launches = scan->launches;
	size_t count = launches->variable_count;

	flmem_launch_add_variable(launches, row->name, row->known ? row->value : NULL, -1,
				  &row->place);
	if (launches->variable_count > count)
		launches->variables[count].repeated = true;
}

void flmem_launch_pass_on(struct flmem_launch_scan *scan, const char *name,
			  const struct flmem_place *place)
{
	const struct flmem_launches *launches = scan->launches;
	const struct flmem_launch_variable *last = NULL;

	for (size_t i = 0; i < launches->variable_count; i++) {
		const struct flmem_launch_variable *row = &launches->variables[i];
		bool own = i >= scan->now.first_variable && (row->unset || row->repeated);

		if (row->launch < 0 && !row->local && !own &&
		    (flmem_launch_is(row, name) || !*row->name))
			last = row;
	}
	if (!last)
		flmem_launch_add_variable(scan->launches, name, NULL, -1, place);
	else if (!last->unset)
		repeat_variable(scan, last);
}

/* Removes single quotes around a value, as bsub does within a list. */
static const char *strip_quotes(char *value)
{
	size_t length = strlen(value);

	if (length < 2 || *value != '\'' || value[length - 1] != '\'')
		return value;
	value[length - 1] = '\0';
	return value + 1;
}

/*
 * Adds the variables of a list: NAME=VALUE, NAME, and ~NAME, which bsub does not pass on. Changes
 * the list.
 */
static void add_listed_variables(struct flmem_launch_scan *scan, char *list,
				 const struct flmem_place *place)
{
	char *rest = NULL;

	for (char *one = strtok_r(list, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
		char *equals = strchr(one, '=');
		bool ends;
		const char *name;

		one += strspn(one, " \t");
		ends = *one == '~';
		one += ends;
		name = flmem_launch_variable_name(one,
						  equals ? (size_t)(equals - one) : strlen(one));
		if (name && ends)
			flmem_launch_add_unset(scan->launches, name, -1, place);
		else if (name && equals)
			flmem_launch_add_variable(scan->launches, name, strip_quotes(equals + 1),
						  -1, place);
		else if (name)
			flmem_launch_pass_on(scan, name, place);
	}
}

void flmem_launch_add_listed(struct flmem_launch_scan *scan, const char *list,
			     const struct flmem_place *place)
{
	char copy[FLMEM_LAUNCH_WORD_MAX];

	snprintf(copy, sizeof(copy), "%s", list);
	add_listed_variables(scan, copy, place);
}

/* Whether a list has this word; upper and lower case are the same. */
static bool lists_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (; *list; list += *list == ',') {
		list += strspn(list, " \t");
		if (strncasecmp(list, word, length) == 0 && strchr(" \t,", list[length]))
			return true;
		list += strcspn(list, ",");
	}
	return false;
}

void flmem_launch_undo_drop(struct flmem_launch_scan *scan)
{
	struct flmem_launches *launches = scan->launches;
	size_t kept = scan->now.first_variable;

	for (size_t i = scan->now.first_variable; i < launches->variable_count; i++)
		if (!launches->variables[i].repeated &&
		    (!launches->variables[i].unset || *launches->variables[i].name))
			launches->variables[kept++] = launches->variables[i];
	launches->variable_count = kept;
	scan->now.dropper = NULL;
}

/* The last row of a name among those of #SBATCH --export; NULL if there is none. */
static const struct flmem_launch_variable *find_listed(const struct flmem_launch_scan *scan,
						       const char *name)
{
	for (size_t i = scan->listed; i--;)
		if (flmem_launch_is(&scan->launches->variables[i], name))
			return &scan->launches->variables[i];
	return NULL;
}

/* sbatch sets SLURM_EXPORT_ENV to the list of its --export, and srun takes that as its own. */
void flmem_launch_drop_of_step(struct flmem_launch_scan *scan, const struct flmem_place *place,
			       const char *dropper)
{
	const char *name;

	if (!scan->steps_drop || scan->now.launch >= 0)
		return;
	flmem_launch_drop(scan, place, scan->step_dropper ? scan->step_dropper : dropper);
	for (size_t i = 0; (name = flmem_launch_name_at(i)); i++) {
		const struct flmem_launch_variable *row = find_listed(scan, name);

		if (row && row->known)
			repeat_variable(scan, row);
		else if (row && !row->unset)
			flmem_launch_pass_on(scan, name, place);
	}
}

void flmem_launch_drop_of_batch(struct flmem_launch_scan *scan, const struct flmem_place *place)
{
	if (scan->batch_drops)
		flmem_launch_drop(scan, place, "SBATCH_EXPORT");
}

static bool lists_nothing(const char *list)
{
	return lists_word(list, "NONE") || lists_word(list, "NIL");
}

/* Reads SLURM_EXPORT_ENV and SRUN_EXPORT_ENV, which act as the option --export (srun(1)). */
static void note_step_variable(struct flmem_launch_scan *scan, const char *text, const char *name)
{
	size_t length = strlen(name);
	const char *list = text + length + 1;

	if (!flmem_text_starts(text, name))
		return;
	if (text[length] == '=' && lists_nothing(list)) {
		scan->steps_drop = true;
		scan->step_dropper = name;
		scan->listed = 0;
	} else if (text[length] == '=' ? lists_word(list, "ALL")
				       : scan->now.unsets && !text[length]) {
		scan->steps_drop = false;
	}
}

void flmem_launch_note_steps(struct flmem_launch_scan *scan, const char *text)
{
	static const char batch[] = "SBATCH_EXPORT=";

	if (flmem_text_starts(text, batch))
		scan->batch_drops = lists_nothing(text + sizeof(batch) - 1);
	note_step_variable(scan, text, "SLURM_EXPORT_ENV");
	note_step_variable(scan, text, "SRUN_EXPORT_ENV");
}

/* bsub passes on all variables, or those of -env LIST; qsub those of -v LIST, or all with -V. */
bool flmem_launch_note_submission(struct flmem_launch_scan *scan,
				  const struct flmem_launch_word *word, const char *before)
{
	bool bsub = strcmp(scan->now.command, "bsub") == 0 && strcmp(before, "-env") == 0;
	bool qsub = strcmp(scan->now.command, "qsub") == 0;

	if (!scan->shell || scan->now.launch >= 0 || (!bsub && !qsub))
		return false;
	if (qsub && strcmp(word->text, "-V") == 0)
		flmem_launch_undo_drop(scan);
	if (qsub && strcmp(before, "-v") != 0)
		return false;
	if (bsub && !lists_word(word->text, "all"))
		flmem_launch_drop(scan, &word->place, "bsub -env");
	flmem_launch_add_listed(scan, word->text, &word->place);
	return true;
}

/* Whether a word is the list of --env of Apptainer, also with "=" after the option. */
static bool is_apptainer_list(const struct flmem_launch_scan *scan,
			      const struct flmem_launch_word *word)
{
	return scan->now.runner == FLMEM_LAUNCH_BY_APPTAINER && strchr(word->text, '=') &&
	       (flmem_text_starts(word->text, "--env=") ||
		strcmp(scan->now.previous, "--env") == 0);
}

/*
 * Reads --export=ALL,NAME=VALUE of srun and sbatch (without ALL, nothing else is passed on),
 * environment=NAME="VALUE",NAME="VALUE" of supervisord, and --env of Apptainer.
 */
bool flmem_launch_note_list(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char option[] = "--export=", key[] = "environment=";
	bool slurm = flmem_text_starts(word->text, option),
	     apptainer = is_apptainer_list(scan, word);
	bool bare = apptainer && !flmem_text_starts(word->text, "--env=");
	const char *list;

	if (!slurm && !apptainer && (scan->shell || !flmem_text_starts(word->text, key)))
		return false;
	list = bare ? word->text : strchr(word->text, '=') + 1;
	if (slurm && !lists_word(list, "ALL"))
		flmem_launch_drop(scan, &word->place, "srun --export");
	else if (slurm && (scan->steps_drop || scan->batch_drops))
		flmem_launch_undo_drop(scan);
	flmem_launch_add_listed(scan, list, &word->place);
	return true;
}

/* Options in comments of batch scripts whose value is a list of variables. */
static const struct directive {
	const char *mark, *option; /* how the comment begins; the option */
	/* Word for all other variables of the shell; NULL: they are passed on without it. */
	const char *all;
	const char *file; /* option for a file of variables; or NULL */
	const char *name; /* static text for findings about `option`; or NULL */
	char separator;	  /* separates entries besides a comma; or NUL */
	bool steps;	  /* srun in the script uses the list, too */
	bool anywhere;	  /* counts after commands, too */
} directives[] = {
	{.mark = "#SBATCH",
	 .option = "--export",
	 .all = "ALL",
	 .file = "--export-file", /* sbatch(1) */
	 .name = "#SBATCH --export",
	 .steps = true},
	{.mark = "#PBS", .option = "-v"},		  /* qsub(1) of PBS */
	{.mark = "#$", .option = "-v", .anywhere = true}, /* qsub(1) of Grid Engine */
	{.mark = "#BSUB",
	 .option = "-env",
	 .all = "all", /* bsub(1) of LSF */
	 .name = "#BSUB -env",
	 .anywhere = true},
	{.mark = "#MSUB", .option = "-v"},			  /* msub(1) of Moab */
	{.mark = "#PJM", .option = "-x"},			  /* pjsub(1) of Fugaku */
	{.mark = "#COBALT", .option = "--env", .separator = ':'}, /* qsub(1) of Cobalt */
	{.mark = "#flux:", .option = "--env"},			  /* flux-batch(1) */
	{.mark = "# flux:", .option = "--env"},
};

/* Reads an argument of a directive without quotes. Returns false at the line end or a comment. */
static bool next_argument(struct flmem_launch_scan *scan, struct flmem_launch_word *word)
{
	flmem_launch_skip(scan, strspn(scan->text + scan->at, " \t\r,"));
	if (!scan->text[scan->at] || strchr("\n#", scan->text[scan->at]))
		return false;
	flmem_launch_read_word(scan, word);
	return true;
}

/* The text after an option in the same argument, "" if there is none; NULL: another option. */
static char *find_option_value(char *argument, const char *option)
{
	char *value = argument + strlen(option);

	if (!flmem_text_starts(argument, option))
		return NULL;
	if (*value == '=')
		return value + 1;
	return !*value || !option[2] ? value : NULL;
}

/*
 * Records that a list without the word for all keeps out other variables of the submitting shell.
 */
static void note_isolation(struct flmem_launch_scan *scan, const struct directive *directive,
			   const char *list, bool more)
{
	bool all = !directive->all || lists_word(list, directive->all);

	if (more && !scan->launches->isolated)
		return; /* an earlier part of the list had the word */
	scan->launches->isolated = all ? NULL : directive->name;
	scan->steps_drop = !all && directive->steps;
}

/* Adds the variables of a list, which apply to the whole script. */
static void note_directive_list(struct flmem_launch_scan *scan, const struct directive *directive,
				struct flmem_launch_word *word, char *list)
{
	for (char *at = list; directive->separator && (at = strchr(at, directive->separator)); at++)
		*at = ',';
	scan->now.exports = true;
	scan->launches->cut |= word->cut;
	add_listed_variables(scan, list, &word->place);
	flmem_launch_end_statement(scan);
	if (directive->steps)
		scan->listed = scan->launches->variable_count;
}

static void note_directive(struct flmem_launch_scan *scan, const struct directive *directive)
{
	struct flmem_launch_word word;
	bool goes_on = false; /* the next argument belongs to the list, too */
	bool more = false;    /* an earlier argument was part of the list */

	flmem_launch_skip(scan, strlen(directive->mark));
	while (next_argument(scan, &word)) {
		char *list = goes_on ? word.text : find_option_value(word.text, directive->option);

		goes_on = list && (scan->text[scan->at] == ',' || (!goes_on && !*list));
		if (!list && directive->file && find_option_value(word.text, directive->file))
			flmem_launch_note_source(scan, &word);
		if (!list || !*list)
			continue;
		note_isolation(scan, directive, list, more);
		note_directive_list(scan, directive, &word, list);
		more = goes_on;
	}
}

void flmem_launch_note_comment(struct flmem_launch_scan *scan)
{
	const char *text = scan->text + scan->at;

	/* Directives count in files without "#!", too, since qsub takes these. */
	for (size_t i = 0; scan->at == scan->line_start && i < FLMEM_ARRAY_SIZE(directives); i++) {
		size_t length = strlen(directives[i].mark);

		if (flmem_text_starts(text, directives[i].mark) &&
		    (text[length] == ' ' || text[length] == '\t') &&
		    (directives[i].anywhere || !scan->any_word)) {
			note_directive(scan, &directives[i]);
			break;
		}
	}
	flmem_launch_skip(scan, strcspn(scan->text + scan->at, "\n"));
}
