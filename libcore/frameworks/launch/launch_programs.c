/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/launch/launch_programs.h"

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "frameworks/launch/launch_scan.h"

const struct flmem_launch_program *flmem_launch_program_next(struct flmem_launch_programs *at)
{
	for (; flmem_frameworks[at->framework]; at->framework++, at->program = 0) {
		const struct flmem_launch_program *programs =
			flmem_frameworks[at->framework]->programs;

		at->owner = flmem_frameworks[at->framework];
		if (programs && programs[at->program].word)
			return &programs[at->program++];
	}
	return NULL;
}

/* Writes the function of a console script: flower_superlink. False if the program has none. */
static bool name_console_function(const struct flmem_launch_program *program,
				  char name[FLMEM_LAUNCH_PROGRAM_MAX])
{
	if (program->before || !strchr(program->word, '-'))
		return false;
	snprintf(name, FLMEM_LAUNCH_PROGRAM_MAX, "%s", program->word);
	for (char *c = name; (c = strchr(c, '-'));)
		*c = '_';
	return true;
}

/* A function that runs the command line of a framework when Python calls it or passes it on. */
struct entry_point {
	const struct flmem_framework_ops *owner;
	enum flmem_role role;
};

/* Whether a dotted name is `prefix` or a part of that package. */
static bool is_part_of_package(const char *path, const char *prefix)
{
	size_t length = strlen(prefix);

	return strncmp(path, prefix, length) == 0 && strchr(".", path[length]);
}

/* Finds the console script or command line whose function has this full name. */
static bool find_function(const char *path, struct entry_point *ret_entry)
{
	const char *dot = strrchr(path, '.');
	struct flmem_launch_programs at = {0};
	const struct flmem_launch_program *program;
	char name[FLMEM_LAUNCH_PROGRAM_MAX];

	while (dot && (program = flmem_launch_program_next(&at))) {
		if (!name_console_function(program, name) || strcmp(dot + 1, name) != 0 ||
		    !flmem_text_starts(path, at.owner->package))
			continue;
		*ret_entry = (struct entry_point){at.owner, program->role};
		return true;
	}
	for (size_t i = 0; dot && flmem_frameworks[i]; i++) {
		const char *const *function = flmem_frameworks[i]->command_functions;

		while (function && *function && strcmp(path, *function) != 0)
			function++;
		if (!function || !*function)
			continue;
		*ret_entry = (struct entry_point){.owner = flmem_frameworks[i]};
		return true;
	}
	return false;
}

/* Finds runpy.run_module("PACKAGE.part"), unless the string names a program by itself. */
static bool find_run_module(const struct flmem_node *call, struct entry_point *ret_entry)
{
	const char *path = flmem_node_string(flmem_node_get(call, "path"));
	const char *module = flmem_node_string(FLMEM_NODE_AT(call, "args", "0"));

	if (!module)
		module = flmem_node_string(FLMEM_NODE_AT(call, "args", "mod_name"));
	if (!path || !module || strcmp(path, "runpy.run_module") != 0 ||
	    flmem_launch_is_likely(module))
		return false;
	for (size_t i = 0; flmem_frameworks[i]; i++) {
		if (!is_part_of_package(module, flmem_frameworks[i]->package))
			continue;
		*ret_entry = (struct entry_point){.owner = flmem_frameworks[i]};
		return true;
	}
	return false;
}

static bool find_entry_point(const struct flmem_node *call, struct entry_point *ret_entry)
{
	const char *path = flmem_node_string(flmem_node_get(call, "path"));

	return path && (find_function(path, ret_entry) || find_run_module(call, ret_entry));
}

static const struct flmem_node *first_in(const struct flmem_node *root, const char *list)
{
	return flmem_node_first(flmem_node_get(root, list));
}

bool flmem_launch_has_entry_point(const struct flmem_node *root)
{
	struct entry_point unused;

	for (const struct flmem_node *n = first_in(root, "calls"); n; n = n->next)
		if (find_entry_point(n, &unused))
			return true;
	for (const struct flmem_node *n = first_in(root, "values"); n; n = n->next)
		if (find_function(n->text, &unused))
			return true;
	return false;
}

bool flmem_launch_may_call_entry_point(const struct flmem_buf *text)
{
	struct flmem_launch_programs at = {0};
	const struct flmem_launch_program *program;
	char name[FLMEM_LAUNCH_PROGRAM_MAX];

	while ((program = flmem_launch_program_next(&at)))
		if (name_console_function(program, name) && flmem_file_has_word(text, name))
			return true;
	for (size_t i = 0; flmem_frameworks[i]; i++) {
		const char *const *function = flmem_frameworks[i]->command_functions;

		if (function && flmem_file_has_word(text, flmem_frameworks[i]->package) &&
		    (flmem_file_has_word(text, "cli") || flmem_file_has_word(text, "runpy")))
			return true;
		for (; function && *function; function++)
			if (flmem_file_has_word(text, strrchr(*function, '.') + 1))
				return true;
	}
	return false;
}

bool flmem_launch_names_command_line(const char *code)
{
	for (size_t i = 0; flmem_frameworks[i]; i++) {
		const char *const *function = flmem_frameworks[i]->command_functions;

		for (; function && *function; function++) {
			size_t length = (size_t)(strrchr(*function, '.') - *function);

			if (memmem(code, strlen(code), *function, length) && strstr(code, "import"))
				return true;
		}
	}
	return false;
}

static void add_entry_point(struct flmem_launches *launches, const struct flmem_place *place,
			    const struct entry_point *entry)
{
	flmem_launch_add(launches, &(struct flmem_launch){.framework = entry->owner->framework,
							  .role = entry->role,
							  .place = *place,
							  .doubted = true});
}

void flmem_launch_note_entry_points(const struct flmem_node *root, struct flmem_launches *launches)
{
	struct entry_point entry;
	const struct flmem_node *n;

	for (n = first_in(root, "calls"); n && !launches->cut; n = n->next)
		if (find_entry_point(n, &entry))
			add_entry_point(launches, &flmem_node_get(n, "path")->place, &entry);
	for (n = first_in(root, "values"); n && !launches->cut; n = n->next)
		if (find_function(n->text, &entry))
			add_entry_point(launches, &n->place, &entry);
}
