/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recommend/recommend_module_rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "frameworks/framework.h"
#include "rules/document_rules.h"

/* Paths of the modules that were checked, sorted: several scripts may import one. */
struct checked_modules {
	char **rows;
	size_t count;
};

/* State that the checks of all scripts share. */
struct module_rules {
	const struct flmem_found_files *files;
	struct checked_modules *checked;
	const struct flmem_version_number *release;
	struct flmem_recommendations *found;
};

void flmem_importing_scripts_clear(struct flmem_importing_scripts *scripts)
{
	for (size_t i = 0; i < scripts->count; i++)
		flmem_module_paths_clear(&scripts->rows[i].paths);
	free(scripts->rows);
	*scripts = (struct flmem_importing_scripts){0};
}

int flmem_importing_scripts_add(struct flmem_importing_scripts *scripts,
				const struct flmem_rule_input *script,
				struct flmem_module_paths *paths, struct flmem_error *err)
{
	const size_t count = scripts->count;
	struct flmem_importing_script *grown = scripts->rows;

	if (!paths->count)
		return 0;
	/* The capacity doubles whenever the count reaches a power of two. */
	if (!(count & (count - 1)))
		grown = reallocarray(grown, count ? count * 2 : 1, sizeof(*grown));
	if (!grown)
		return flmem_error_nomem(err, "cannot store the modules");
	scripts->rows = grown;
	grown[count].script = *script;
	grown[count].script.document = (struct flmem_document){0};
	grown[count].paths = *paths;
	*paths = (struct flmem_module_paths){0};
	scripts->count++;
	return 0;
}

static void checked_modules_clear(struct checked_modules *checked)
{
	for (size_t i = 0; i < checked->count; i++)
		free(checked->rows[i]);
	free(checked->rows);
	*checked = (struct checked_modules){0};
}

/* Returns the path without "./": "./a" and "a" are one file. */
static const char *plain_path(const char *path)
{
	return flmem_text_starts(path, "./") ? path + 2 : path;
}

/* Returns the index of the path in the list, or where it belongs. */
static size_t checked_place(const struct checked_modules *checked, const char *path)
{
	size_t low = 0, high = checked->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(checked->rows[middle], path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool was_checked(const struct checked_modules *checked, const char *path)
{
	size_t at = checked_place(checked, path);

	return at < checked->count && strcmp(checked->rows[at], path) == 0;
}

static bool note_checked(struct checked_modules *checked, const char *path)
{
	size_t at = checked_place(checked, path);
	char **grown = reallocarray(checked->rows, checked->count + 1, sizeof(*grown));
	char *copy = strdup(path);

	if (grown)
		checked->rows = grown;
	if (!grown || !copy) {
		free(copy);
		return false;
	}
	memmove(grown + at + 1, grown + at, (checked->count - at) * sizeof(*grown));
	grown[at] = copy;
	checked->count++;
	return true;
}

static bool is_checked_file(const struct flmem_found_files *files, const char *path)
{
	FLMEM_AUTO_FREE char *folder = flmem_file_folder(path);

	return (folder && flmem_found_files_have(files, folder, path)) ||
	       flmem_found_files_have(files, "", path) ||
	       flmem_found_files_have(files, "", plain_path(path));
}

/* Returns true if a script is one of the framework. */
static bool is_script_of(const struct flmem_rule_input *script,
			 const struct flmem_module_kinds *kinds)
{
	for (size_t i = 0; i < FLMEM_KINDS_MORE; i++)
		if (script->more[i] == kinds->script)
			return true;
	return script->kind == kinds->script;
}

static int run_module_rules(const struct module_rules *rules,
			    const struct flmem_framework_ops *framework, const char *path,
			    struct flmem_buf *text, struct flmem_error *err)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_rule_input input = {.kind = framework->module_kinds->module, .file = path};
	const struct flmem_bundle bundle = {.inputs = &input, .count = 1};
	int rc = 0;

	flmem_buf_init(&document.text);
	/* A file that is not Python has no settings. */
	if (flmem_document_read(FLMEM_SYNTAX_PYTHON, text, &document, NULL))
		return 0;
	input.document = document;
	for (const struct flmem_rule_table *const *t = framework->rules; *t && !rc; t++)
		rc = flmem_rules_run(*t, &bundle, rules->release, rules->found, err);
	return rc ? rc
		  : flmem_rules_run(&flmem_document_rules, &bundle, rules->release, rules->found,
				    err);
}

static int check_module(const struct module_rules *rules,
			const struct flmem_framework_ops *framework,
			const struct flmem_rule_input *script, const char *path,
			struct flmem_error *err)
{
	const struct flmem_module_kinds *kinds = framework->module_kinds;
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	const char *shown = flmem_text_starts(script->file, "./") ? path : plain_path(path);
	bool about;

	if (was_checked(rules->checked, plain_path(path)) ||
	    !flmem_recommend_module_text(path, &text))
		return 0;
	about = kinds->script->is_likely(FLMEM_SYNTAX_PYTHON, &text);
	if (about ? is_checked_file(rules->files, path) : !is_script_of(script, kinds))
		return 0;
	if (!note_checked(rules->checked, plain_path(path)))
		return flmem_error_nomem(err, "cannot store the modules");
	return run_module_rules(rules, framework, shown, &text, err);
}

static int check_modules_of(const struct module_rules *rules,
			    const struct flmem_importing_script *script, struct flmem_error *err)
{
	int rc = 0;

	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f && !rc; f++)
		for (size_t i = 0; (*f)->module_kinds && i < script->paths.count && !rc; i++)
			rc = check_module(rules, *f, &script->script, script->paths.rows[i], err);
	return rc;
}

int flmem_recommend_module_rules(const struct flmem_found_files *files,
				 const struct flmem_importing_scripts *scripts,
				 const struct flmem_version_number *release,
				 struct flmem_recommendations *found, struct flmem_error *err)
{
	FLMEM_AUTO(checked_modules_clear) struct checked_modules checked = {0};
	const struct module_rules rules = {
		.files = files, .checked = &checked, .release = release, .found = found};
	int rc = 0;

	for (size_t i = 0; i < scripts->count && !rc; i++)
		rc = check_modules_of(&rules, &scripts->rows[i], err);
	return rc;
}
