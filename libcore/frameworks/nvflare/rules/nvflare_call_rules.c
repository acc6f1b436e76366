/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about calls that make a job: settings known only at run time, and settings without effect.
 */
#include "frameworks/nvflare/nvflare_classes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"

#define DETAIL_MAX 200

/* Whether a path is a recipe, by its name. The base class of all recipes does not count. */
static bool is_recipe_path(const char *path)
{
	return flmem_text_starts(path, "nvflare.") && flmem_text_ends(path, "Recipe") &&
	       !flmem_text_ends(path, ".Recipe");
}

/* Whether a call makes a recipe that the table of classes lacks. */
static bool is_unknown_recipe(const struct flmem_node *call)
{
	return is_recipe_path(flmem_nvflare_path_text(call)) && !flmem_nvflare_class_of(call);
}

/* Reports an argument that is present but not known before the job runs. */
static void check_value(struct flmem_check *check, const char *name)
{
	const struct flmem_node *node = flmem_nvflare_arg(check, name);
	const struct flmem_node *value = flmem_check_resolve(check->input, node);

	if (node && (!value || value->kind == FLMEM_NODE_EXPRESSION))
		flmem_nvflare_report_arg(check, name, node, (struct flmem_remark){0});
}

static void add_word(char text[DETAIL_MAX], const char *word)
{
	size_t used = strlen(text);

	snprintf(text + used, DETAIL_MAX - used, "%s%s", used ? ", " : "", word);
}

/* Reports "**" arguments that may hold any argument that is absent. */
static void check_open(struct flmem_check *check, const struct flmem_nvflare_class *known)
{
	const struct flmem_node *open = flmem_nvflare_open_args(check);
	char names[DETAIL_MAX] = "", detail[DETAIL_MAX + 32];
	const char *since;

	for (const char *const *name = flmem_nvflare_names; open && *name; name++)
		if (flmem_nvflare_accepts(known, *name, &since) && !flmem_nvflare_arg(check, *name))
			add_word(names, *name);
	if (!*names)
		return;
	snprintf(detail, sizeof(detail), "it may hold %s", names);
	flmem_check_report(check,
			   &(struct flmem_remark){.node = open,
						  .path = flmem_nvflare_short_name(known->path),
						  .detail = detail});
}

static const struct flmem_node *about_memory(const struct flmem_node *map)
{
	const struct flmem_node *n = flmem_node_get(map, "**");

	for (const char *const *name = flmem_nvflare_names; !n && *name; name++)
		n = flmem_node_get(map, *name);
	return n;
}

const struct flmem_node *flmem_nvflare_override(const struct flmem_check *check,
						enum flmem_nvflare_side side, const char **ret_name)
{
	const struct flmem_node *node = flmem_nvflare_overrides(check, side, ret_name);

	return node && node->kind == FLMEM_NODE_MAP && !about_memory(node) ? NULL : node;
}

static void check_overrides(struct flmem_check *check)
{
	const struct flmem_node *node;
	const char *name;

	for (int side = 0; side < FLMEM_NVFLARE_SIDES; side++)
		if ((node = flmem_nvflare_override(check, (enum flmem_nvflare_side)side, &name)))
			flmem_nvflare_report_arg(
				check, name, node,
				(struct flmem_remark){
					.detail = "it wins over the recipe's own arguments"});
}

/*
 * Reports a format of tensors that is not known, if tensors are offloaded: the format decides
 * whether that has an effect.
 */
static void check_format(struct flmem_check *check, const struct flmem_nvflare_class *known)
{
	const struct flmem_node *node =
		known->format ? flmem_nvflare_arg(check, known->format) : NULL;

	if (!node)
		node = flmem_nvflare_open_args(check);
	if (node && flmem_nvflare_offloads(check) &&
	    flmem_nvflare_format_of(check) == FLMEM_NVFLARE_FORMAT_UNCLEAR)
		flmem_nvflare_report_arg(
			check, known->format, node,
			(struct flmem_remark){
				.detail = "only tensors of PyTorch are offloaded to disk"});
}

/*
 * Reports an interval in a job without rounds, in which a client may send less often than the
 * interval.
 */
static void check_sends(struct flmem_check *check, const struct flmem_nvflare_class *known)
{
	const struct flmem_node *node;
	int64_t interval;

	if ((known->sends_vary || flmem_nvflare_job_sends(check) == FLMEM_NVFLARE_SENDS_VARY) &&
	    flmem_nvflare_gc_rounds(check, FLMEM_NVFLARE_CLIENT, &interval, &node) && node &&
	    interval > 1)
		flmem_nvflare_report_gc(
			check, FLMEM_NVFLARE_CLIENT,
			(struct flmem_remark){.detail = "a client sends once for each model that "
							"it evaluates, and a job with fewer never "
							"cleans up",
					      .proposed = "1"});
}

/*
 * Reports an unknown number of rounds: with fewer rounds than the interval, a job never cleans up.
 */
static void check_open_rounds(struct flmem_check *check, const struct flmem_nvflare_class *known)
{
	const struct flmem_node *rounds = flmem_nvflare_arg(check, "num_rounds"), *value, *node;
	int64_t interval, longest = 1;
	char detail[96];

	if (flmem_nvflare_is_overridden(check, FLMEM_NVFLARE_SERVER, "num_rounds", &value) && value)
		rounds = value;
	if (!rounds && known->rounds_at && check->input->kind == &flmem_nvflare_python_file)
		rounds = flmem_nvflare_arg(check, known->rounds_at);
	value = flmem_check_resolve(check->input, rounds);
	if (!rounds || !known->rounds || (value && value->kind != FLMEM_NODE_EXPRESSION))
		return;
	for (int side = 0; side < FLMEM_NVFLARE_SIDES; side++)
		if (flmem_nvflare_gc_rounds(check, (enum flmem_nvflare_side)side, &interval,
					    &node) &&
		    node && interval > longest)
			longest = interval;
	if (longest == 1)
		return;
	snprintf(detail, sizeof(detail),
		 "with fewer than %" PRId64 " rounds a cleanup every %" PRId64 " never runs",
		 longest, longest);
	flmem_nvflare_report_arg(check, "num_rounds", rounds,
				 (struct flmem_remark){.detail = detail});
}

/* Whether the script calls a class of this name beside the checked call. */
static bool calls_beside(const struct flmem_check *check, const char *name)
{
	const struct flmem_node *n = check->subject->parent ? check->subject->parent->first : NULL;

	while (n && !flmem_text_ends(flmem_nvflare_path_text(n), name))
		n = n->next;
	return n;
}

/*
 * Reports a swarm recipe whose settings are those of two configurations, which are checked where
 * they are made.
 */
static void check_swarm_parts(struct flmem_check *check)
{
	static const char base[] = ".BaseSwarmLearningRecipe";
	const char *path = flmem_nvflare_path_text(check->subject);
	const struct flmem_node *open = flmem_nvflare_open_args(check);
	const struct flmem_node *config = flmem_nvflare_arg(check, "client_config");
	bool made;

	if (!flmem_text_starts(path, "nvflare.") || !flmem_text_ends(path, base))
		return;
	made = calls_beside(check, ".SwarmClientConfig");
	if (made && (config || !open))
		return;
	flmem_check_report(
		check,
		&(struct flmem_remark){.node = open ? open : flmem_node_get(check->subject, "path"),
				       .path = base + 1,
				       .detail = made || open ? "it may hold server_config and "
								"client_config"
							      : "its client_config is made "
								"elsewhere"});
}

/* Reports train_args of a swarm recipe that are not known: the recipe refuses some keys in them. */
static void check_train_args(struct flmem_check *check)
{
	const struct flmem_node *args = flmem_nvflare_arg(check, "train_args");
	const struct flmem_node *open =
		flmem_node_is_kind(args, FLMEM_NODE_MAP) ? flmem_node_get(args, "**") : args;

	if (flmem_text_ends(flmem_nvflare_path_text(check->subject), ".SwarmLearningRecipe") &&
	    flmem_text_starts(flmem_nvflare_path_text(check->subject), "nvflare.") &&
	    flmem_node_is_kind(open, FLMEM_NODE_EXPRESSION))
		flmem_nvflare_report_arg(
			check, "train_args", open,
			(struct flmem_remark){.detail = "the recipe rejects memory_gc_rounds, "
							"cuda_empty_cache and the format of "
							"tensors in it"});
}

static void cannot_tell(struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const char *since;

	if (is_unknown_recipe(check->subject))
		flmem_check_report(check, &(struct flmem_remark){
						  .node = flmem_node_get(check->subject, "path"),
						  .path = flmem_nvflare_short_name(
							  flmem_nvflare_path_text(check->subject)),
						  .detail = "flmem does not know this recipe"});
	for (const char *const *name = flmem_nvflare_names; known && *name; name++)
		if (flmem_nvflare_accepts(known, *name, &since))
			check_value(check, *name);
	if (known) {
		check_open(check, known);
		check_format(check, known);
		check_sends(check, known);
		check_open_rounds(check, known);
	}
	check_train_args(check);
	check_swarm_parts(check);
	check_overrides(check);
}

/*
 * Reports a workflow or executor of the user, whose author decides what it does with its arguments.
 */
static void class_unknown(struct flmem_check *check)
{
	const struct flmem_node *path = flmem_nvflare_path(check->subject);
	const char *name = flmem_node_string(path);

	if (name && !flmem_text_starts(name, "nvflare.") &&
	    !flmem_nvflare_arg(check, "memory_gc_rounds"))
		flmem_check_report(check, &(struct flmem_remark){.node = path});
}

static bool has_settings(const struct flmem_nvflare_class *known)
{
	return known->cuda || known->intervals[FLMEM_NVFLARE_SERVER].exists ||
	       known->intervals[FLMEM_NVFLARE_CLIENT].exists;
}

/* Whether a class is a recipe, or has memory settings. */
static bool is_recipe_or_set(const struct flmem_nvflare_class *known)
{
	return known->part == FLMEM_NVFLARE_RECIPE || has_settings(known);
}

/* Whether a recipe is one that flmem does not know, or whose settings are those of its parts. */
static bool is_open_recipe(const char *path)
{
	return is_recipe_path(path) && (!flmem_nvflare_class_find(path) ||
					flmem_text_ends(path, ".BaseSwarmLearningRecipe"));
}

bool flmem_nvflare_is_settable(const char *path)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_find(path);

	return (known && is_recipe_or_set(known)) || is_open_recipe(path);
}

/* Whether a path is a module with such classes, or goes through the __dict__ of one. */
static bool is_class_module(const char *path)
{
	const char *entries = strstr(path, ".__dict__");
	char module[128];

	if (!entries || (size_t)(entries - path) >= sizeof(module))
		return flmem_nvflare_is_module(path);
	snprintf(module, sizeof(module), "%.*s", (int)(entries - path), path);
	return flmem_nvflare_is_module(module);
}

static bool report_uses(struct flmem_check *check, const char *list, const char *detail)
{
	bool reported = false;
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, list));

	for (; n; n = n->next) {
		const struct flmem_nvflare_class *known = flmem_nvflare_class_find(n->text);
		bool module = !known && is_class_module(n->text);

		if (!module && !(known && is_recipe_or_set(known)) && !is_open_recipe(n->text))
			continue;
		reported = true;
		flmem_check_report(
			check, &(struct flmem_remark){.node = n,
						      .path = flmem_nvflare_short_name(n->text),
						      .detail = module ? "a module that has such "
									 "classes is passed on"
								       : detail});
	}
	return reported;
}

/* Reports calls with settings of a result: f()(setting=...), a[0](setting=...). */
static void report_result_calls(struct flmem_check *check)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, "methods"));

	for (; n; n = n->next) {
		const char *path = flmem_node_string(flmem_node_get(n, "path"));
		const struct flmem_node *args = flmem_node_get(n, "args");

		for (const char *const *name = flmem_nvflare_names; path && !*path && *name; name++)
			if (flmem_node_get(args, *name))
				flmem_check_report(
					check,
					&(struct flmem_remark){.node = flmem_node_get(args, *name),
							       .path = *name,
							       .detail = "an argument of what an "
									 "expression returns"});
	}
}

/* Reports classes taken from the __dict__ of a module: recipes.__dict__.get("FedAvgRecipe"). */
static void report_module_entries(struct flmem_check *check)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "calls");

	for (; n; n = n->next)
		if (strstr(flmem_nvflare_path_text(n), ".__dict__.") &&
		    is_class_module(flmem_nvflare_path_text(n)))
			flmem_check_report(
				check, &(struct flmem_remark){.node = flmem_node_get(n, "path"),
							      .path = "__dict__",
							      .detail = "a class is taken from "
									"a module by its name"});
}

static void class_passed_on(struct flmem_check *check)
{
	bool bases = report_uses(check, "bases", "a class inherits from it");

	if (!report_uses(check, "values", "it is passed on") && !bases)
		report_result_calls(check);
	report_module_entries(check);
	flmem_nvflare_report_constructors(check);
	flmem_nvflare_report_rebound_names(check);
}

static void report_no_settings(struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(call);

	if (known && known->part == FLMEM_NVFLARE_RECIPE && !has_settings(known))
		flmem_check_report(
			check,
			&(struct flmem_remark){.node = flmem_node_get(call, "path"),
					       .path = flmem_nvflare_short_name(known->path),
					       .detail = known->server_cleans ? "its server "
										"cleans up every "
										"round, its "
										"clients never do"
									      : "it never cleans "
										"up"});
}

static void no_settings(struct flmem_check *check)
{
	for (const struct flmem_node *n = flmem_nvflare_first(check, "calls"); n; n = n->next)
		report_no_settings(check, n);
	flmem_nvflare_report_collab(check);
}

/* The map by site of a recipe, or of set_per_site_config(). */
static const struct flmem_node *sites_of(const struct flmem_node *call)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(call);
	const char *path = flmem_node_string(flmem_node_get(call, "path"));
	const struct flmem_node *args = flmem_node_get(call, "args"), *sites;

	if (known && known->part == FLMEM_NVFLARE_RECIPE)
		return flmem_node_get(args, "per_site_config");
	if (!path || !flmem_text_ends(path, "set_per_site_config"))
		return NULL;
	sites = flmem_node_get(args, "config");
	return sites ? sites : flmem_node_get(args, strchr(path, '.') ? "1" : "0");
}

/*
 * Whether a recipe may have settings for clients. Calls of other functions may be about any recipe.
 */
static bool may_set_clients(const struct flmem_nvflare_class *known)
{
	return !known || known->cuda || known->intervals[FLMEM_NVFLARE_CLIENT].arg;
}

static void report_site(struct flmem_check *check, const struct flmem_node *call,
			const struct flmem_node *site)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(call);
	char path[96], detail[128];

	for (const char *const *name = flmem_nvflare_names; *name; name++) {
		const struct flmem_node *node = flmem_node_get(site, *name);

		if (!node)
			continue;
		snprintf(path, sizeof(path), "per_site_config.%s", *name);
		snprintf(detail, sizeof(detail), "set it for all clients in the recipe");
		if (!may_set_clients(known))
			snprintf(detail, sizeof(detail), "%.80s has no argument for it",
				 flmem_nvflare_short_name(known->path));
		flmem_check_report(check, &(struct flmem_remark){
						  .node = node, .path = path, .detail = detail});
	}
}

/* Whether no recipe that the script makes has a setting for clients. */
static bool lacks_client_settings(const struct flmem_check *check)
{
	bool found = false;

	for (const struct flmem_node *n = flmem_nvflare_first(check, "calls"); n; n = n->next) {
		const struct flmem_nvflare_class *known = flmem_nvflare_class_of(n);

		if (known ? may_set_clients(known) : is_unknown_recipe(n))
			return false;
		found |= known != NULL;
	}
	return found;
}

static void report_open_sites(struct flmem_check *check, const struct flmem_node *sites)
{
	static const enum flmem_severity info = FLMEM_SEVERITY_INFO;

	flmem_check_report(check,
			   &(struct flmem_remark){.node = sites,
						  .path = "per_site_config",
						  .severity = &info,
						  .detail = "cannot tell whether it holds one"});
}

const struct flmem_node *flmem_nvflare_sites_next(const struct flmem_node *script,
						  const struct flmem_node **call)
{
	const struct flmem_node *calls = flmem_node_get(script, "calls");
	const struct flmem_node *n = *call ? (*call)->next : flmem_node_first(calls);
	bool methods = *call && (*call)->parent != calls;

	for (;; n = n->next) {
		if (!n && !methods)
			n = flmem_node_first(flmem_node_get(script, "methods"));
		if (!n)
			return NULL;
		methods = n->parent != calls;
		*call = n;
		if (sites_of(n))
			return sites_of(n);
	}
}

/* Checks the value of one site. `open`: parts of it that are not known may hold a setting. */
static void check_site(struct flmem_check *check, const struct flmem_node *call,
		       const struct flmem_node *site, bool open)
{
	const struct flmem_node *more;

	site = flmem_nvflare_map(check, site);
	more = site->kind == FLMEM_NODE_EXPRESSION ? site : flmem_node_get(site, "**");
	if (open && more)
		report_open_sites(check, more);
	report_site(check, call, site);
}

static void per_site_ignored(struct flmem_check *check)
{
	const struct flmem_node *call = NULL, *sites;
	bool lacks = lacks_client_settings(check);

	while ((sites = flmem_nvflare_sites_next(check->subject, &call))) {
		const struct flmem_nvflare_class *known = flmem_nvflare_class_of(call);
		bool open = known ? may_set_clients(known) : !lacks;

		sites = flmem_nvflare_map(check, sites);
		if (open && sites->kind == FLMEM_NODE_EXPRESSION)
			report_open_sites(check, sites);
		for (const struct flmem_node *n = flmem_node_first(sites); n; n = n->next)
			check_site(check, call, n, open);
	}
}

#define NVFLARE .framework = FLMEM_FRAMEWORK_NVFLARE
#define PYTHON	&flmem_nvflare_python_file

static const struct flmem_rule_row nvflare_call_rows[] = {
	{
		.rule = {.id = "NVF-CANNOT-TELL",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .condition =
				 "a memory setting of a known class that is a variable, an "
				 "expression, in **arguments, or an unresolved reference; such a "
				 "num_rounds beside an interval above 1; a recipe of NVFlare that "
				 "flmem does not know",
			 .message = "cannot tell: the value is known only when the script runs; "
				    "check the exported job",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		.inputs = {&flmem_nvflare_server_file, &flmem_nvflare_client_file, PYTHON},
		.parts = true,
		.check = cannot_tell,
	},
	{
		.rule = {.id = "NVF-CLASS-UNKNOWN",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .since = "2.7.2",
			 .condition = "a workflow or executor of a class that is not NVFlare's, "
				      "without memory_gc_rounds in its arguments",
			 .message = "cannot tell whether this class cleans up: it is not "
				    "NVFlare's; where it inherits from one that does, set "
				    "memory_gc_rounds",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		.inputs = {&flmem_nvflare_server_file, &flmem_nvflare_client_file},
		.parts = true,
		.check = class_unknown,
	},
	{
		.rule = {.id = "NVF-CLASS-PASSED-ON",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .condition =
				 "a class with memory settings, or any recipe of NVFlare, "
				 "that a script inherits from, passes on or stores instead "
				 "of calling it; a module of "
				 "such classes that it passes on; a memory setting as an "
				 "argument of what a call or an entry of a list is; a name of such "
				 "a class that an inner class or function, a pattern of match or "
				 "a later import of * may bind again; such a "
				 "class, its __init__ or the defaults of that, which a script "
				 "replaces, or a method of a recipe, an environment or a FedJob",
			 .message = "cannot tell with which arguments it is called; check the "
				    "exported job",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		.inputs = {PYTHON},
		.check = class_passed_on,
	},
	{
		.rule = {.id = "NVF-RECIPE-NO-SETTINGS",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .condition = "a recipe without any memory setting: statistics, PSI, "
				      "XGBoost, Flower, edge, collab; an import of collab where no "
				      "file has its recipe",
			 .message = "this recipe has no argument for cleanups; set "
				    "the allocator with flmem start, and trim with flmem trim",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		.inputs = {PYTHON},
		.check = no_settings,
	},
	{
		.rule = {.id = "NVF-PER-SITE-IGNORED",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .condition = "a memory setting in per_site_config; information where its "
				      "value is known only when the script runs and the recipe "
				      "has such settings",
			 .message = "NVFlare reads no memory settings per site and ignores this "
				    "one; "
				    "set it for all sites",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		.inputs = {PYTHON},
		.check = per_site_ignored,
	},
};

const struct flmem_rule_table flmem_nvflare_call_rules = {nvflare_call_rows,
							  FLMEM_ARRAY_SIZE(nvflare_call_rows)};
