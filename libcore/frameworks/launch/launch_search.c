/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/launch/launch_search.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_calls.h"
#include "frameworks/launch/launch_programs.h"
#include "frameworks/launch/launch_scan.h"

/* Variables that are checked for programs of every framework; each framework has further ones. */
static const char *const variable_names[] = {
	FLMEM_LAUNCH_ARENA_MAX, FLMEM_LAUNCH_LD_PRELOAD, FLMEM_LAUNCH_MALLOC_CONF,
	FLMEM_LAUNCH_TMPDIR,	FLMEM_LAUNCH_TUNABLES,	 NULL,
};

/* Whether a text holds two words one after the other, also in a list: ["nvflare", "simulator"]. */
static bool mentions_words(const char *text, const char *first, const char *second)
{
	while ((text = strstr(text, first))) {
		size_t gap;

		text += strlen(first);
		gap = strspn(text, " \t\"',-\r\n\\)`"); /* also $(which PROGRAM) VERB */
		if (gap && flmem_text_starts(text + gap, second))
			return true;
	}
	return false;
}

/* Whether a text enters a folder and names a file in it: "cd SITE/startup && ./start.sh". */
static bool mentions_folder(const char *text, const char *word)
{
	static const char before[] = "/ \t=\"'", after[] = "/ \t\r\n;&|)\"'";
	size_t length = strcspn(word, "/");
	const char *name = word + length;

	if (!*name || !strchr(name, '.') || !strstr(text, name + 1))
		return false;
	for (const char *at = text, *end = text + strlen(text);
	     (at = memmem(at, (size_t)(end - at), word, length)); at++)
		if ((at == text || strchr(before, at[-1])) && strchr(after, at[length]))
			return true;
	return false;
}

bool flmem_launch_has_mark(const char *text, const struct flmem_launch_program *program)
{
	const char *const *mark = program->marks;

	while (mark && *mark && !strcasestr(text, *mark))
		mark++;
	return !mark || *mark;
}

bool flmem_launch_marks(struct flmem_launches *launches, const struct flmem_launch_program *program)
{
	struct flmem_launch_marks *kept = &launches->marks;

	if (!program->marks)
		return true;
	if (kept->marks != program->marks)
		*kept = (struct flmem_launch_marks){
			.marks = program->marks,
			.found = flmem_launch_has_mark(launches->text, program)};
	return kept->found;
}

/*
 * Whether `part` names a program; its two words have to be one after the other. `launches` are
 * those of `text`, or NULL.
 */
static bool mentions_program(const char *text, const char *part,
			     const struct flmem_launch_program *program,
			     struct flmem_launches *launches)
{
	bool folder = false;

	if (program->before && !mentions_words(part, program->before, program->word))
		return false;
	if (!program->before && !strstr(part, program->word)) {
		folder = mentions_folder(part, program->word);
		if (!folder)
			return false;
	}
	/* The text is searched last: it is the whole file, while the part is short. */
	if (program->of && !strstr(text, program->of))
		return false;
	if (!folder)
		return true;
	return launches ? flmem_launch_marks(launches, program)
			: flmem_launch_has_mark(text, program);
}

const struct flmem_launch_program *flmem_launch_program_in(enum flmem_framework framework,
							   const char *text, const char *part)
{
	const struct flmem_framework_ops *own = flmem_framework_ops_of(framework);

	for (const struct flmem_launch_program *p = own ? own->programs : NULL; p && p->word; p++)
		if (mentions_program(text, part, p, NULL))
			return p;
	return NULL;
}

static bool mentions_any_program(const char *text, const char *part,
				 struct flmem_launches *launches)
{
	struct flmem_launch_programs at = {0};
	const struct flmem_launch_program *p;

	while ((p = flmem_launch_program_next(&at)))
		if (mentions_program(text, part, p, launches))
			return true;
	return false;
}

bool flmem_launch_is_likely_in(const char *text, const char *part)
{
	return mentions_any_program(text, part, NULL);
}

bool flmem_launch_is_likely_for(struct flmem_launches *launches, const char *part)
{
	return mentions_any_program(launches->text, part, launches);
}

bool flmem_launch_is_likely(const char *text)
{
	return flmem_launch_is_likely_in(text, text);
}

bool flmem_launch_is_split(const char *text)
{
	static const char *const keys[] = {"entrypoint", "ENTRYPOINT", "args:", "executable",
					   "args =",	 "args=",      NULL};
	struct flmem_launch_programs at = {0};
	const struct flmem_launch_program *p;
	bool any = false;

	for (size_t i = 0; keys[i]; i++)
		any |= strstr(text, keys[i]) != NULL;
	while (any && (p = flmem_launch_program_next(&at)))
		if (flmem_launch_has_verb(p) && strstr(text, p->before) && strstr(text, p->word))
			return true;
	return false;
}

static const char *find_listed_name(const char *const *names, const char *text, size_t length)
{
	for (; names && *names; names++)
		if (strlen(*names) == length && strncmp(text, *names, length) == 0)
			return *names;
	return NULL;
}

const char *flmem_launch_variable_name(const char *text, size_t length)
{
	const char *name = find_listed_name(variable_names, text, length);

	for (size_t i = 0; flmem_frameworks[i] && !name; i++)
		name = find_listed_name(flmem_frameworks[i]->variables, text, length);
	return name;
}

const char *flmem_launch_name_at(size_t index)
{
	size_t count = FLMEM_ARRAY_SIZE(variable_names) - 1;

	if (index < count)
		return variable_names[index];
	index -= count;
	for (size_t i = 0; flmem_frameworks[i]; i++)
		for (const char *const *name = flmem_frameworks[i]->variables; name && *name;
		     name++)
			if (!index--)
				return *name;
	return NULL;
}

bool flmem_launch_mentions_variable(const char *text)
{
	const char *name;

	for (size_t i = 0; (name = flmem_launch_name_at(i)); i++)
		if (strstr(text, name))
			return true;
	return false;
}

/*
 * Finds the value in "${NAME:-VALUE}" and "${NAME:=VALUE}", which holds if nothing else is set.
 * Returns false if the value is not known.
 */
static bool split_default_value(const char *value, const char **ret_start, size_t *ret_length)
{
	const char *fallback = flmem_text_starts(value, "${") ? strchr(value, ':') : NULL;
	size_t length = strlen(value);

	if (fallback && !strchr("-=", fallback[1]))
		fallback = NULL;
	*ret_start = value;
	*ret_length = length;
	if (fallback && value[length - 1] == '}') {
		*ret_start = fallback + 2;
		*ret_length = length - (size_t)(fallback + 2 - value) - 1;
	}
	return !memchr(*ret_start, '$', *ret_length) && !memchr(*ret_start, '`', *ret_length) &&
	       !memmem(*ret_start, *ret_length, "{{", 2); /* "{{": a template fills it in */
}

void flmem_launch_add_variable(struct flmem_launches *launches, const char *name, const char *value,
			       int launch, const struct flmem_place *place)
{
	struct flmem_launch_variable *row;
	const char *start;
	size_t length;

	if (!place)
		return;
	if (launches->variable_count == FLMEM_LAUNCH_VARIABLES_MAX) {
		launches->cut = true;
		return;
	}
	row = &launches->variables[launches->variable_count++];
	*row = (struct flmem_launch_variable){.name = name, .launch = launch, .place = *place};
	if (!value || !split_default_value(value, &start, &length) || length >= sizeof(row->value))
		return;
	row->known = true;
	memcpy(row->value, start, length);
}

void flmem_launch_add_mount(struct flmem_launches *launches, const char *path, int launch,
			    const struct flmem_place *place)
{
	struct flmem_launch_mount *row;
	size_t length = strcspn(path, ":,");

	if (*path != '/')
		return;
	if (launches->mount_count == FLMEM_LAUNCH_MOUNTS_MAX || length >= sizeof(row->path)) {
		launches->cut = true;
		return;
	}
	row = &launches->mounts[launches->mount_count++];
	*row = (struct flmem_launch_mount){.launch = launch, .place = *place};
	memcpy(row->path, path, length);
}

int flmem_launch_add(struct flmem_launches *launches, const struct flmem_launch *launch)
{
	if (launches->launch_count == FLMEM_LAUNCHES_MAX) {
		launches->cut = true;
		return -1;
	}
	launches->launches[launches->launch_count] = *launch;
	launches->launches[launches->launch_count].musl = launches->musl;
	return (int)launches->launch_count++;
}

void flmem_launch_add_doubt(struct flmem_launches *launches, const struct flmem_place *place,
			    const char *why)
{
	if (launches->doubt_count < FLMEM_LAUNCH_DOUBTS_MAX)
		launches->doubts[launches->doubt_count++] = (struct flmem_launch_doubt){
			.place = *place, .why = why, .musl = launches->musl};
	else
		launches->cut = true;
}

void flmem_launch_add_script(struct flmem_launches *launches, const struct flmem_place *place,
			     const char *script)
{
	size_t count = launches->doubt_count;
	struct flmem_launch_doubt *row = &launches->doubts[count];

	flmem_launch_add_doubt(launches, place,
			       "it runs Python whose settings are checked only "
			       "where its file is named, too");
	if (launches->doubt_count > count)
		snprintf(row->script, sizeof(row->script), "%s", flmem_text_basename(script));
}

/* Shortens a place to its line without blanks around it. Returns false if the line is blank. */
static bool trim_line(const char *text, struct flmem_place *place)
{
	size_t blanks = strspn(text + place->start, " \t");

	place->start += blanks;
	place->column = (unsigned)blanks + 1;
	place->end = place->start + strcspn(text + place->start, "\r\n");
	while (place->end > place->start && strchr(" \t", text[place->end - 1]))
		place->end--;
	return place->end > place->start;
}

struct flmem_place flmem_launch_first_line(const char *text)
{
	struct flmem_place place = {.line = 1, .column = 1};

	while (!trim_line(text, &place) && text[place.start]) {
		place.start += strcspn(text + place.start, "\n");
		place.start += text[place.start] != '\0';
		place.line++;
	}
	return place;
}

/* Adds one doubt about a file that is not read, at the first line about a framework. */
static void note_unread(const char *text, struct flmem_launches *launches)
{
	struct flmem_place place = {.line = 1, .column = 1};
	const char *all = text;
	struct flmem_buf part = {0};

	while (*text) {
		FLMEM_AUTO_FREE char *line = strndup(text, strcspn(text, "\n"));

		if (!line)
			break;
		part.data = line;
		part.length = strlen(line);
		if (flmem_launch_is_likely_in(all, line) || flmem_launch_mentions_variable(line) ||
		    flmem_launch_owner(&part) || strstr(line, ".py"))
			break;
		part.length += text[part.length] == '\n';
		place.start += part.length;
		text += part.length;
		place.line++;
	}
	if (!trim_line(all, &place)) /* several lines together show the framework */
		place = flmem_launch_first_line(all);
	flmem_launch_add_doubt(launches, &place,
			       "files of this kind are not read: check what runs");
}

void flmem_launches_read(const struct flmem_rule_input *input, struct flmem_launches *ret_launches)
{
	const char *text = input->document.text.data;

	*ret_launches = (struct flmem_launches){.text = text};
	if (input->document.syntax == FLMEM_SYNTAX_PLAIN &&
	    flmem_launch_is_unread(input->file, text))
		note_unread(text, ret_launches);
	else if (input->document.syntax == FLMEM_SYNTAX_PLAIN)
		flmem_launch_read_plain(input->file, text, ret_launches);
	else if (flmem_syntax_is_python(input->document.syntax))
		flmem_launch_read_calls(input, ret_launches);
	else if (input->document.root && input->document.syntax != FLMEM_SYNTAX_YAML)
		flmem_launch_read_tasks(input->document.root, ret_launches);
	else if (input->document.root)
		flmem_launch_read_yaml(input->document.root, ret_launches);
	if (input->document.syntax == FLMEM_SYNTAX_YAML ||
	    input->document.syntax == FLMEM_SYNTAX_JSON)
		flmem_launch_read_embedded(input->document.root, ret_launches);
}

bool flmem_launch_is(const struct flmem_launch_variable *variable, const char *name)
{
	return strcmp(variable->name, name) == 0;
}

static bool is_scope_above(const struct flmem_launches *launches, unsigned char scope,
			   unsigned char below)
{
	while (below != scope && below)
		below = launches->scopes[below].parent;
	return below == scope;
}

/*
 * Whether a variable that is set before a launch reaches it, by the parts of the script that end
 * between the two.
 */
static enum flmem_launch_reach reach_out(const struct flmem_launches *launches,
					 const struct flmem_launch_variable *variable,
					 unsigned char launch)
{
	enum flmem_launch_reach reach = FLMEM_LAUNCH_ALWAYS;
	bool decided = false;

	for (unsigned char s = variable->scope; !is_scope_above(launches, s, launch);
	     s = launches->scopes[s].parent) {
		enum flmem_launch_scope_kind kind = launches->scopes[s].kind;

		if (kind == FLMEM_LAUNCH_SUBSHELL || kind == FLMEM_LAUNCH_WORDS)
			return FLMEM_LAUNCH_NEVER;
		if (kind != FLMEM_LAUNCH_GROUP)
			reach = FLMEM_LAUNCH_PERHAPS;
		decided |= launches->scopes[s].decided;
	}
	return decided ? FLMEM_LAUNCH_ALWAYS : reach;
}

/*
 * Whether the launch is in a function that is defined before the variable is set, and may be called
 * later.
 */
static bool is_in_function(const struct flmem_launches *launches,
			   const struct flmem_launch_variable *variable, unsigned char launch)
{
	for (; !is_scope_above(launches, launch, variable->scope);
	     launch = launches->scopes[launch].parent)
		if (launches->scopes[launch].kind == FLMEM_LAUNCH_FUNCTION)
			return true;
	return false;
}

enum flmem_launch_reach flmem_launch_reach(const struct flmem_launches *launches,
					   const struct flmem_launch_variable *variable, int launch)
{
	unsigned char scope;

	if (variable->launch >= 0)
		return variable->launch == launch ? FLMEM_LAUNCH_ALWAYS : FLMEM_LAUNCH_NEVER;
	if (variable->local)
		return FLMEM_LAUNCH_NEVER;
	if (launch < 0)
		return FLMEM_LAUNCH_ALWAYS;
	scope = launches->launches[launch].scope;
	if (variable->launches_before <= launch)
		return reach_out(launches, variable, scope);
	return is_in_function(launches, variable, scope) ? FLMEM_LAUNCH_PERHAPS
							 : FLMEM_LAUNCH_NEVER;
}

/* Which variables override others: the later ones in this list. */
enum variable_rank {
	OF_FILE,
	LAST_OF_FILE,
	OF_CONTAINER,
	OF_COMMAND,
	RANKS,
};

static enum variable_rank rank_of(const struct flmem_launch_variable *row)
{
	if (row->launch < 0)
		return row->last ? LAST_OF_FILE : OF_FILE;
	return row->of_container ? OF_CONTAINER : OF_COMMAND;
}

const struct flmem_launch_variable *flmem_launch_find(const struct flmem_launches *launches,
						      int launch, const char *name)
{
	const struct flmem_launch_variable *found = NULL;

	for (size_t i = 0; i < RANKS * launches->variable_count; i++) {
		const struct flmem_launch_variable *row =
			&launches->variables[i % launches->variable_count];
		enum flmem_launch_reach reach;

		if (rank_of(row) != i / launches->variable_count ||
		    (!flmem_launch_is(row, name) && *row->name))
			continue;
		reach = flmem_launch_reach(launches, row, launch);
		if (row->unset ? reach == FLMEM_LAUNCH_ALWAYS : reach != FLMEM_LAUNCH_NEVER)
			found = row->unset ? NULL : row;
	}
	return found;
}

const struct flmem_launch_variable *flmem_launch_find_lost(const struct flmem_launches *launches,
							   int launch, const char *name)
{
	for (size_t i = launches->variable_count; i--;) {
		const struct flmem_launch_variable *row = &launches->variables[i];

		if (!row->unset && (row->launch < 0 || row->launch == launch) &&
		    flmem_launch_is(row, name))
			return row;
	}
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
