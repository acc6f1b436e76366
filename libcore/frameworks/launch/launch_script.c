/* SPDX-License-Identifier: Apache-2.0 */
/* Reads scripts, Dockerfiles and systemd units word by word, and records what they start. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_programs.h"
#include "frameworks/launch/launch_scan.h"

#define STAGES_MAX 64 /* stages of a Dockerfile; for each one the text before it is searched */

void flmem_launch_skip(struct flmem_launch_scan *scan, size_t count)
{
	for (; count && scan->text[scan->at]; count--) {
		if (scan->text[scan->at++] == '\n') {
			scan->line++;
			scan->line_start = scan->at;
		}
	}
}

/* Skips blanks, separators, comments and line ends before a word. Returns false at the end. */
static bool skip_to_word(struct flmem_launch_scan *scan)
{
	for (;;) {
		const char *p = scan->text + scan->at;

		if (!*p)
			return false;
		if (*p == '\\' && (p[1] == '\n' || (p[1] == '\r' && p[2] == '\n')))
			flmem_launch_skip(scan, p[1] == '\n' ? 2 : 3);
		else if (*p == '#')
			flmem_launch_note_comment(scan);
		else if (*p == '\n' || *p == ';' || *p == '&' || *p == '|')
			flmem_launch_note_separator(scan);
		else if (strchr("[](){}", *p))
			flmem_launch_note_bracket(scan);
		else if (strchr(" \t\r,", *p))
			flmem_launch_skip(scan, 1);
		else
			return true;
	}
}

static void append_char(struct flmem_launch_word *word, size_t *length, char c)
{
	if (*length + 1 < sizeof(word->text))
		word->text[(*length)++] = c;
	else
		word->cut = true;
}

/* Whether a quoted text ends at this line end: only one that something runs has more lines. */
static bool ends_at_line(const struct flmem_launch_scan *scan, char quote)
{
	const char *p = scan->text + scan->at;

	bool code = scan->now.runner != FLMEM_LAUNCH_DIRECTLY || scan->now.option == 'c';

	return *p == '\n' && (!code || !strchr(p, quote));
}

/* Length of `COMMAND` with its marks in a shell script; 0 if none ends on this line. */
static size_t substitution_length(const struct flmem_launch_scan *scan, char quote)
{
	const char *p = scan->text + scan->at, *end;

	if (!scan->shell || *p != '`' || quote == '\'')
		return 0;
	end = memchr(p + 1, '`', strcspn(p + 1, "\n"));
	return end ? (size_t)(end - p) + 1 : 0;
}

static void append_word_part(struct flmem_launch_scan *scan, struct flmem_launch_word *word,
			     size_t *length, size_t count)
{
	for (size_t i = 0; i < count; i++)
		append_char(word, length, scan->text[scan->at + i]);
	flmem_launch_skip(scan, count);
}

void flmem_launch_read_word(struct flmem_launch_scan *scan, struct flmem_launch_word *word)
{
	size_t length = 0;
	char quote = '\0';

	word->cut = false;
	word->place = (struct flmem_place){
		.start = scan->at,
		.line = scan->line,
		.column = (unsigned)(scan->at - scan->line_start + 1),
	};
	for (;;) {
		char c = scan->text[scan->at];
		size_t part = substitution_length(scan, quote);

		if (c == '$' && scan->text[scan->at + 1] == '{')
			part = strcspn(scan->text + scan->at, "}\n");
		if (!c || (!quote && strchr(" \t\r\n;&|()[]", c)) ||
		    (quote && ends_at_line(scan, quote)))
			break;
		if (part) {
			append_word_part(scan, word, &length, part);
			continue;
		}
		if (c == quote || (!quote && (c == '"' || c == '\''))) {
			quote = quote ? '\0' : c;
			flmem_launch_skip(scan, 1);
			if (!quote && scan->text[scan->at] == ',')
				break;
			continue;
		}
		append_char(word, &length, c);
		flmem_launch_skip(scan, 1);
	}
	word->text[length] = '\0';
	word->place.end = scan->at;
	/* The character is a bracket or the like: no word begins here. */
	if (word->place.end == word->place.start)
		flmem_launch_skip(scan, 1);
}

/* Whether a file is named in the folder entered before: "start.sh" in "startup". */
static bool is_in_folder(const char *word, const char *folder, const char *name)
{
	size_t length = strcspn(word, "/");

	return *folder && strlen(folder) == length && strncmp(word, folder, length) == 0 &&
	       strcmp(name, word + length + 1) == 0;
}

/* The command in "command=nvflare" (supervisord) or "ExecStart=-nvflare" (systemd). */
const char *flmem_launch_skip_key(const struct flmem_launch_scan *scan, const char *text)
{
	static const char *const keys[] = {"command=", "Exec=", "ExecStart=", "ExecStartPre="};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(keys) && !scan->shell; i++)
		if (flmem_text_starts(text, keys[i]))
			return text + strlen(keys[i]) + strspn(text + strlen(keys[i]), "-@:+!");
	return text;
}

/* Whether a variable is the verb of a program: "nvflare $MODE", not "pip install nvflare $MORE". */
static bool is_unclear_verb(const struct flmem_launch_scan *scan, const char *before,
			    const char *text)
{
	static const char *const runners[] = {"exec", "nohup", "srun", "time", NULL};
	const char *command = scan->now.command;

	return *text == '$' && strcmp(scan->now.previous, before) == 0 &&
	       (strcmp(command, before) == 0 || flmem_text_is_one_of(command, runners));
}

/* Whether a word is the program of a row; an image counts without its tag ("NAME:1.42.0"). */
static bool is_program(const struct flmem_launch_program *program,
		       const struct flmem_launch_scan *scan, const char *text)
{
	const char *base = flmem_text_basename(text);
	bool path = strchr(program->word, '/');
	const char *name = path ? text : base;
	size_t length = path ? strcspn(name, ":@") : strlen(name), own = strlen(program->word);

	if (strcmp(program->word, "$") == 0)
		return is_unclear_verb(scan, program->before, text);
	if (program->before && strcmp(scan->now.previous, program->before) != 0 &&
	    (strcmp(scan->now.entry, program->before) != 0 || *scan->now.previous == '-'))
		return false;
	if (program->of && !flmem_text_starts(scan->now.earlier, program->of))
		return false;
	if (path && is_in_folder(program->word, scan->folder, base) &&
	    flmem_launch_marks(scan->launches, program))
		return true;
	return length >= own && strncmp(name + length - own, program->word, own) == 0 &&
	       (length == own || name[length - own - 1] == '/');
}

/* The program that a word starts, given the words before it; NULL if it starts none. */
static const struct flmem_launch_program *find_launch_program(const struct flmem_launch_scan *scan,
							      const char *text,
							      enum flmem_framework *ret_framework)
{
	struct flmem_launch_programs at = {0};
	const struct flmem_launch_program *p = flmem_launch_program_next(&at);

	while (p && !is_program(p, scan, text))
		p = flmem_launch_program_next(&at);
	if (p)
		*ret_framework = at.owner->framework;
	return p;
}

/* Reads the assignment in ": ${NAME:=VALUE}" of a shell. */
static bool note_default(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	const char *text = word->text, *name;
	size_t length = strcspn(text, ":");

	if (!scan->shell || !flmem_text_starts(text, "${") ||
	    !flmem_text_starts(text + length, ":="))
		return false;
	name = flmem_launch_variable_name(text + 2, length - 2);
	if (name)
		flmem_launch_add_variable(scan->launches, name, text, -1, &word->place);
	return name;
}

/* Reads lists of Apptainer, and APPTAINERENV_NAME=VALUE, which sets NAME in the container. */
static bool note_for_apptainer(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	const char *text = flmem_launch_skip_apptainer(word->text);
	const char *name = flmem_launch_variable_name(text, strcspn(text, "="));

	if (scan->now.runner == FLMEM_LAUNCH_BY_APPTAINER)
		return flmem_launch_note_list(scan, word);
	if (text == word->text || !name || !strchr(text, '='))
		return false;
	flmem_launch_add_variable(scan->launches, name, strchr(text, '=') + 1, -1, &word->place);
	return true;
}

/* Reads "read NAME" and "printf -v NAME", whose value is known only when the script runs. */
static bool note_input(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	const char *name = flmem_launch_variable_name(word->text, strlen(word->text));
	bool reads =
		strcmp(scan->now.command, "read") == 0 ||
		(strcmp(scan->now.command, "printf") == 0 && strcmp(scan->now.previous, "-v") == 0);

	if (!scan->shell || !reads || !name)
		return false;
	flmem_launch_add_variable(scan->launches, name, NULL, -1, &word->place);
	return true;
}

/* Reads "NAME = VALUE" of an INI file (circus); its section may be for another program. */
static bool note_spaced(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	const char *rest = scan->text + scan->at;
	const char *name = flmem_launch_variable_name(word->text, strlen(word->text));
	size_t blanks = strspn(rest, " \t");

	if (scan->shell || !name || !blanks || rest[blanks] != '=' || word->place.column != 1)
		return false;
	flmem_launch_add_variable(scan->launches, name, NULL, -1, &word->place);
	return true;
}

/* Reads NAME=VALUE, also after "Environment=" of a unit or "--env=" of docker run. */
static bool note_assignment(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char *const prefixes[] = {
		"Environment=", "--env=", "--setenv=", "--set-env=", "-e"};
	const char *text = word->text, *equals;
	const char *name;
	bool appends;

	if (scan->now.launch >= 0) /* it is an argument of the program */
		return false;
	if (note_default(scan, word) || note_for_apptainer(scan, word) || note_input(scan, word) ||
	    note_spaced(scan, word))
		return true;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(prefixes); i++)
		if (flmem_text_starts(text, prefixes[i]))
			text += strlen(prefixes[i]);
	equals = strchr(text, '=');
	appends = scan->shell && equals && equals > text && equals[-1] == '+';
	name = equals ? flmem_launch_variable_name(text, (size_t)(equals - text) - appends) : NULL;
	if (!name)
		return flmem_launch_note_list(scan, word);
	flmem_launch_add_variable(scan->launches, name, appends ? NULL : equals + 1, -1,
				  &word->place);
	return true;
}

/* Reads type=tmpfs,destination=/tmp of docker run --mount. */
static void note_mount_option(struct flmem_launch_scan *scan, const char *text,
			      const struct flmem_place *place)
{
	static const char *const keys[] = {"destination=", "dst=", "target="};

	if (!strstr(text, "type=tmpfs"))
		return;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(keys); i++) {
		const char *found = strstr(text, keys[i]);

		if (found)
			flmem_launch_add_mount(scan->launches, found + strlen(keys[i]), -1, place);
	}
}

/* Reads mounts of docker run and TemporaryFileSystem= of a unit. They apply to the whole file. */
static void note_mount(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char tmpfs[] = "--tmpfs", mount[] = "--mount", unit[] = "TemporaryFileSystem=";
	const char *text = word->text;

	if (scan->after_tmpfs)
		flmem_launch_add_mount(scan->launches, text, -1, &word->place);
	else if (scan->after_mount)
		note_mount_option(scan, text, &word->place);
	else if (flmem_text_starts(text, "--tmpfs="))
		flmem_launch_add_mount(scan->launches, text + sizeof(tmpfs), -1, &word->place);
	else if (flmem_text_starts(text, "--mount="))
		note_mount_option(scan, text + sizeof(mount), &word->place);
	else if (flmem_text_starts(text, unit))
		flmem_launch_add_mount(scan->launches, text + sizeof(unit) - 1, -1, &word->place);
	scan->after_tmpfs = strcmp(text, tmpfs) == 0;
	scan->after_mount = strcmp(text, mount) == 0;
}

/* Notes the last part of the folder that cd, WORKDIR or WorkingDirectory= enters. */
static void note_folder(struct flmem_launch_scan *scan, const char *text)
{
	static const char *const commands[] = {"cd", "pushd", "WORKDIR"};
	static const char unit[] = "WorkingDirectory=";
	bool enters = flmem_text_starts(text, unit);
	size_t length, start;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(commands); i++)
		enters |= strcmp(scan->now.previous, commands[i]) == 0;
	if (!enters)
		return;
	if (flmem_text_starts(text, unit))
		text += sizeof(unit) - 1;
	for (length = strlen(text); length > 1 && text[length - 1] == '/';)
		length--;
	for (start = length; start && text[start - 1] != '/';)
		start--;
	snprintf(scan->folder, sizeof(scan->folder), "%.*s", (int)(length - start), text + start);
}

/* Keeps ENTRYPOINT ["nvflare"] for CMD ["simulator", "job"], which holds its arguments. */
static void keep_entry(struct flmem_launch_scan *scan)
{
	const struct flmem_launch_statement *now = &scan->now;

	if (scan->shell || strcmp(now->command, "ENTRYPOINT") != 0 || now->launch >= 0)
		return;
	memcpy(scan->entry.previous, now->previous, sizeof(now->previous));
	memcpy(scan->entry.earlier, now->earlier, sizeof(now->earlier));
	scan->entry.interprets = now->interprets;
	scan->entry.option = now->option;
}

static void follow_entry(struct flmem_launch_scan *scan)
{
	struct flmem_launch_statement *now = &scan->now;

	if (scan->shell || strcmp(now->command, "CMD") != 0 || strcmp(now->previous, "CMD") != 0 ||
	    !*scan->entry.previous)
		return;
	memcpy(now->previous, scan->entry.previous, sizeof(now->previous));
	memcpy(now->earlier, scan->entry.earlier, sizeof(now->earlier));
	now->interprets = scan->entry.interprets;
	now->option = scan->entry.option;
}

/* Reads a word as a program. If flmem starts it, the settings that flmem adds are not known. */
static void note_program(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	const char *text = flmem_launch_skip_key(scan, word->text);
	char program_name[FLMEM_LAUNCH_PROGRAM_MAX];
	const char *name = flmem_launch_program_of(scan, text, program_name);
	struct flmem_launch launch = {
		.place = word->place, .scope = scan->scope, .dropper = scan->now.dropper};
	const struct flmem_launch_program *program =
		find_launch_program(scan, text, &launch.framework);
	const char *doubt;

	note_folder(scan, word->text);
	if (flmem_launch_note_command(scan, word))
		return;
	flmem_launch_note_python(scan, word, name);
	if ((strcmp(scan->now.previous, "flmem") == 0 &&
	     (!strcmp(name, "env") || !strcmp(name, "start"))) ||
	    strstr(word->text, "flmem env")) /* eval "$(flmem env ...)" */
		scan->launches->open = true;
	memcpy(scan->now.earlier, scan->now.previous, sizeof(scan->now.earlier));
	snprintf(scan->now.previous, FLMEM_LAUNCH_PROGRAM_MAX, "%s", name);
	if (!*scan->now.command)
		memcpy(scan->now.command, scan->now.previous, sizeof(scan->now.command));
	follow_entry(scan);
	if (!program || scan->now.shows_only)
		return;
	doubt = scan->in_array ? "an array holds the command, which may run later" : program->doubt;
	launch.role = program->role;
	launch.doubted = doubt;
	scan->now.launch = flmem_launch_add(scan->launches, &launch);
	if (doubt)
		flmem_launch_add_doubt(scan->launches, &word->place, doubt);
}

/* Splits "-mPACKAGE.MODULE" of Python, which is two words in one. */
static void note_program_word(struct flmem_launch_scan *scan, struct flmem_launch_word *word)
{
	bool joined = scan->now.interprets && flmem_text_starts(word->text, "-m") &&
		      flmem_text_starts(scan->now.previous, "python") && word->text[2];

	if (joined) {
		char first = word->text[2];

		word->text[2] = '\0';
		note_program(scan, word);
		word->text[2] = first;
		memmove(word->text, word->text + 2, strlen(word->text) - 1);
	}
	note_program(scan, word);
}

/* Whether a command may start a program without naming it: NAME=VALUE python3 job.py. */
static bool may_start(const struct flmem_launch_scan *scan)
{
	static const char *const starts[] = {"python", "start.sh", "sub_start.sh", "srun",
					     "mpirun", "nohup",	   "exec"};

	if (!scan->shell || scan->now.launch >= 0 || scan->now.exports)
		return false;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(starts); i++)
		if (flmem_text_starts(scan->now.command, starts[i]))
			return true;
	return scan->now.runs_file;
}

/* Whether the statement is ARG of a Dockerfile, which programs of the image do not get. */
static bool is_build_argument(const struct flmem_launch_scan *scan)
{
	return !scan->shell && strcmp(scan->now.command, "ARG") == 0;
}

/* Notes commands of a unit that set nothing for ExecStart=, except "set-environment". */
static void note_unit_command(struct flmem_launch_scan *scan, const char *text)
{
	static const char *const keys[] = {
		"ExecStartPre=", "ExecStartPost=", "ExecCondition=", "ExecReload=", "ExecStop="};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(keys) && !scan->shell; i++)
		scan->now.for_itself |= flmem_text_starts(text, keys[i]);
	if (strcmp(text, "set-environment") == 0)
		scan->now.for_itself = false;
}

/* Notes sections of an Apptainer definition that run while it is built, or set nothing. */
static void note_section(struct flmem_launch_scan *scan, const struct flmem_launch_word *word)
{
	static const char *const run[] = {"%environment", "%runscript", "%startscript", "%apprun",
					  NULL};
	const char *text = word->text;

	if (scan->shell || *text != '%' || word->place.column != 1)
		return;
	scan->build_section = !flmem_text_is_one_of(text, run) &&
			      (strcmp(text, "%appenv") != 0 || !strstr(scan->text, "%apprun"));
}

/* Whether an end holds for later assignments, too: UnsetEnvironment= of a unit, ENTRYPOINT. */
static bool ends_for_file(const struct flmem_launch_scan *scan)
{
	return !scan->shell && (strcmp(scan->now.command, "ENTRYPOINT") == 0 ||
				flmem_text_starts(scan->now.command, "UnsetEnvironment="));
}

/* Removes ends of variables (sudo, env -u) if the command starts nothing: they end with it. */
static void forget_ends(struct flmem_launch_scan *scan)
{
	struct flmem_launches *launches = scan->launches;
	size_t kept = scan->now.first_variable;

	if (ends_for_file(scan) || scan->now.launch >= 0 || scan->now.unsets || scan->now.runs_file)
		return;
	for (size_t i = scan->now.first_variable; i < launches->variable_count; i++)
		if (!launches->variables[i].unset || launches->variables[i].launch >= 0)
			launches->variables[kept++] = launches->variables[i];
	launches->variable_count = kept;
}

void flmem_launch_end_statement(struct flmem_launch_scan *scan)
{
	struct flmem_launches *launches = scan->launches;
	const struct flmem_launch_statement *now = &scan->now;
	bool own, apart, others;
	unsigned char scope;

	keep_entry(scan);
	forget_ends(scan);
	others = flmem_launch_sets_by_function(scan);
	own = now->first_variable < launches->variable_count && !others && may_start(scan);
	apart = now->first_variable < launches->variable_count && now->apart && now->launch < 0;
	scope = own || apart ? flmem_launch_own_scope(scan) : scan->scope;

	if (((scan->build_step || scan->build_section || now->for_itself) && now->launch < 0) ||
	    is_build_argument(scan))
		launches->variable_count = now->first_variable;
	else
		flmem_launch_end_python(scan);
	for (size_t i = now->first_variable; i < launches->variable_count; i++) {
		struct flmem_launch_variable *row = &launches->variables[i];

		if (row->launch < 0)
			row->launch = now->launch;
		row->local = scan->shell && row->launch < 0 && !row->unset && !now->exports &&
			     !own && !others && !scan->exports_all &&
			     !flmem_launch_is_exported(scan, row->name);
		row->last = row->launch < 0 && ends_for_file(scan);
		row->scope = scope;
		row->launches_before = scan->shell ? (int)launches->launch_count : 0;
	}
	flmem_launch_end_launcher(scan);
	flmem_launch_end_wrapper(scan);
	flmem_launch_end_found(scan);
	scan->now = (struct flmem_launch_statement){.launch = -1,
						    .first_variable = launches->variable_count};
}

/* Begins a stage of a Dockerfile: it has only the variables of its image. */
static void note_stage(struct flmem_launch_scan *scan, const char *image)
{
	struct flmem_launches *launches = scan->launches;
	char again[FLMEM_LAUNCH_WORD_MAX + 4];
	const char *again_at;

	launches->cut |= scan->stages == STAGES_MAX;
	scan->stages += scan->stages < STAGES_MAX;
	snprintf(again, sizeof(again), "AS %s", image);
	again_at = launches->cut ? NULL : strcasestr(scan->text, again);
	if (again_at && again_at < scan->text + scan->line_start)
		return;
	launches->variable_count = scan->now.first_variable = 0;
	scan->entry = (struct flmem_launch_entry){0};
	launches->musl = strstr(image, "alpine");
}

static void note_image_word(struct flmem_launch_scan *scan, const struct flmem_launch_word *word,
			    const char *before)
{
	if (scan->now.after_env)
		scan->now.pending = flmem_launch_variable_name(word->text, strlen(word->text));
	scan->now.after_env = strcmp(word->text, "ENV") == 0;
	if (strcmp(before, "FROM") == 0)
		note_stage(scan, word->text);
	if (strcmp(word->text, "RUN") == 0 && !*scan->now.command && !scan->shell)
		scan->build_step = true;
}

static void note_word(struct flmem_launch_scan *scan, struct flmem_launch_word *word,
		      const char *before)
{
	if (scan->shell ? flmem_launch_note_keyword(scan, word->text) ||
				  flmem_launch_note_heredoc(scan, word)
			: flmem_launch_note_image_heredoc(scan, word))
		return;
	scan->now.mentions_variable |= flmem_launch_mentions_variable(word->text);
	note_unit_command(scan, word->text);
	note_section(scan, word);
	note_mount(scan, word);
	flmem_launch_note_source(scan, word);
	if (scan->shell)
		flmem_launch_note_export(scan, word->text, before);
	flmem_launch_note_steps(scan, word->text);
	if (scan->now.pending) {
		flmem_launch_add_variable(scan->launches, scan->now.pending, word->text, -1,
					  &word->place);
		scan->now.pending = NULL;
		return;
	}
	flmem_launch_note_wrapper(scan, word);
	note_image_word(scan, word, before);
	flmem_launch_note_runner(scan, word, before);
	flmem_launch_note_output(scan, word);
	flmem_launch_note_commands(scan, word, before);
	flmem_launch_note_found(scan, word);
	if (flmem_launch_note_submission(scan, word, before) ||
	    flmem_launch_only_names(scan, word, before))
		return;
	if (!flmem_launch_note_text(scan, word, before) &&
	    !(scan->shell && flmem_launch_note_quoted(scan, word)) && !note_assignment(scan, word))
		note_program_word(scan, word);
}

void flmem_launch_read_script(const char *text, bool shell, struct flmem_launches *launches)
{
	struct flmem_launch_scan scan = {
		.text = text, .line = 1, .launches = launches, .shell = shell};
	char before[8] = "";

	launches->shell = shell;
	if (!launches->text)
		launches->text = text;
	scan.now.launch = -1;
	while (skip_to_word(&scan)) {
		struct flmem_launch_word word;

		scan.any_word = true;
		flmem_launch_read_word(&scan, &word);
		note_word(&scan, &word, before);
		snprintf(before, sizeof(before), "%.7s", word.text);
	}
	flmem_launch_end_statement(&scan);
}
