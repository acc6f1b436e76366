/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports classes with memory settings that a script replaces, or whose initialisation it replaces.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "documents/python/python.h"
#include "frameworks/nvflare/nvflare_classes.h"
#include "frameworks/nvflare/recipes/nvflare_recipes.h"

/*
 * Whether a path is a member that initialises objects of a class with settings; with `whole`, also
 * whether it is such a class.
 */
static bool is_constructor(const char *path, bool whole)
{
	static const char *const members[] = {".__init__", ".__new__", ".__call__"};
	char class[FLMEM_PYTHON_DOTTED_MAX];
	const char *end = NULL;

	for (size_t i = 0; !end && i < FLMEM_ARRAY_SIZE(members); i++)
		end = strstr(path, members[i]);
	if (!end && !whole)
		return false;
	snprintf(class, sizeof(class), "%.*s", (int)(end ? (size_t)(end - path) : strlen(path)),
		 path);
	return flmem_nvflare_is_settable(class);
}

/*
 * Whether a path is the model to which a recipe passes its arguments: _FedAvgValidator of
 * nvflare.recipe.fedavg and the like.
 */
static bool is_validator(const char *path)
{
	const char *name = strstr(path, "._");

	return flmem_text_starts(path, "nvflare.") && name && strstr(name, "Validator");
}

/*
 * Whether a path is a method of such a class, as Recipe.run and FedJob.to, or a function beside it.
 */
static bool is_api_member(const char *path)
{
	static const char *const modules[] = {"nvflare.recipe.", "nvflare.job_config.", NULL};
	char class[FLMEM_PYTHON_DOTTED_MAX];
	const char *member = strrchr(path, '.');

	for (const char *const *m = modules; *m; m++)
		if (flmem_text_starts(path, *m))
			return true;
	if (!member ||
	    (member[1] != '_' && !flmem_text_is_one_of(member + 1, flmem_nvflare_recipe_methods)))
		return false;
	snprintf(class, sizeof(class), "%.*s", (int)(member - path), path);
	return flmem_nvflare_is_settable(class);
}

/*
 * Whether the path of an assigned attribute stands for the attribute, not its value: self.env =
 * SimEnv.
 */
static bool is_member_named(const struct flmem_check *check, const struct flmem_node *node)
{
	const char *text = check->input->document.text.data;
	const char *member = flmem_nvflare_short_name(node->text);
	size_t length = strlen(member), end = node->place.end;

	return end - node->place.start > length &&
	       strncmp(text + end - length, member, length) == 0;
}

static void report_constructor(struct flmem_check *check, const struct flmem_node *node)
{
	flmem_check_report(check,
			   &(struct flmem_remark){.node = node,
						  .path = flmem_nvflare_short_name(node->text),
						  .detail = "the class, or what makes its "
							    "objects, is replaced"});
}

/*
 * Whether a member of an unnamed class is assigned: type(recipe).__init__ = f,
 * recipe.__class__.__init__ = f.
 */
static bool is_of_any_class(const struct flmem_check *check, const struct flmem_node *node)
{
	static const char by_class[] = "__class__.";
	const char *text = check->input->document.text.data + node->place.start;
	size_t length = node->place.end - node->place.start;

	if (strcmp(node->text, "__class__") == 0) /* recipe.__class__ = OTHER */
		return true;
	if (strcmp(node->text, "__init__") != 0 && strcmp(node->text, "__new__") != 0)
		return false;
	return memmem(text, length, by_class, sizeof(by_class) - 1) ||
	       (node->place.start >= 2 && strncmp(text - 2, ").", 2) == 0);
}

/*
 * Reports patch("MODULE.Class"), monkeypatch.setattr("MODULE.Class.__init__", f), setattr(Recipe,
 * "run").
 */
static void report_patched_class(struct flmem_check *check, const struct flmem_node *call)
{
	static const char *const names[] = {"patch",  "setattr",     "delattr",
					    "object", "__setattr__", NULL};
	const char *name = flmem_nvflare_short_name(flmem_nvflare_path_text(call));
	const struct flmem_node *target = FLMEM_NODE_AT(call, "args", "0");

	if (!target || !flmem_text_is_one_of(name, names))
		return;
	if (target->kind == FLMEM_NODE_STRING &&
	    (is_constructor(target->text, true) || is_api_member(target->text)))
		report_constructor(check, target);
	/* Other targets are reported as passed on. */
	if (target->kind == FLMEM_NODE_EXPRESSION && is_api_member(target->text) &&
	    !flmem_nvflare_is_settable(target->text))
		report_constructor(check, target);
}

/* Reports Class.__init__ = f, Class.__init__.__kwdefaults__[NAME] = value, module.Class = OTHER. */
void flmem_nvflare_report_constructors(struct flmem_check *check)
{
	static const char *const lists[] = {"calls", "methods"};
	const struct flmem_node *n;

	for (n = flmem_nvflare_first(check, "rebound"); n; n = n->next)
		if (is_constructor(n->text, true) || is_validator(n->text) ||
		    (is_api_member(n->text) && is_member_named(check, n)))
			report_constructor(check, n);
	for (n = flmem_nvflare_first(check, "attributes"); n; n = n->next)
		if (is_of_any_class(check, n))
			report_constructor(check, n);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++)
		for (n = flmem_nvflare_first(check, lists[i]); n; n = n->next) {
			const struct flmem_node *path = flmem_node_get(n, "path");

			report_patched_class(check, n);
			if (strstr(path->text, "defaults__.") && is_constructor(path->text, false))
				report_constructor(check, path);
		}
}
