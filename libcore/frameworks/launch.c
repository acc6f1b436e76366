/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/launch.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/framework.h"
#include "frameworks/launch_scan.h"

#define WORD_MAX    512
#define PROGRAM_MAX 64

/* The variables of any program; a framework lists its own in its table. */
static const char *const variable_names[] = {
	FLMEM_LAUNCH_ARENA_MAX, FLMEM_LAUNCH_LD_PRELOAD, FLMEM_LAUNCH_MALLOC_CONF,
	FLMEM_LAUNCH_TMPDIR,	FLMEM_LAUNCH_TUNABLES,	 NULL,
};

/* A program of two words counts if they are one after the other. */
static bool mentions_program(const char *text, const struct flmem_launch_program *program)
{
	size_t length = program->before ? strlen(program->before) : 0;
	const char *at = text;

	if (!program->before)
		return strstr(text, program->word);
	while ((at = strstr(at, program->before))) {
		at += length;
		if (*at == ' ' && flmem_text_starts(at + 1, program->word))
			return true;
	}
	return false;
}

bool flmem_launch_is_likely(const char *text)
{
	for (size_t i = 0; flmem_frameworks[i]; i++)
		for (const struct flmem_launch_program *p = flmem_frameworks[i]->programs;
		     p && p->word; p++)
			if (mentions_program(text, p))
				return true;
	return false;
}

/* One word of a script: its text without quotes, and its place. */
struct word {
	struct flmem_place place;
	char text[WORD_MAX];
};

struct scan {
	const char *text;
	size_t at, line_start;
	unsigned line;
	bool line_ended; /* the line has ended before the last word, other than after a backslash */
	struct flmem_launches *launches;
	int current;		    /* the launch on this line, or -1 */
	size_t first_of_line;	    /* the first variable of this line */
	char previous[PROGRAM_MAX]; /* last part of the word before on this line */
	const char *pending; /* its value is the next word: Dockerfile's ENV NAME VALUE; or NULL */
	bool after_env;
	bool shell; /* the file is a script, whose variables have to be exported */
	bool declares, exports, unsets; /* this line does */
	bool exports_all;		/* set -a */
	const char *exported[8];	/* by name alone; ends in NULL */
	bool after_tmpfs, after_mount;	/* options of docker run whose value is the next word */
};

static void skip_bytes(struct scan *scan, size_t count)
{
	for (; count && scan->text[scan->at]; count--) {
		if (scan->text[scan->at++] == '\n') {
			scan->line++;
			scan->line_start = scan->at;
		}
	}
}

/* Skips blanks, separators, comments and line ends before a word. False at the end. */
static bool skip_to_word(struct scan *scan)
{
	for (;;) {
		const char *p = scan->text + scan->at;

		if (!*p)
			return false;
		if (*p == '\\' && (p[1] == '\n' || (p[1] == '\r' && p[2] == '\n'))) {
			skip_bytes(scan, p[1] == '\n' ? 2 : 3);
		} else if (*p == '#') {
			skip_bytes(scan, strcspn(p, "\n"));
		} else if (*p == '\n' || *p == ';' || *p == '&' || *p == '|') {
			scan->line_ended = true;
			skip_bytes(scan, 1);
		} else if (strchr(" \t\r,[](){}", *p)) {
			skip_bytes(scan, 1);
		} else {
			return true;
		}
	}
}

static void append_char(struct word *word, size_t *length, char c)
{
	if (*length + 1 < sizeof(word->text))
		word->text[(*length)++] = c;
}

/* Reads a word and removes its quotes; ${...} is kept whole. */
static void read_launch_word(struct scan *scan, struct word *word)
{
	size_t length = 0;
	char quote = '\0';

	word->place = (struct flmem_place){
		.start = scan->at,
		.line = scan->line,
		.column = (unsigned)(scan->at - scan->line_start + 1),
	};
	for (;;) {
		char c = scan->text[scan->at];

		if (!c || (!quote && strchr(" \t\r\n;&|()[]", c)) || (quote && c == '\n'))
			break;
		if (c == '$' && scan->text[scan->at + 1] == '{') {
			size_t end = strcspn(scan->text + scan->at, "}\n");

			for (size_t i = 0; i < end; i++)
				append_char(word, &length, scan->text[scan->at + i]);
			skip_bytes(scan, end);
			continue;
		}
		if (c == quote || (!quote && (c == '"' || c == '\''))) {
			quote = quote ? '\0' : c;
			skip_bytes(scan, 1);
			if (!quote && scan->text[scan->at] == ',')
				break;
			continue;
		}
		append_char(word, &length, c);
		skip_bytes(scan, 1);
	}
	word->text[length] = '\0';
	word->place.end = scan->at;
}

static const char *find_listed_name(const char *const *names, const char *text, size_t length)
{
	for (; names && *names; names++)
		if (strlen(*names) == length && strncmp(text, *names, length) == 0)
			return *names;
	return NULL;
}

/* The name as the tables spell it; NULL: no rule checks the variable. */
const char *flmem_launch_variable_name(const char *text, size_t length)
{
	const char *name = find_listed_name(variable_names, text, length);

	for (size_t i = 0; flmem_frameworks[i] && !name; i++)
		name = find_listed_name(flmem_frameworks[i]->variables, text, length);
	return name;
}

/* "${NAME:-VALUE}" is VALUE if nothing else is set; other expansions are unknown. */
static bool split_default_value(const char *value, const char **ret_start, size_t *ret_length)
{
	const char *fallback = flmem_text_starts(value, "${") ? strstr(value, ":-") : NULL;
	size_t length = strlen(value);

	*ret_start = value;
	*ret_length = length;
	if (fallback && value[length - 1] == '}') {
		*ret_start = fallback + 2;
		*ret_length = length - (size_t)(fallback + 2 - value) - 1;
	}
	return !memchr(*ret_start, '$', *ret_length) && !memchr(*ret_start, '`', *ret_length);
}

/* A value of NULL is not known. */
void flmem_launch_add_variable(struct flmem_launches *launches, const char *name, const char *value,
			       int launch, const struct flmem_place *place)
{
	struct flmem_launch_variable *row;
	const char *start;
	size_t length;

	if (launches->variable_count == FLMEM_LAUNCH_VARIABLES_MAX || !place)
		return;
	row = &launches->variables[launches->variable_count++];
	*row = (struct flmem_launch_variable){.name = name, .launch = launch, .place = *place};
	if (!value || !split_default_value(value, &start, &length) || length >= sizeof(row->value))
		return;
	row->known = true;
	memcpy(row->value, start, length);
}

/* Adds a path, which may be followed by a colon and options. */
void flmem_launch_add_mount(struct flmem_launches *launches, const char *path, int launch,
			    const struct flmem_place *place)
{
	struct flmem_launch_mount *row;
	size_t length = strcspn(path, ":,");

	if (launches->mount_count == FLMEM_LAUNCH_MOUNTS_MAX || *path != '/' ||
	    length >= sizeof(row->path))
		return;
	row = &launches->mounts[launches->mount_count++];
	*row = (struct flmem_launch_mount){.launch = launch, .place = *place};
	memcpy(row->path, path, length);
}

static int add_launch(struct flmem_launches *launches, const struct flmem_launch *launch)
{
	if (launches->launch_count == FLMEM_LAUNCHES_MAX)
		return -1;
	launches->launches[launches->launch_count] = *launch;
	return (int)launches->launch_count++;
}

/* The launch by a word, after another one; a role of FLMEM_ROLE_NONE if it starts nothing. */
static struct flmem_launch find_launch_of_word(const char *previous, const char *name)
{
	for (size_t i = 0; flmem_frameworks[i]; i++)
		for (const struct flmem_launch_program *p = flmem_frameworks[i]->programs;
		     p && p->word; p++)
			if (strcmp(name, p->word) == 0 &&
			    (!p->before || strcmp(previous, p->before) == 0))
				return (struct flmem_launch){.framework =
								     flmem_frameworks[i]->framework,
							     .role = p->role};
	return (struct flmem_launch){0};
}

/* NAME=VALUE, also after "Environment=" of a unit or "--env=" of docker run. */
static bool note_assignment(struct scan *scan, const struct word *word)
{
	static const char *const prefixes[] = {"Environment=", "--env=", "-e"};
	const char *text = word->text, *equals;
	struct flmem_place place = word->place;
	const char *name;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(prefixes); i++)
		if (flmem_text_starts(text, prefixes[i]))
			text += strlen(prefixes[i]);
	equals = strchr(text, '=');
	name = equals ? flmem_launch_variable_name(text, (size_t)(equals - text)) : NULL;
	if (!name)
		return false;
	flmem_launch_add_variable(scan->launches, name, equals + 1, -1, &place);
	return true;
}

/* type=tmpfs,destination=/tmp of docker run --mount. */
static void note_mount_option(struct scan *scan, const char *text, const struct flmem_place *place)
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

/* Mounts of docker run, and TemporaryFileSystem= of a unit. They apply to the whole file. */
static void note_mount(struct scan *scan, const struct word *word)
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

/* If flmem starts the program, the file does not show the settings that flmem adds. */
static void note_program(struct scan *scan, const struct word *word)
{
	const char *name = flmem_text_basename(word->text);
	struct flmem_launch launch = find_launch_of_word(scan->previous, name);

	if ((strcmp(scan->previous, "flmem") == 0 &&
	     (!strcmp(name, "env") || !strcmp(name, "start"))) ||
	    strstr(word->text, "flmem env")) /* eval "$(flmem env ...)" */
		scan->launches->open = true;
	snprintf(scan->previous, sizeof(scan->previous), "%.*s", PROGRAM_MAX - 1, name);
	launch.place = word->place;
	if (launch.role)
		scan->current = add_launch(scan->launches, &launch);
}

/* Where the name is in the list, or where the list ends. */
static size_t find_exported(const struct scan *scan, const char *name)
{
	size_t i = 0;

	while (scan->exported[i] && scan->exported[i] != name)
		i++;
	return i;
}

/* "export NAME", before or after the assignment. */
static void export_name(struct scan *scan, const char *name)
{
	size_t at = find_exported(scan, name);

	for (size_t i = 0; i < scan->launches->variable_count; i++)
		scan->launches->variables[i].local &= scan->launches->variables[i].name != name;
	if (at + 1 < FLMEM_ARRAY_SIZE(scan->exported))
		scan->exported[at] = name;
}

/* What was started before has the variable. */
static void unset_name(struct scan *scan, const char *name)
{
	const size_t size = FLMEM_ARRAY_SIZE(scan->exported);
	struct flmem_launches *launches = scan->launches;
	size_t kept = 0;

	for (size_t i = find_exported(scan, name); i + 1 < size && scan->exported[i]; i++)
		scan->exported[i] = scan->exported[i + 1];
	if (launches->launch_count)
		return;
	for (size_t i = 0; i < launches->variable_count; i++)
		if (launches->variables[i].name != name)
			launches->variables[kept++] = launches->variables[i];
	launches->variable_count = scan->first_of_line = kept;
}

/* The shell's ways of exporting: export, declare -x, typeset -x, set -a, set -o allexport. */
static void note_export(struct scan *scan, const char *text, const char *name, const char *before)
{
	if (strcmp(text, "declare") == 0 || strcmp(text, "typeset") == 0)
		scan->declares = true;
	else if (strcmp(text, "export") == 0 || (scan->declares && *text == '-'))
		scan->exports |= !scan->declares || strchr(text, 'x');
	else if ((strcmp(before, "set") == 0 && *text == '-' && strchr(text, 'a')) ||
		 strcmp(text, "allexport") == 0)
		scan->exports_all = true;
	else if (strcmp(text, "unset") == 0 && !*scan->previous)
		scan->unsets = true;
	else if (scan->unsets && name)
		unset_name(scan, name);
	else if (scan->exports && name)
		export_name(scan, name);
}

/* Variables in front of a command on the same line apply only to that command. */
static void end_launch_line(struct scan *scan)
{
	size_t count = scan->launches->variable_count;

	for (size_t i = scan->first_of_line; i < count; i++) {
		struct flmem_launch_variable *row = &scan->launches->variables[i];

		row->launch = scan->current;
		row->local = scan->shell && row->launch < 0 && !scan->exports &&
			     !scan->exports_all && !scan->exported[find_exported(scan, row->name)];
	}
	scan->first_of_line = count;
	scan->current = -1;
	scan->declares = scan->exports = scan->unsets = false;
	scan->previous[0] = '\0';
	scan->after_env = false;
	scan->pending = NULL;
}

/* `shell`: only exported variables reach the programs that it starts. */
static void read_script(const char *text, bool shell, struct flmem_launches *launches);

bool flmem_launch_read_inner(struct flmem_launches *launches, const char *text,
			     const struct flmem_place *place, int *launch)
{
	/* A text within a text needs three times as many quotes, so WORD_MAX bounds their depth. */
	struct flmem_launches inner = {0};

	if (!flmem_launch_is_likely(text))
		return false;
	read_script(text, false, &inner);
	launches->open |= inner.open;
	if (inner.launch_count) {
		inner.launches[0].place = *place;
		*launch = add_launch(launches, &inner.launches[0]);
	}
	for (size_t i = 0; i < inner.variable_count; i++)
		flmem_launch_add_variable(
			launches, inner.variables[i].name,
			inner.variables[i].known ? inner.variables[i].value : NULL, *launch, place);
	return true;
}

/* bash -c "COMMAND", one word that holds a command with its variables. */
static bool note_inner_command(struct scan *scan, const struct word *word, const char *before)
{
	size_t length = strlen(before);

	return length >= 2 && *before == '-' && before[length - 1] == 'c' &&
	       flmem_launch_read_inner(scan->launches, word->text, &word->place, &scan->current);
}

static void note_word(struct scan *scan, const struct word *word, const char *before)
{
	note_mount(scan, word);
	if (scan->shell)
		note_export(scan, word->text,
			    flmem_launch_variable_name(word->text, strlen(word->text)), before);
	if (scan->pending) {
		flmem_launch_add_variable(scan->launches, scan->pending, word->text, -1,
					  &word->place);
		scan->pending = NULL;
		return;
	}
	if (scan->after_env)
		scan->pending = flmem_launch_variable_name(word->text, strlen(word->text));
	scan->after_env = strcmp(word->text, "ENV") == 0;
	if (strcmp(before, "FROM") == 0 && strstr(word->text, "alpine"))
		scan->launches->musl = true;
	if (!note_inner_command(scan, word, before) && !note_assignment(scan, word))
		note_program(scan, word);
}

static void read_script(const char *text, bool shell, struct flmem_launches *launches)
{
	struct scan scan = {
		.text = text, .line = 1, .launches = launches, .current = -1, .shell = shell};
	char before[8] = "";

	while (skip_to_word(&scan)) {
		struct word word;
		size_t start = scan.at;

		if (scan.line_ended)
			end_launch_line(&scan);
		scan.line_ended = false;
		read_launch_word(&scan, &word);
		if (scan.at == start) /* a bracket or a similar character */
			skip_bytes(&scan, 1);
		note_word(&scan, &word, before);
		snprintf(before, sizeof(before), "%.7s", word.text);
	}
	end_launch_line(&scan);
}

void flmem_launches_read(const struct flmem_rule_input *input, struct flmem_launches *ret_launches)
{
	const char *text = input->document.text.data;

	*ret_launches = (struct flmem_launches){0};
	if (input->document.syntax == FLMEM_SYNTAX_PLAIN)
		read_script(text,
			    flmem_text_starts(text, "#!") || flmem_text_ends(input->file, ".sh"),
			    ret_launches);
	else if (input->document.root)
		flmem_launch_read_containers(input->document.root, ret_launches);
}

bool flmem_launch_is(const struct flmem_launch_variable *variable, const char *name)
{
	return strcmp(variable->name, name) == 0;
}

const struct flmem_launch_variable *flmem_launch_find(const struct flmem_launches *launches,
						      int launch, const char *name)
{
	const struct flmem_launch_variable *found = NULL;

	for (size_t i = 0; i < launches->variable_count; i++) {
		const struct flmem_launch_variable *row = &launches->variables[i];

		if (flmem_launch_is(row, name) && !row->local &&
		    (row->launch == launch || row->launch < 0))
			found = row;
	}
	return found;
}

const struct flmem_launch_variable *flmem_launch_find_local(const struct flmem_launches *launches,
							    const char *name)
{
	for (size_t i = 0; i < launches->variable_count; i++)
		if (launches->variables[i].local && flmem_launch_is(&launches->variables[i], name))
			return &launches->variables[i];
	return NULL;
}

const struct flmem_launch_mount *flmem_launch_mount_of(const struct flmem_launches *launches,
						       int launch, const char *path)
{
	for (size_t i = 0; i < launches->mount_count; i++) {
		const struct flmem_launch_mount *row = &launches->mounts[i];
		size_t length = strlen(row->path);

		while (length > 1 && row->path[length - 1] == '/')
			length--;
		if ((row->launch == launch || row->launch < 0) &&
		    strncmp(row->path, path, length) == 0 && (!path[length] || path[length] == '/'))
			return row;
	}
	return NULL;
}
