/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about Python that changes the configuration of an APPFL server or client after reading it.
 */
#include "frameworks/appfl/appfl_rules.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_calls.h"
#include "frameworks/launch/launch_check.h"

static const char *const settings[] = {"use_model_chunking", "model_chunk_size", "max_message_size",
				       "optimize_memory",    "use_polling",	 NULL};

/* Words of scripts that take any setting from the command line. */
static const char *const cli_words[] = {"from_cli", "merge_with_cli", NULL};

/* Words in code that exec() and eval() run, by which it is about APPFL. */
static const char *const appfl_python_code_words[] = {"appfl",
						      "cfg",
						      "conf",
						      "use_model_chunking",
						      "model_chunk_size",
						      "max_message_size",
						      "optimize_memory",
						      "use_polling",
						      NULL};

/* Words of scripts that run code. */
static const char *const run_words[] = {"exec", "eval(", NULL};

/* Parts of names of maps that a script reads from YAML and may change. */
static const char *const map_words[] = {"cfg", "conf", NULL};

static bool appfl_python_is_likely(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	(void)syntax;
	return flmem_file_has_word(text, "appfl") && (flmem_file_has_any_word(text, settings) ||
						      flmem_file_has_any_word(text, cli_words) ||
						      flmem_file_has_any_word(text, run_words) ||
						      flmem_file_has_any_word(text, map_words));
}

static bool is_appfl_python(const struct flmem_document *document)
{
	return appfl_python_is_likely(document->syntax, &document->text);
}

const struct flmem_input_kind flmem_appfl_python_file = {
	.is_likely = appfl_python_is_likely,
	.is_one = is_appfl_python,
	.by_words = true,
	.content = FLMEM_CONTENT_PYTHON,
};

/* The last name of a path: NAME in "server_configs.comm_configs.grpc_configs.NAME". */
static const char *last_name(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot ? dot + 1 : path;
}

/*
 * Reports settings in arguments: OmegaConf.create({"grpc_configs": {NAME: value}}),
 * dict(NAME=value).
 */
static void report_arguments(struct flmem_check *check, const struct flmem_node *map)
{
	for (const struct flmem_node *n = flmem_node_first(map); n; n = n->next) {
		if (n->key && flmem_text_is_one_of(n->key, settings))
			flmem_check_report(check,
					   &(struct flmem_remark){.node = n, .path = n->key});
		report_arguments(check, n);
	}
}

static bool reads_dotlist(const struct flmem_node *call)
{
	static const char *const readers[] = {"from_dotlist", "merge_with_dotlist", NULL};
	const char *path = flmem_node_string(flmem_node_get(call, "path"));

	return path && flmem_text_is_one_of(last_name(path), readers);
}

/* Whether a text has "NAME=", and not "NAME==". */
static bool has_setting_text(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (; (text = strstr(text, name)); text += length)
		if (text[length] == '=' && text[length + 1] != '=')
			return true;
	return false;
}

/* Reports settings in texts: setattr(map, NAME, value), OmegaConf.create("NAME: value"). */
static void report_texts(struct flmem_check *check, const struct flmem_node *call)
{
	static const char *const readers[] = {"create", "safe_load", "load", NULL};
	const char *path = flmem_node_string(flmem_node_get(call, "path"));
	const struct flmem_node *first = FLMEM_NODE_AT(call, "args", "0");
	const struct flmem_node *second = FLMEM_NODE_AT(call, "args", "1");
	bool sets = path && (strcmp(path, "setattr") == 0 || strcmp(path, "__setattr__") == 0);
	const char *text = flmem_node_string(sets ? second : first);

	if (!text || !path || (!sets && !flmem_text_is_one_of(last_name(path), readers)))
		return;
	for (const char *const *name = settings; *name; name++)
		if (sets ? strcmp(text, *name) == 0 : strstr(text, *name) != NULL)
			flmem_check_report(check,
					   &(struct flmem_remark){.node = sets ? second : first,
								  .path = *name});
}

/* Reports OmegaConf.from_cli(), which may change any setting. */
static void report_command_line(struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *path = flmem_node_get(call, "path");

	if (flmem_node_string(path) && flmem_text_is_one_of(last_name(path->text), cli_words))
		flmem_check_report(check, &(struct flmem_remark){
						  .node = path,
						  .path = last_name(path->text),
						  .detail = "any setting may be an argument of its "
							    "command line"});
}

/*
 * Reports OmegaConf.from_dotlist(["server_configs.NAME=value"]), also with a list made elsewhere.
 */
static void report_dotlist(struct flmem_check *check, const struct flmem_node *call)
{
	for (const char *const *name = settings; *name; name++)
		if (has_setting_text(check->input->document.text.data, *name))
			flmem_check_report(
				check, &(struct flmem_remark){.node = flmem_node_get(call, "path"),
							      .path = *name});
}

static void report_open_key(struct flmem_check *check, const struct flmem_node *key)
{
	flmem_check_report(check, &(struct flmem_remark){.node = key,
							 .path = "config",
							 .detail = "the name of the setting is "
								   "known only when it runs"});
}

/* Whether a name is that of a configuration: "cfg", "args.server_config", but not "confusion". */
static bool is_named_config(const char *name)
{
	return strcasestr(name, "cfg") || strcasestr(name, "config") ||
	       strcasecmp(name, "conf") == 0 || flmem_text_ends(name, "_conf");
}

/*
 * Reports keys known only when the script runs: config[key] = value, setattr(config, key, value),
 * OmegaConf.update(config, key, value).
 */
static void report_open_keys(struct flmem_check *check)
{
	static const char *const lists[] = {"calls", "methods"};
	static const char *const setters[] = {"setattr", "__setattr__", "update", NULL};
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, "entries"));

	for (; n; n = n->next)
		if (is_named_config(n->text))
			report_open_key(check, n);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++)
		for (n = flmem_node_first(flmem_node_get(check->subject, lists[i])); n;
		     n = n->next) {
			const char *path = flmem_node_string(flmem_node_get(n, "path"));
			const struct flmem_node *object = FLMEM_NODE_AT(n, "args", "0");
			const struct flmem_node *key = FLMEM_NODE_AT(n, "args", "1");

			if (path && flmem_text_is_one_of(last_name(path), setters) && object &&
			    is_named_config(object->text) &&
			    flmem_node_is_kind(key, FLMEM_NODE_EXPRESSION))
				report_open_key(check, key);
		}
}

/* Reports config.NAME = value, config["NAME"] = value, {"NAME": value} for a merge. */
static void setting_in_python(struct flmem_check *check)
{
	static const char *const lists[] = {"attributes", "items", "keys", "paths"};
	static const char *const calls[] = {"calls", "methods"};
	const struct flmem_node *dotlist = NULL; /* the first call that takes such texts */

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++) {
		const struct flmem_node *n =
			flmem_node_first(flmem_node_get(check->subject, lists[i]));

		for (; n; n = n->next)
			if (flmem_text_is_one_of(last_name(n->text), settings))
				flmem_check_report(
					check, &(struct flmem_remark){.node = n,
								      .path = last_name(n->text)});
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(calls); i++) {
		const struct flmem_node *n =
			flmem_node_first(flmem_node_get(check->subject, calls[i]));

		for (; n; n = n->next) {
			report_arguments(check, flmem_node_get(n, "args"));
			report_texts(check, n);
			report_command_line(check, n);
			if (!dotlist && reads_dotlist(n))
				dotlist = n;
		}
	}
	if (dotlist)
		report_dotlist(check, dotlist);
	report_open_keys(check);
	flmem_launch_check_code(check, "appfl", appfl_python_code_words);
}

static const struct flmem_rule_row appfl_python_rows[] = {
	{
		.rule = {.id = "APPFL-SET-IN-PYTHON",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_APPFL,
			 .condition =
				 "use_model_chunking, model_chunk_size, max_message_size, "
				 "use_polling or optimize_memory that Python about APPFL assigns, "
				 "has as a key of a dictionary or in a text of YAML, or sets by a "
				 "text of OmegaConf.from_dotlist(); OmegaConf.from_cli(); an entry "
				 "of a configuration (a name with cfg or config) whose key is a "
				 "variable; exec or eval of a text about one, or of what is known "
				 "only when the script runs",
			 .message = "cannot tell which value applies: the script changes what was "
				    "read from YAML; set it there",
			 .source = "APPFL 1.12.0, agent/server.py and agent/client.py"},
		.inputs = {&flmem_appfl_python_file},
		.check = setting_in_python,
	},
	{
		.rule = {.id = "APPFL-LAUNCH-CANNOT-TELL",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_APPFL,
			 .condition =
				 "a script, image, unit, Compose or Kubernetes file that "
				 "starts a module of APPFL, or Python that does so by a command; "
				 "one about APPFL that runs Python",
			 .message = FLMEM_LAUNCH_STARTS_MESSAGE,
			 .source = "APPFL 1.12.0, appfl/run_*.py"},
		.inputs = {&flmem_launch_file, &flmem_launch_unread_file,
			   &flmem_launch_python_file},
		.check = flmem_launch_check_starts,
	},
};

const struct flmem_rule_table flmem_appfl_python_rules = {appfl_python_rows,
							  FLMEM_ARRAY_SIZE(appfl_python_rows)};
