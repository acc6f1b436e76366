/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about what the Python of a job does besides calling classes, and about what it lacks. */
#include "frameworks/nvflare/nvflare_classes.h"

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"

static bool adds_config(const char *method)
{
	static const char *const names[] = {"add_server_config", "add_client_config", "add_params",
					    NULL};

	return flmem_text_is_one_of(method, names);
}

/*
 * Whether a method takes a dictionary as configuration and anything else as a part: FedJob.to() and
 * the like.
 */
static bool adds_part(const char *method)
{
	static const char *const names[] = {"to", "to_server", "to_clients", "_add_to_client_apps",
					    NULL};

	return flmem_text_is_one_of(method, names);
}

/* Whether a method adds configurations for one run: Recipe.run() and the like. */
static bool runs_recipe(const char *method)
{
	static const char *const names[] = {"run", "execute", "export", NULL};

	return flmem_text_is_one_of(method, names);
}

/* Names of the arguments of a method that are configurations; the last two are by position. */
static const char *const *config_names(const char *method)
{
	static const char *const adds[] = {"config", "obj", "args", "0", NULL};
	static const char *const runs[] = {"server_exec_params", "client_exec_params", "1", "2",
					   NULL};
	static const char *const none[] = {NULL};

	return adds_config(method) || adds_part(method) ? adds : runs_recipe(method) ? runs : none;
}

/*
 * The next argument of a call after `at` (NULL: the first) that may be a configuration; NULL after
 * the last.
 */
static const struct flmem_node *next_config_of(const struct flmem_node *call,
					       const struct flmem_node *at)
{
	const char *const *names = config_names(flmem_nvflare_path_text(call));
	const struct flmem_node *args = flmem_node_get(call, "args");

	for (; *names; names++) {
		const struct flmem_node *node = flmem_node_get(args, *names);

		if (node && !at)
			return node;
		if (node == at)
			at = NULL;
	}
	return NULL;
}

const struct flmem_node *flmem_nvflare_config_next(const struct flmem_check *check,
						   struct flmem_nvflare_config_at *at)
{
	if (check->input->kind != &flmem_nvflare_python_file) {
		const struct flmem_node *map = at->call ? NULL : check->subject;

		at->call = check->subject;
		return map;
	}
	if (!at->call)
		at->call = flmem_nvflare_first(check, "methods");
	while (at->call) {
		at->config = next_config_of(at->call, at->config);
		if (flmem_node_is_kind(at->config, FLMEM_NODE_MAP))
			return at->config;
		if (!at->config)
			at->call = at->call->next;
	}
	return NULL;
}

static void check_config(struct flmem_check *check, const struct flmem_node *map)
{
	static const char open[] = "**";
	static const char *const keys[] = {"tensor_download_chunk_size", "np_download_chunk_size",
					   "max_resends", open};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(keys); i++) {
		const struct flmem_node *node = flmem_node_get(map, keys[i]);

		if (node && node->kind == FLMEM_NODE_EXPRESSION)
			flmem_check_report(check,
					   &(struct flmem_remark){
						   .node = node,
						   .path = keys[i] == open ? "config" : keys[i]});
	}
}

static bool is_chunk_size(const char *name)
{
	return strcmp(name, "tensor_download_chunk_size") == 0 ||
	       strcmp(name, "np_download_chunk_size") == 0;
}

/* How often the script has a text between quotes. */
static size_t count_quoted(const struct flmem_check *check, const char *text)
{
	const char *at = check->input->document.text.data, *first = at;
	size_t count = 0;

	for (; (at = strstr(at, text)); at++)
		count += at > first && strchr("\"'", at[-1]) && at[strlen(text)] == at[-1];
	return count;
}

/* Whether the script names a chunk size outside of the configurations that are read. */
static bool hides_chunk_size(const struct flmem_check *check)
{
	static const char *const keys[] = {"tensor_download_chunk_size", "np_download_chunk_size"};
	struct flmem_nvflare_config_at at = {0};
	size_t read = 0, quoted = 0;
	const struct flmem_node *map;

	while ((map = flmem_nvflare_config_next(check, &at)))
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(keys); i++)
			read += flmem_node_get(map, keys[i]) != NULL;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(keys); i++)
		quoted += count_quoted(check, keys[i]);
	return quoted > read;
}

/* Whether a configuration is a variable, which may hold a chunk size. */
static bool is_unclear_config(const struct flmem_check *check, const struct flmem_node *call,
			      const struct flmem_node *config)
{
	const char *method = flmem_nvflare_path_text(call);

	if (config->kind != FLMEM_NODE_EXPRESSION)
		return false;
	if (adds_config(method) || strstr(config->key, "_exec_params"))
		return true;
	return *config->text && hides_chunk_size(check);
}

static void config_cannot_tell(struct flmem_check *check)
{
	const struct flmem_node *call = flmem_nvflare_first(check, "methods"), *config, *item;
	struct flmem_nvflare_config_at at = {0};
	bool reported = false;

	while ((config = flmem_nvflare_config_next(check, &at)))
		check_config(check, config);
	for (; call; call = call->next) {
		for (config = NULL; (config = next_config_of(call, config));) {
			if (!is_unclear_config(check, call, config))
				continue;
			reported = true;
			flmem_check_report(
				check,
				&(struct flmem_remark){
					.node = config,
					.path = "config",
					.detail = "it may hold tensor_download_chunk_size and "
						  "np_download_chunk_size"});
		}
	}
	for (item = flmem_nvflare_first(check, "items"); item && !reported; item = item->next)
		if (is_chunk_size(item->text))
			flmem_check_report(
				check, &(struct flmem_remark){.node = item, .path = item->text});
}

/*
 * Whether a text is the name of a setting, also with "_" in front: an exported job takes arguments
 * from attributes of both names.
 */
static bool names_setting(const char *text)
{
	return flmem_text_is_one_of(*text == '_' ? text + 1 : text, flmem_nvflare_names);
}

static const struct flmem_node *attribute_of(const struct flmem_node *map, const char *setting)
{
	const struct flmem_node *node = flmem_node_get(map, setting);
	char attribute[64];

	snprintf(attribute, sizeof(attribute), "_%s", setting);
	return node ? node : flmem_node_get(map, attribute);
}

static void report_assigned(struct flmem_check *check, const struct flmem_node *name)
{
	if (name && name->kind == FLMEM_NODE_STRING && names_setting(name->text))
		flmem_check_report(check, &(struct flmem_remark){.node = name, .path = name->text});
}

/* Whether the script has the name of a setting as a string. */
static bool quotes_setting(const struct flmem_check *check)
{
	for (const char *const *known = flmem_nvflare_names; *known; known++)
		if (count_quoted(check, *known))
			return true;
	return false;
}

/* Whether an object has a name like "recipe" or "self.fedavg_recipe". */
static bool is_named_recipe(const struct flmem_node *object)
{
	return object && object->kind == FLMEM_NODE_EXPRESSION &&
	       (strstr(object->text, "recipe") || strstr(object->text, "Recipe"));
}

/* Reports setattr(recipe, NAME, value); `at` is the position of NAME. */
static void report_set(struct flmem_check *check, const struct flmem_node *call, const char *at)
{
	const struct flmem_node *name = FLMEM_NODE_AT(call, "args", at);
	const struct flmem_node *object = FLMEM_NODE_AT(call, "args", "0");

	if (flmem_node_is_kind(name, FLMEM_NODE_EXPRESSION) &&
	    (quotes_setting(check) || (object != name && is_named_recipe(object))))
		flmem_check_report(check, &(struct flmem_remark){.node = name, .path = "setattr"});
	else
		report_assigned(check, name);
}

/* Reports __dict__.update(entries) with settings. */
static void report_update(struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *args = flmem_node_get(call, "args");
	const struct flmem_node *map = flmem_node_get(args, "0"),
				*open = flmem_node_get(args, "**");

	if (!open)
		open = flmem_node_is_kind(map, FLMEM_NODE_MAP) ? flmem_node_get(map, "**") : map;
	if (open)
		flmem_check_report(check, &(struct flmem_remark){.node = open, .path = "__dict__"});
	for (const char *const *name = flmem_nvflare_names; *name; name++) {
		const struct flmem_node *node = attribute_of(args, *name);

		if (!node)
			node = attribute_of(map, *name);
		if (node)
			flmem_check_report(check,
					   &(struct flmem_remark){.node = node, .path = *name});
	}
}

/* Reports recipe.__init__(NAME=value), unless a subclass calls its base class. */
static void report_made_again(struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *path = flmem_node_get(call, "path");
	const char *text = check->input->document.text.data + path->place.start;
	const struct flmem_node *args = flmem_node_get(call, "args");

	if (flmem_text_starts(text, "__init__") || flmem_text_starts(text, "super"))
		return;
	for (const char *const *name = flmem_nvflare_names; *name; name++)
		if (flmem_node_get(args, *name))
			flmem_check_report(check, &(struct flmem_remark){
							  .node = flmem_node_get(args, *name),
							  .path = *name,
							  .detail = "the object is made again"});
}

static void report_setter(struct flmem_check *check, const struct flmem_node *call)
{
	static const char *const entries[] = {"__dict__.__setitem__", "__dict__.setdefault", NULL};
	const char *method = flmem_nvflare_path_text(call);

	if (strcmp(method, "setattr") == 0)
		report_set(check, call, "1");
	else if (strcmp(method, "__setattr__") == 0)
		report_set(check, call, FLMEM_NODE_AT(call, "args", "2") ? "1" : "0");
	else if (strcmp(method, "delattr") == 0)
		report_assigned(check, FLMEM_NODE_AT(call, "args", "1"));
	else if (strcmp(method, "__init__") == 0)
		report_made_again(check, call);
	else if (strcmp(method, "__dict__.update") == 0)
		report_update(check, call);
	else if (flmem_text_is_one_of(method, entries))
		report_assigned(check, FLMEM_NODE_AT(call, "args", "0"));
}

static bool handles_attributes(const struct flmem_check *check)
{
	const char *text = check->input->document.text.data;

	return strstr(text, "__dict__") || strstr(text, "vars(");
}

/*
 * Whether a script may write the configuration of a job: json.dump(), or json.dumps() for a
 * function that writes.
 */
static bool writes_json(const struct flmem_check *check)
{
	return strstr(check->input->document.text.data, "json.dump");
}

static void report_entry(struct flmem_check *check, const struct flmem_node *key, bool attributes)
{
	if (key->kind == FLMEM_NODE_STRING && names_setting(key->text))
		flmem_check_report(
			check, &(struct flmem_remark){
				       .node = key,
				       .path = key->text,
				       .detail = attributes ? NULL
							    : "the script changes an entry and "
							      "writes JSON: check what it writes"});
}

/* Whether a call only keeps its arguments, or makes an object whose settings other rules check. */
static bool is_checked_elsewhere(const char *path)
{
	static const char *const names[] = {"dict",
					    "partial",
					    "update",
					    "get",
					    "pop",
					    "print",
					    "setdefault",
					    "__init__",
					    "SimpleNamespace",
					    "format",
					    "add_argument",
					    "cleanup_memory",
					    "set_defaults",
					    "__dict__.update",
					    NULL};

	return !*path || flmem_text_starts(path, "nvflare.") ||
	       flmem_text_starts(flmem_nvflare_short_name(path), "assert_") ||
	       flmem_text_is_one_of(flmem_nvflare_short_name(path), names) ||
	       flmem_text_is_one_of(path, names);
}

/* Reports dataclasses.replace(recipe, NAME=value), recipe.model_copy(update={NAME: value}). */
static void report_given(struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *args = flmem_node_get(call, "args");
	const struct flmem_node *update = flmem_node_get(args, "update");

	if (!flmem_node_first(args) || is_checked_elsewhere(flmem_nvflare_path_text(call)))
		return;
	for (const char *const *name = flmem_nvflare_names; *name; name++) {
		const struct flmem_node *node = flmem_node_get(args, *name);

		if (!node)
			node = flmem_node_get(update, *name);
		if (node)
			flmem_check_report(
				check, &(struct flmem_remark){.node = node,
							      .path = *name,
							      .detail = "it is an argument of what "
									"is not NVFlare's"});
	}
}

/*
 * Reports config["workflows"][0]["args"][key] = value in a script that reads and writes JSON of a
 * job.
 */
static void report_open_entries(struct flmem_check *check)
{
	static const char *const words[] = {"config_fed_",   "\"workflows\"", "'workflows'",
					    "\"executors\"", "'executors'",   NULL};
	const struct flmem_node *n = flmem_nvflare_first(check, "entries");

	if (!writes_json(check) || !strstr(check->input->document.text.data, "json.load") ||
	    !flmem_file_has_any_word(&check->input->document.text, words))
		return;
	for (; n; n = n->next)
		flmem_check_report(check, &(struct flmem_remark){
						  .node = n,
						  .path = n->text,
						  .detail = "the key is a variable, and the script "
							    "writes JSON: check what it writes"});
}

static void setting_assigned(struct flmem_check *check)
{
	bool attributes = handles_attributes(check);
	const struct flmem_node *n;

	for (n = flmem_nvflare_first(check, "attributes"); n; n = n->next)
		if (strcmp(n->text, "__dict__") == 0)
			flmem_check_report(check,
					   &(struct flmem_remark){.node = n, .path = "__dict__"});
		else
			report_assigned(check, n);
	n = attributes || writes_json(check) ? flmem_nvflare_first(check, "items") : NULL;
	for (; n; n = n->next)
		report_entry(check, n, attributes);
	for (n = flmem_nvflare_first(check, "methods"); n; n = n->next) {
		report_setter(check, n);
		report_given(check, n);
	}
	for (n = flmem_nvflare_first(check, "calls"); n; n = n->next) {
		report_given(check, n);
		if (strcmp(flmem_nvflare_path_text(n), "operator.setitem") == 0)
			report_assigned(check, FLMEM_NODE_AT(n, "args", "1"));
	}
	report_open_entries(check);
}

#define NVFLARE .framework = FLMEM_FRAMEWORK_NVFLARE
#define SCRIPT	.inputs = {&flmem_nvflare_python_file}

static const struct flmem_rule_row nvflare_script_rows[] = {
	{
		.rule = {.id = "NVF-CONFIG-CANNOT-TELL",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .condition =
				 "a configuration that a script adds to a job "
				 "(add_server_config, add_client_config, add_params, "
				 "server_exec_params and client_exec_params) that is a "
				 "variable, or whose chunk size or max_resends is one; a chunk "
				 "size that it "
				 "sets in a dictionary beside to(), or elsewhere",
			 .message = "cannot tell: the configuration is known only when the script "
				    "runs; check the exported job",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		SCRIPT,
		.check = config_cannot_tell,
	},
	{
		.rule = {.id = "NVF-SETTING-ASSIGNED",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .condition =
				 "a memory setting that is assigned to an attribute, except "
				 "of self, also with \"_\" before its name, to an entry of "
				 "__dict__ or vars(), or to any entry in a "
				 "script that writes JSON; an attribute "
				 "whose name is a variable, in a script that has the name of a "
				 "setting as a string or of an object that is called recipe; "
				 "__dict__ itself; a memory setting as an argument of a function "
				 "or method that is not NVFlare's",
			 .message = "cannot tell: recipes read most settings only when they are "
				    "made; pass it as an argument",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		SCRIPT,
		.check = setting_assigned,
	},
};

const struct flmem_rule_table flmem_nvflare_script_rules = {nvflare_script_rows,
							    FLMEM_ARRAY_SIZE(nvflare_script_rows)};
