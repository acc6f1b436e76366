/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about Flower's pyproject.toml, which sets how many ClientApps a simulation runs at once,
 * and about its Python.
 */
#include "frameworks/flower/flower_rules.h"

#include <string.h>

#include "base/text/text.h"
#include "documents/python/python.h"
#include "frameworks/flower/flower_simulations.h"
#include "frameworks/launch/launch_calls.h"
#include "frameworks/launch/launch_check.h"

static bool is_likely_flower(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	(void)syntax;
	return flmem_file_has_word(text, "tool.flwr");
}

static bool is_project(const struct flmem_document *document)
{
	return is_likely_flower(document->syntax, &document->text);
}

static bool is_python_likely(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	/* A script with the last of these may get the others from a module without naming them. */
	static const char *const words[] = {"ArrayRecord",
					    "ParametersRecord",
					    "run_simulation",
					    "start_simulation",
					    "start_server",
					    "import_module",
					    "__import__",
					    "getattr",
					    "exec",
					    "eval(",
					    NULL};

	(void)syntax;
	return flmem_file_has_word(text, "flwr") && flmem_file_has_any_word(text, words);
}

static bool is_python(const struct flmem_document *document)
{
	return is_python_likely(document->syntax, &document->text);
}

static bool is_flower_call(const struct flmem_node *call)
{
	const char *path = flmem_node_string(flmem_node_get(call, "path"));

	return path && flmem_text_starts(path, "flwr.");
}

static const struct flmem_input_kind flower_python_file = {
	.is_likely = is_python_likely,
	.is_one = is_python,
	.by_words = true,
	.parts = "calls",
	.is_part = is_flower_call,
	.content = FLMEM_CONTENT_PYTHON,
};

static void legacy_server(struct flmem_check *check)
{
	const struct flmem_node *path = flmem_node_get(check->subject, "path");

	if (flmem_node_string(path) && flmem_text_ends(path->text, ".start_server"))
		flmem_check_report(check,
				   &(struct flmem_remark){.node = path, .path = "start_server"});
}

/*
 * Whether a call makes a record: ArrayRecord(...), ParametersRecord(...),
 * ArrayRecord.from_torch_state_dict(...) and the like.
 */
static bool makes_record(const char *path)
{
	static const char *const names[] = {".ArrayRecord", ".ParametersRecord"};

	for (size_t i = 0; path && i < FLMEM_ARRAY_SIZE(names); i++) {
		const char *at = strstr(path, names[i]);
		size_t length = strlen(names[i]);

		if (at && (!at[length] || flmem_text_starts(at + length, ".from_")))
			return true;
	}
	return false;
}

/*
 * Reports records that keep their input. With arguments that are not known, keep_input may be among
 * them.
 */
static void keeps_input(struct flmem_check *check)
{
	const struct flmem_node *path = flmem_node_get(check->subject, "path");
	const struct flmem_node *keep = flmem_node_get(check->args, "keep_input"), *open = keep;

	if (!makes_record(flmem_node_string(path)) || !flmem_node_first(check->args))
		return;
	if (!keep)
		open = flmem_node_get(check->args, "**");
	if (!open)
		open = flmem_node_get(check->args, "*");
	if (flmem_node_is_kind(open, FLMEM_NODE_EXPRESSION))
		flmem_check_report(check,
				   &(struct flmem_remark){.node = open,
							  .path = keep ? "ArrayRecord.keep_input"
								       : "ArrayRecord",
							  .detail = FLMEM_FLOWER_UNTIL_RUN});
	else if (!keep || !flmem_python_is_false(keep))
		flmem_check_report(check,
				   &(struct flmem_remark){.node = keep ? keep : check->args,
							  .missing = keep ? NULL : "keep_input",
							  .path = keep ? "ArrayRecord.keep_input"
								       : "ArrayRecord",
							  .proposed = "False"});
}

/* Whether the file has federations, and if it names a default one, that one. */
static bool has_federations(const struct flmem_node *federations)
{
	const char *name = flmem_node_string(flmem_node_get(federations, "default"));
	const struct flmem_node *n = flmem_node_first(federations);

	if (name)
		return flmem_node_get(federations, name) != NULL;
	return n != NULL;
}

/*
 * Reports federations that Flower 1.42 moves to its own configuration
 * (flwr/cli/config_migration.py).
 */
static void simulation_elsewhere(struct flmem_check *check)
{
	const struct flmem_node *flower = FLMEM_NODE_AT(check->subject, "tool", "flwr");
	const struct flmem_node *app = flmem_node_get(flower, "app");

	if (flower && !has_federations(flmem_node_get(flower, "federations")))
		flmem_check_report(check, &(struct flmem_remark){.node = app ? app : flower});
}

static const struct flmem_input_kind project_file = {
	.is_likely = is_likely_flower,
	.is_one = is_project,
	.by_words = true,
};

/*
 * Whether a text may be a config.toml of flwr: its connections (cli/constant.py) may be
 * simulations.
 */
static bool config_is_likely(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	(void)syntax;
	return flmem_file_has_word(text, "[superlink") && flmem_file_has_word(text, "options");
}

static const struct flmem_input_kind config_file = {
	.is_likely = config_is_likely,
	.is_one = flmem_flower_is_config,
};

/*
 * Whether a value copies no tensors: cast(ArrayRecord, value) creates no record, and
 * field(default_factory=ArrayRecord) an empty one.
 */
static bool copies_nothing(const struct flmem_check *check, const struct flmem_node *value)
{
	static const char *const before[] = {"cast(", "default_factory="};
	const char *text = check->input->document.text.data;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(before); i++) {
		size_t length = strlen(before[i]);

		if (value->place.start >= length &&
		    strncmp(text + value->place.start - length, before[i], length) == 0)
			return true;
	}
	return false;
}

static bool is_run_elsewhere(const char *path)
{
	static const char *const names[] = {"run_simulation", "start_simulation", "start_server",
					    NULL};

	return flmem_text_is_one_of(strrchr(path, '.') + 1, names);
}

/*
 * Reports import_module("flwr.simulation") and __import__(): uses of what they return are not
 * followed.
 */
static void report_imports(struct flmem_check *check, const char *list, const char *function)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, list));

	for (; n; n = n->next) {
		const char *path = flmem_node_string(flmem_node_get(n, "path"));
		const struct flmem_node *module = FLMEM_NODE_AT(n, "args", "0");
		const char *name = flmem_node_string(module);

		if (!path || strcmp(path, function) != 0)
			continue;
		if (name ? strcmp(name, "flwr") == 0 || flmem_text_starts(name, "flwr.")
			 : flmem_node_is_kind(module, FLMEM_NODE_EXPRESSION))
			flmem_check_report(
				check, &(struct flmem_remark){.node = module, .path = function});
	}
}

/*
 * Whether a path is a module that has ArrayRecord, run_simulation and the like, as in
 * getattr(flwr.simulation, name).
 */
static bool is_flower_module(const char *path)
{
	static const char *const names[] = {"flwr",	   "flwr.app",	      "flwr.common",
					    "flwr.server", "flwr.simulation", NULL};

	return flmem_text_is_one_of(path, names);
}

/* Reports ArrayRecord, run_simulation and the like that are passed on without a call. */
static void passed_on(struct flmem_check *check)
{
	static const char *const lists[] = {"values", "bases"};
	static const char *const code_words[] = {"flwr", "ArrayRecord", "run_simulation", NULL};

	flmem_launch_check_code(check, "flwr", code_words);
	report_imports(check, "calls", "importlib.import_module");
	report_imports(check, "methods", "__import__");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++) {
		const struct flmem_node *n =
			flmem_node_first(flmem_node_get(check->subject, lists[i]));

		for (; n; n = n->next) {
			const char *dot = strrchr(n->text, '.');

			if (is_flower_module(n->text) ||
			    (flmem_text_starts(n->text, "flwr.") && !copies_nothing(check, n) &&
			     (makes_record(n->text) || is_run_elsewhere(n->text))))
				flmem_check_report(
					check, &(struct flmem_remark){
						       .node = n, .path = dot ? dot + 1 : n->text});
		}
	}
}

const struct flmem_file_name flmem_flower_files[] = {
	{"config.toml", &config_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_TOML},
	{"pyproject.toml", &project_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_TOML},
	FLMEM_PYTHON_FILE_NAMES(&flower_python_file),
	{0},
};

static const struct flmem_rule_row flower_rows[] = {
	{
		.rule = {.id = "FLWR-SIM-RESOURCES",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_FLOWER,
			 .condition =
				 "a simulated federation in pyproject.toml, or in config.toml of "
				 "Flower, with several SuperNodes "
				 "and without options.backend.client-resources; a call of "
				 "run_simulation() without client_resources in its backend_config, "
				 "or with a value that is known only when it runs",
			 .message =
				 "each ClientApp reserves 2 processors by default, so half as many "
				 "ClientApps as processors run at once, each with its own model; "
				 "set num-cpus and num-gpus there so that they fit in memory",
			 .source = "Flower code, raybackend.py, 1.42, and guide \"Run "
				   "simulations\""},
		.inputs = {&project_file, &config_file, &flower_python_file},
		.check = flmem_flower_check_resources,
	},
	{
		.rule = {.id = "FLWR-SIM-INVALID",
			 .severity = FLMEM_SEVERITY_ERROR,
			 .framework = FLMEM_FRAMEWORK_FLOWER,
			 .condition =
				 "num-cpus of client-resources or init-args that is 0, false, "
				 "negative, not a finite number or a text, num-gpus that is "
				 "negative, not a finite number or a text, num-supernodes that is "
				 "absent, below 1 or not a whole number, in pyproject.toml, "
				 "config.toml or a call of run_simulation() or start_simulation(); "
				 "num-cpus in TOML, or numbers of init-args there, that are not "
				 "whole numbers (the former a warning where the version is not "
				 "known); client_resources of run_simulation() without num_cpus; a "
				 "federation, or its options, that is not a table "
				 "([[tool.flwr.federations.NAME]])",
			 .message = "Flower refuses this value, divides by it, or creates no "
				    "client from it, so the simulation does not run; num-gpus "
				    "takes fractions, num-cpus does in Python, and in TOML before "
				    "1.28",
			 .source = "Flower 1.42.0, cli/typing.py, "
				   "proto/federation_config.proto and "
				   "simulation/ray_transport/ray_actor.py"},
		.inputs = {&project_file, &config_file, &flower_python_file},
		.check = flmem_flower_check_numbers,
	},
	{
		.rule = {.id = "FLWR-SIM-KEY-IGNORED",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .framework = FLMEM_FRAMEWORK_FLOWER,
			 .condition =
				 "a key of options.backend.client-resources other than num-cpus "
				 "and num-gpus, in pyproject.toml or config.toml",
			 .message =
				 "Flower ignores this key without a warning, so its default holds: "
				 "2 processors and no GPU for a ClientApp; name it num-cpus or "
				 "num-gpus",
			 .source = "Flower 1.42.0, cli/flower_config.py and supercore/constant.py"},
		.inputs = {&project_file, &config_file},
		.check = flmem_flower_check_keys,
	},
	{
		.rule = {.id = "FLWR-PASSED-ON",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_FLOWER,
			 .condition = "ArrayRecord, run_simulation, start_simulation or "
				      "start_server that Python passes on, stores or inherits "
				      "from instead of calling it, or a module of them; "
				      "importlib.import_module or __import__ of a module of "
				      "Flower, or of a variable; exec or eval of a text about "
				      "it, or of what is known only when the script runs",
			 .message = "cannot tell whether it keeps its input, how much its clients "
				    "reserve or how much memory it needs: the call is elsewhere",
			 .source = "Flower 1.42.0, app/message/arrayrecord.py and "
				   "simulation/run_simulation.py"},
		.inputs = {&flower_python_file},
		.check = passed_on,
	},
	{
		.rule = {.id = "FLWR-SIM-ELSEWHERE",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_FLOWER,
			 .condition = "a pyproject.toml of Flower without federations, or without "
				      "the one that it names as the default",
			 .message = "cannot tell how many ClientApps run at once: the federation "
				    "is in Flower's own configuration (config.toml in FLWR_HOME); "
				    "set options.backend.client-resources there",
			 .source = "Flower 1.42.0, cli/config_migration.py"},
		.inputs = {&project_file},
		.check = simulation_elsewhere,
	},
	{
		.rule = {.id = "FLWR-LAUNCH-CANNOT-TELL",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_FLOWER,
			 .condition =
				 "a script, image, unit, Compose or Kubernetes file that starts "
				 "flower-superlink, flower-supernode, flower-superexec, "
				 "flwr-serverapp, flwr-clientapp, a simulation or flwr run, or an "
				 "image of Flower, or Python that does so by a command; one about "
				 "Flower that runs Python",
			 .message = FLMEM_LAUNCH_STARTS_MESSAGE,
			 .source = "Flower 1.42.0, pyproject.toml"},
		.inputs = {&flmem_launch_file, &flmem_launch_unread_file,
			   &flmem_launch_python_file},
		.check = flmem_launch_check_starts,
	},
	{
		.rule = {.id = "FLWR-SIM-LEGACY",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_FLOWER,
			 .condition = "a call of start_simulation() without num_cpus in its "
				      "client_resources, or with a value that is known only when "
				      "it runs",
			 .message = "each client reserves 1 processor by default, so as many "
				    "clients as processors run at once, each with its own model; "
				    "set num_cpus and num_gpus there so that they fit in memory",
			 .source = "Flower code, simulation/legacy_app.py, 1.42.0"},
		.inputs = {&flower_python_file},
		.parts = true,
		.check = flmem_flower_check_legacy,
	},
	{
		.rule = {.id = "FLWR-START-SERVER",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_FLOWER,
			 .condition = "a call of start_server()",
			 .message = "cannot tell how much memory it needs: the results of all "
				    "clients of a round are in this process, and Flower has no "
				    "setting for that (flmem recommend --model plans it)",
			 .source =
				 "Flower code, compat/server/app.py and server/server.py, 1.42.0"},
		.inputs = {&flower_python_file},
		.parts = true,
		.check = legacy_server,
	},
	{
		.rule = {.id = "FLWR-KEEP-INPUT",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_FLOWER,
			 .condition = "an ArrayRecord made of arrays or a state_dict without "
				      "keep_input=False, or with a value that is known only when "
				      "the app runs",
			 .message = "the record is a copy, and the input stays in memory beside "
				    "it; keep_input=False empties the input while it is copied, "
				    "where it is not used afterwards",
			 .source = "Flower 1.42.0, app/message/arrayrecord.py"},
		.inputs = {&flower_python_file},
		.parts = true,
		.check = keeps_input,
	},
};

const struct flmem_rule_table flmem_flower_rules = {flower_rows, FLMEM_ARRAY_SIZE(flower_rows)};
