/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about what the Python of a job sends and imports. send() of an object that is not NVFlare's
 * is ignored, unless it has an argument clear_cache.
 */
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "documents/python/python.h"
#include "frameworks/nvflare/nvflare_classes.h"
#include "frameworks/nvflare/nvflare_client_api.h"

enum clearing_effect {
	CLEARS,
	KEEPS,
	UNCERTAIN,
};

static const char nvflare_python_at_run_time[] =
	"a call of send() in the job's Python files has a clear_cache that is known only when it "
	"runs";

static bool is_lightning(const char *module)
{
	return strcmp(module, "nvflare.client.lightning") == 0 ||
	       flmem_text_starts(module, "nvflare.client.lightning.") ||
	       flmem_text_starts(module, "nvflare.app_opt.lightning");
}

static bool is_send(const char *path)
{
	static const char *const paths[] = {"nvflare.client.send", "nvflare.client.api.send",
					    "nvflare.client.lightning.send",
					    "nvflare.client.hf.send"};

	for (size_t i = 0; path && i < FLMEM_ARRAY_SIZE(paths); i++)
		if (strcmp(path, paths[i]) == 0)
			return true;
	return false;
}

/*
 * Whether a call is of the method of the class: InProcessClientAPI.send(object, model,
 * clear_cache).
 */
static bool is_send_of_class(const char *path)
{
	static const char method[] = ".send";
	size_t length = strlen(path);
	char class[FLMEM_NVFLARE_PATH_MAX];

	if (!flmem_text_ends(path, method) || length >= sizeof(class))
		return false;
	memcpy(class, path, length - sizeof(method) + 1);
	class[length - sizeof(method) + 1] = '\0';
	return flmem_nvflare_is_client_api(class);
}

/*
 * Merges the effect of a call into that of all calls: the worst one counts, then one that is not
 * known.
 */
static void note_send(struct flmem_check *check, enum clearing_effect clearing)
{
	struct flmem_u64 *all = &check->found->clear_cache;

	if (clearing == KEEPS)
		*all = FLMEM_KNOWN(0);
	else if (clearing == UNCERTAIN && (all->unknown || all->value))
		*all = FLMEM_UNKNOWN(nvflare_python_at_run_time);
	else if (clearing == CLEARS && all->unknown && all->unknown != nvflare_python_at_run_time)
		*all = FLMEM_KNOWN(1);
}

/*
 * The effect of send(model, clear_cache=True). *ret_node is the value, or the arguments that may
 * hold it, or NULL.
 */
static enum clearing_effect clearing_of(const struct flmem_check *check,
					const struct flmem_node **ret_node)
{
	const struct flmem_node *node = flmem_nvflare_arg(check, "clear_cache");
	bool unbound = is_send_of_class(flmem_nvflare_path_text(check->subject));

	*ret_node = node ? node : flmem_nvflare_arg(check, unbound ? "2" : "1");
	if (!*ret_node) {
		*ret_node = flmem_nvflare_open_args(check);
		return *ret_node ? UNCERTAIN : CLEARS;
	}
	if ((*ret_node)->kind == FLMEM_NODE_EXPRESSION)
		return UNCERTAIN;
	return flmem_python_is_false(*ret_node) ? KEEPS : CLEARS;
}

/* Calls `report` with a call as subject of the check. */
static void visit_send(struct flmem_check *check, const struct flmem_node *call,
		       void (*report)(struct flmem_check *check))
{
	struct flmem_check one = *check;

	one.subject = call;
	one.args = flmem_node_get(call, "args");
	report(&one);
	check->failed |= one.failed;
}

static void visit_sends(struct flmem_check *check, void (*report)(struct flmem_check *check))
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, "calls"));
	struct flmem_nvflare_senders senders;

	flmem_nvflare_senders_init(check, &senders);
	for (; n; n = n->next)
		if (is_send(flmem_node_string(flmem_node_get(n, "path"))) ||
		    is_send_of_class(flmem_nvflare_path_text(n)))
			visit_send(check, n, report);
	for (n = flmem_node_first(flmem_node_get(check->subject, "methods")); n; n = n->next)
		if (flmem_nvflare_is_send_of_object(check, &senders, n))
			visit_send(check, n, report);
}

static void report_kept(struct flmem_check *check)
{
	const struct flmem_node *node;
	enum clearing_effect clearing = clearing_of(check, &node);

	note_send(check, clearing);
	if (clearing == KEEPS)
		flmem_check_report(check, &(struct flmem_remark){.node = node,
								 .path = "clear_cache",
								 .proposed = "True"});
}

static void clear_cache_false(struct flmem_check *check)
{
	visit_sends(check, report_kept);
}

/*
 * The argument whose name resembles clear_cache, with which the call fails: clear_cahce=False.
 * NULL: none.
 */
static const struct flmem_node *misspelt_argument(const struct flmem_check *check)
{
	static const char name[] = "clear_cache";
	const struct flmem_node *n = flmem_node_first(check->args);

	while (n && (strcmp(n->key, name) == 0 || flmem_text_distance(n->key, name) > 2))
		n = n->next;
	return n;
}

static void report_uncertain(struct flmem_check *check)
{
	const struct flmem_node *node = misspelt_argument(check);

	if (node)
		flmem_check_report(check,
				   &(struct flmem_remark){.node = node,
							  .path = node->key,
							  .detail = "did you mean clear_cache"});
	if (clearing_of(check, &node) == UNCERTAIN)
		flmem_check_report(check,
				   &(struct flmem_remark){.node = node,
							  .path = "clear_cache",
							  .detail = "an argument of send()"});
}

static void clear_cache_unknown(struct flmem_check *check)
{
	visit_sends(check, report_uncertain);
}

static bool is_client_module(const char *path)
{
	return strcmp(path, "nvflare.client") == 0 || strcmp(path, "nvflare.client.api") == 0;
}

/* Reports send.__defaults__ = (False,) and the like. */
static void send_changed(struct flmem_check *check)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, "rebound"));
	char function[FLMEM_PYTHON_DOTTED_MAX];

	for (; n; n = n->next) {
		const char *member = strstr(n->text, ".__");

		if (!member)
			continue;
		snprintf(function, sizeof(function), "%.*s", (int)(member - n->text), n->text);
		if (!is_send(function))
			continue;
		note_send(check, UNCERTAIN);
		flmem_check_report(
			check, &(struct flmem_remark){.node = n,
						      .path = "send",
						      .detail = "a part of send() is replaced"});
	}
}

/* Reports send, or a module that has it, that is passed on: how it is called is not known. */
static void send_passed_on(struct flmem_check *check)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, "values"));

	send_changed(check);
	for (; n; n = n->next) {
		bool module = is_client_module(n->text);

		if (!module && !is_send(n->text))
			continue;
		note_send(check, UNCERTAIN);
		flmem_check_report(check, &(struct flmem_remark){
						  .node = n,
						  .path = "send",
						  .detail = module ? "the module that has send() "
								     "is passed on"
								   : "send() is passed on"});
	}
}

static void check_lightning(struct flmem_check *check)
{
	const char *text = check->input->document.text.data;
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, "imports"));
	struct flmem_node statement;

	while (n && !is_lightning(n->text))
		n = n->next;
	if (!n)
		return;
	note_send(check, KEEPS);
	statement = *n;
	statement.place.end =
		statement.place.start + strcspn(text + statement.place.start, "\r\n#");
	flmem_check_report(check, &(struct flmem_remark){.node = &statement, .path = "import"});
}

/* Reports arguments in train_args of a swarm recipe that the runner gets from the recipe itself. */
static void swarm_train_args(struct flmem_check *check)
{
	static const char *const keys[][2] = {
		{"memory_gc_rounds", "train_args.memory_gc_rounds"},
		{"cuda_empty_cache", "train_args.cuda_empty_cache"},
		{"server_expected_format", "train_args.server_expected_format"},
		{"aggregation_format", "train_args.aggregation_format"},
	};
	const char *path = flmem_node_string(flmem_node_get(check->subject, "path"));
	const struct flmem_node *args = flmem_nvflare_arg(check, "train_args");

	if (!path || !flmem_text_starts(path, "nvflare.") ||
	    !flmem_text_ends(path, "SwarmLearningRecipe"))
		return;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(keys); i++) {
		const struct flmem_node *node = flmem_node_get(args, keys[i][0]);

		if (node)
			flmem_check_report(
				check, &(struct flmem_remark){.node = node, .path = keys[i][1]});
	}
}

#define NVFLARE .framework = FLMEM_FRAMEWORK_NVFLARE
#define SCRIPT	.inputs = {&flmem_nvflare_python_file}

static const struct flmem_rule_row nvflare_python_rows[] = {
	{
		.rule = {.id = "NVF-CLEAR-CACHE-FALSE",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .since = "2.7.2",
			 .condition = "a call of the client API's send, under any name, with a "
				      "clear_cache that Python takes as false, by name or as the "
				      "second argument; send() of any object where the argument "
				      "has that name, of the API of a context, and of an object of "
				      "InProcessClientAPI and the like",
			 .message =
				 "the sent and received parameters stay in memory until the next "
				 "round; leave clear_cache at True, the most effective setting of "
				 "a client, unless the script reads them after sending",
			 .source = FLMEM_SOURCE_NVFLARE_GUIDE},
		SCRIPT,
		.check = clear_cache_false,
	},
	{
		.rule = {.id = "NVF-CLEAR-CACHE-UNKNOWN",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .since = "2.7.2",
			 .condition = "a call of send whose clear_cache is a variable, in "
				      "**arguments, or misspelt",
			 .message = "cannot tell whether the parameters are released after "
				    "sending: the value is known only when the script runs",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		SCRIPT,
		.check = clear_cache_unknown,
	},
	{
		.rule = {.id = "NVF-SEND-PASSED-ON",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .since = "2.7.2",
			 .condition =
				 "the client API's send, or its module, as a value (an argument, "
				 "an attribute, an entry of a list), or an attribute of send "
				 "that is replaced",
			 .message = "cannot tell whether the parameters are released after "
				    "sending: the call is elsewhere",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		SCRIPT,
		.check = send_passed_on,
	},
	{
		.rule = {.id = "NVF-LIGHTNING-KEEPS-PARAMS",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .since = "2.7.2",
			 .condition = "an import of nvflare.client.lightning or "
				      "nvflare.app_opt.lightning",
			 .message = "a patched Lightning trainer sends with clear_cache False, so "
				    "its parameters stay in memory between rounds",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		SCRIPT,
		.check = check_lightning,
	},
	{
		.rule = {.id = "NVF-SWARM-TRAIN-ARGS",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .since = "2.7.2",
			 .condition =
				 "memory_gc_rounds, cuda_empty_cache, server_expected_format or "
				 "aggregation_format in train_args of a swarm recipe",
			 .message = "the recipe rejects this when it is made: pass it as an "
				    "argument of the recipe itself (aggregation_format for the "
				    "format)",
			 .source = FLMEM_SOURCE_NVFLARE_GUIDE},
		SCRIPT,
		.parts = true,
		.check = swarm_train_args,
	},
};

const struct flmem_rule_table flmem_nvflare_python_rules = {nvflare_python_rows,
							    FLMEM_ARRAY_SIZE(nvflare_python_rows)};
