/* SPDX-License-Identifier: Apache-2.0 */
/* A rule about jobs whose settings are made in other files, or by objects that a script loads. */
#include "frameworks/nvflare/nvflare_classes.h"

#include <string.h>

#include "base/text/text.h"
#include "frameworks/nvflare/recipes/nvflare_recipes.h"

/* Whether a method runs or exports a job: Recipe.run() and the like, and methods of a FedJob. */
static bool runs_job(const char *method)
{
	static const char *const names[] = {"run",	  "execute",	   "export",
					    "export_job", "simulator_run", NULL};

	return flmem_text_is_one_of(method, names);
}

/* The sides whose settings are in the arguments of NVFlare's classes in the script. */
struct class_sides {
	bool server, client;
};

static void note_class(const char *path, struct class_sides *sides)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_find(path);
	bool own = flmem_text_starts(path, "nvflare.") && !flmem_text_ends(path, ".Recipe");
	bool recipe = known ? known->part == FLMEM_NVFLARE_RECIPE
			    : own && (flmem_text_ends(path, "Recipe") ||
				      flmem_text_ends(path, "StatsJob") ||
				      flmem_text_ends(path, "FlowerJob") ||
				      flmem_text_ends(path, "EdgeJob"));

	/* FedAvgJob and the like have a server, and the script adds their executors. */
	bool half = recipe && known && known->intervals[FLMEM_NVFLARE_SERVER].exists &&
		    !known->intervals[FLMEM_NVFLARE_CLIENT].exists;

	sides->server |= recipe || (known && known->part == FLMEM_NVFLARE_CONTROLLER);
	/* In a swarm, the executor that trains is an argument of the client, or a separate part. */
	sides->client |= (recipe && !half) || (known && known->part != FLMEM_NVFLARE_CONTROLLER &&
					       known->part != FLMEM_NVFLARE_RECIPE &&
					       known->part != FLMEM_NVFLARE_SWARM_EXECUTOR);
}

static void note_classes(const struct flmem_node *root, struct class_sides *sides)
{
	static const char *const lists[] = {"bases", "values"};
	const struct flmem_node *n = flmem_node_first(flmem_node_get(root, "calls"));

	for (; n; n = n->next)
		note_class(flmem_nvflare_path_text(n), sides);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++)
		for (n = flmem_node_first(flmem_node_get(root, lists[i])); n; n = n->next)
			note_class(n->text, sides);
}

/* Whether a path is a class that makes a job of parts, or an environment in which a recipe runs. */
static bool is_job_class(const char *path)
{
	static const char *const names[] = {"Recipe",
					    "FedJob",
					    "BaseFedJob",
					    "CCWFJob",
					    "FedAvgJob",
					    "SAGMLFlowJob",
					    "SimEnv",
					    "PocEnv",
					    "ProdEnv",
					    "SimulatorRunner",
					    "Session",
					    "new_secure_session",
					    "new_insecure_session",
					    NULL};

	return flmem_text_starts(path, "nvflare.") &&
	       flmem_text_is_one_of(flmem_nvflare_short_name(path), names);
}

/*
 * Whether a path is a class for jobs that has no settings itself: those are of a class that
 * inherits from it, or of its argument.
 */
static bool is_job_base(const char *path)
{
	static const char *const names[] = {"Recipe", "FedJob", "BaseFedJob", "CCWFJob", NULL};

	return flmem_text_starts(path, "nvflare.") &&
	       flmem_text_is_one_of(flmem_nvflare_short_name(path), names);
}

/* The node that makes the job: a class of the script, else a call. *ret_path is its full name. */
static const struct flmem_node *find_job(const struct flmem_check *check, const char **ret_path)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "bases");

	while (n && !is_job_base(n->text))
		n = n->next;
	if (n) {
		*ret_path = n->text;
		return n;
	}
	n = flmem_nvflare_first(check, "calls");
	while (n && !is_job_class(flmem_nvflare_path_text(n)))
		n = n->next;
	*ret_path = n ? flmem_nvflare_path_text(n) : NULL;
	return n;
}

/*
 * Reports recipes of another package or of a module beside the script. Returns whether there are
 * any.
 */
static bool report_foreign(struct flmem_check *check)
{
	bool reported = false;

	for (const struct flmem_node *n = flmem_nvflare_first(check, "calls"); n; n = n->next) {
		const char *path = flmem_nvflare_path_text(n);

		if (flmem_text_starts(path, "nvflare.") || !flmem_text_ends(path, "Recipe"))
			continue;
		reported = true;
		flmem_check_report(
			check, &(struct flmem_remark){.node = n,
						      .path = flmem_nvflare_short_name(path),
						      .detail = "a recipe that is not NVFlare's"});
	}
	return reported;
}

/* Whether the script imports a module or function like "my_recipes" that is not NVFlare's. */
static bool imports_recipe(const struct flmem_check *check)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "imports");

	while (n && (flmem_text_starts(n->text, "nvflare.") || !strcasestr(n->text, "recipe")))
		n = n->next;
	return n;
}

/* Whether a function restores an object that another program has made. */
static bool is_loader(const char *path)
{
	static const char *const names[] = {
		"load", "loads", "load_entry_point", "decode", "entry_points", "restore", NULL};
	static const char *const modules[] = {"pickle",	   "cloudpickle",	 "dill",
					      "joblib",	   "jsonpickle",	 "shelve",
					      "marshal",   "pkg_resources",	 "importlib",
					      "stevedore", "importlib_metadata", NULL};
	size_t length = strcspn(path, ".");
	bool known = false;

	for (size_t i = 0; modules[i] && !known; i++)
		known = strlen(modules[i]) == length && strncmp(path, modules[i], length) == 0;
	return known && flmem_text_is_one_of(flmem_nvflare_short_name(path), names);
}

/* Whether such a call, or load() of an entry point, is between two offsets of the text. */
static bool loads_within(const struct flmem_check *check, size_t from, size_t to)
{
	const char *text = check->input->document.text.data;

	for (const struct flmem_node *n = flmem_nvflare_first(check, "calls"); n; n = n->next)
		if (n->place.start >= from && n->place.start < to &&
		    is_loader(flmem_nvflare_path_text(n)))
			return true;
	return memmem(text + from, to - from, ".load()", 7);
}

/* Whether a name is assigned an object that is loaded: "job = pickle.load(file)". */
static bool is_loaded_name(const struct flmem_check *check, const char *name, size_t length)
{
	const char *text = check->input->document.text.data, *at = text;

	for (; (at = memmem(at, strlen(at), name, length)); at += length) {
		const char *rest = at + length + strspn(at + length, " \t");

		if ((at > text && !strchr(" \t\n;", at[-1])) || *rest != '=' || rest[1] == '=')
			continue;
		if (loads_within(check, (size_t)(rest - text),
				 (size_t)(rest - text) + strcspn(rest, "\n")))
			return true;
	}
	return false;
}

/*
 * Whether a method is called on an object that is loaded: "job.execute()",
 * "pickle.load(file).execute()".
 */
static bool is_of_loaded(const struct flmem_check *check, const struct flmem_node *path)
{
	const char *text = check->input->document.text.data;
	size_t start = path->place.start, length = path->place.end - start, line = start;
	const char *dot = memrchr(text + start, '.', length);

	if (dot)
		return is_loaded_name(check, text + start, (size_t)(dot - text) - start);
	while (line && text[line - 1] != '\n')
		line--;
	return start > line && text[start - 1] == '.' && loads_within(check, line, start);
}

/* Whether only jobs of NVFlare have a method of this name. */
static bool is_own_method(const char *method)
{
	return strcmp(method, "simulator_run") == 0 || strcmp(method, "export_job") == 0;
}

/* Whether the name of an object is that of a job or recipe: "recipe", "fl_job", "self.job". */
static bool is_named_job(const char *object, size_t length)
{
	return memmem(object, length, "recipe.", 7) || memmem(object, length, "job.", 4);
}

/* Reports recipe.run(env) with a recipe that the script does not make. */
static void report_foreign_run(struct flmem_check *check)
{
	const char *text = check->input->document.text.data;
	bool imported = imports_recipe(check);

	for (const struct flmem_node *n = flmem_nvflare_first(check, "methods"); n; n = n->next) {
		const struct flmem_node *path = flmem_node_get(n, "path");
		size_t start = path->place.start, length = path->place.end - start;
		bool loaded = runs_job(path->text) && is_of_loaded(check, path);

		if (!runs_job(path->text) || (!imported && !loaded && !is_own_method(path->text) &&
					      !is_named_job(text + start, length)))
			continue;
		flmem_check_report(check, &(struct flmem_remark){
						  .node = path,
						  .path = path->text,
						  .detail = loaded ? "it runs a job that it loads"
								   : "it runs a recipe or job that "
								     "another file makes"});
		return;
	}
}

/*
 * Reports that a module which makes or defines parts of the job is not checked, at its first name.
 */
static void report_unchecked_module(struct flmem_check *check)
{
	static const char *const lists[] = {"calls", "bases", "values"};
	struct class_sides sides = {0};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++)
		for (const struct flmem_node *n = flmem_nvflare_first(check, lists[i]); n;
		     n = n->next) {
			const char *path = i ? n->text : flmem_nvflare_path_text(n);

			note_class(path, &sides);
			if (!sides.server && !sides.client)
				continue;
			flmem_check_report(check,
					   &(struct flmem_remark){
						   .node = n,
						   .path = flmem_nvflare_short_name(path),
						   .detail = "a script imports this file, which is "
							     "not checked: also pass it"});
			return;
		}
}

/* Reports what a script does with its recipes, and with files of jobs. */
static void check_recipes(struct flmem_check *check)
{
	FLMEM_AUTO_NVFLARE_RECIPES struct flmem_nvflare_recipes recipes = {0};

	if (!flmem_nvflare_recipes_init(&recipes, check)) {
		check->failed = true;
		return;
	}
	flmem_nvflare_follow_recipes(check, &recipes);
	flmem_nvflare_check_recipe_jobs(check, &recipes);
	flmem_nvflare_check_recipe_uses(check, &recipes);
	flmem_nvflare_check_job_files(check);
}

/* Reports the first call only. */
static void parts_elsewhere(struct flmem_check *check)
{
	const char *path;
	const struct flmem_node *n = find_job(check, &path);
	struct class_sides sides = {0};

	check_recipes(check);
	if (check->kind == &flmem_nvflare_module_file) {
		report_unchecked_module(check);
		return;
	}
	note_classes(check->subject, &sides);
	if (!n || (sides.server && sides.client)) {
		if (!report_foreign(check) && !sides.server && !sides.client)
			report_foreign_run(check);
	} else {
		flmem_check_report(check,
				   &(struct flmem_remark){
					   .node = n,
					   .path = flmem_nvflare_short_name(path),
					   .detail = sides.server   ? "no executor or runner in it"
						     : sides.client ? "no workflow in it"
								    : "no recipe, workflow or "
								      "executor in it"});
	}
}

static const struct flmem_rule_row nvflare_external_rows[] = {
	{
		.rule = {.id = "NVF-PARTS-ELSEWHERE",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .condition =
				 "a script that makes a FedJob, an environment to run a recipe "
				 "in, or a session to submit jobs, without the recipe, "
				 "workflow or executor, or runs a recipe or job that it does not "
				 "make, also one that pickle or an entry point loads; a "
				 "class that inherits from Recipe itself or from FedJob, without "
				 "them; a recipe that is not NVFlare's; a recipe, or its job "
				 "(recipe.job, recipe._job), that a script changes or passes on to "
				 "what it does not define itself, also as an attribute, a method "
				 "that it keeps, in a field of a string, or by a decorator; "
				 "locals(), globals(), eval(), gc.get_objects() and the like that "
				 "may reach one; a "
				 "configuration file of a job "
				 "(config_fed_client.json and the like) that it may write; a "
				 "module "
				 "with one of these that a script imports and that is not checked",
			 .message = "cannot tell: settings of the job are made elsewhere, or by a "
				    "class of its own; check the exported job",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		.inputs = {&flmem_nvflare_python_file, &flmem_nvflare_module_file},
		.check = parts_elsewhere,
	},
};

const struct flmem_rule_table flmem_nvflare_elsewhere_rules = {
	nvflare_external_rows, FLMEM_ARRAY_SIZE(nvflare_external_rows)};
