/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/flower/flower_simulations.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/text/text.h"
#include "documents/python/python.h"

/*
 * An argument by its name, which run_simulation() also accepts with hyphens (_replace_keys() in
 * run_simulation.py).
 */
static const struct flmem_node *node_spelled(const struct flmem_node *map, const char *name)
{
	const struct flmem_node *node = flmem_node_get(map, name);
	char other[32];

	if (node)
		return node;
	snprintf(other, sizeof(other), "%s", name);
	for (char *p = strchr(other, '_'); p; p = strchr(p, '_'))
		*p = '-';
	return flmem_node_get(map, other);
}

/*
 * The version constraint in "flwr[simulation]>=1.17.0" of the dependencies; NULL if there is none.
 */
static const char *version_bound(const struct flmem_node *root)
{
	static const char name[] = "flwr";
	const struct flmem_node *n =
		flmem_node_first(FLMEM_NODE_AT(root, "project", "dependencies"));

	for (; n; n = n->next) {
		const char *text = flmem_node_string(n), *rest;

		if (!text || strncmp(text, name, sizeof(name) - 1) != 0)
			continue;
		rest = text + sizeof(name) - 1;
		if (*rest == '[')
			rest += strcspn(rest, "]") + (strchr(rest, ']') != NULL);
		rest += strspn(rest, " ");
		if (*rest && strchr("<>=~!", *rest))
			return rest;
	}
	return NULL;
}

/* The federations of pyproject.toml, or the connections of config.toml in FLWR_HOME. */
static const struct flmem_node *federation_nodes(const struct flmem_check *check)
{
	const struct flmem_node *own = flmem_node_get(check->subject, "superlink");

	return own ? own : FLMEM_NODE_AT(check->subject, "tool", "flwr", "federations");
}

bool flmem_flower_is_config(const struct flmem_document *document)
{
	const struct flmem_node *own = flmem_node_get(document->root, "superlink");

	return flmem_node_is_kind(own, FLMEM_NODE_MAP) || flmem_node_is_kind(own, FLMEM_NODE_LIST);
}

/*
 * Whether a table sets resources. If it is not a table, or lacks both keys, Flower takes the
 * defaults.
 */
static bool has_resources(const struct flmem_node *options)
{
	const struct flmem_node *resources = FLMEM_NODE_AT(options, "backend", "client-resources");

	return flmem_node_get(resources, "num-cpus") || flmem_node_get(resources, "num-gpus");
}

static void check_federation(struct flmem_check *check, const struct flmem_node *federation)
{
	const struct flmem_node *options = flmem_node_get(federation, "options");
	const char *bound = version_bound(check->input->document.root);
	char detail[128];
	int64_t nodes;

	if (!flmem_node_integer(flmem_node_get(options, "num-supernodes"), &nodes) || nodes < 2 ||
	    has_resources(options))
		return;
	snprintf(detail, sizeof(detail), "%" PRId64 " SuperNodes%s%.60s", nodes,
		 bound ? ", flwr" : "", bound ? bound : "");
	flmem_check_report(check, &(struct flmem_remark){.node = options,
							 .missing = "backend.client-resources",
							 .detail = detail});
}

static bool is_simulation_call(const struct flmem_node *call, const char *name)
{
	const char *path = flmem_node_string(flmem_node_get(call, "path"));

	return path && flmem_text_starts(path, "flwr.") && flmem_text_ends(path, name);
}

/* The argument of a call by its name or its position; NULL if it has none. */
static const struct flmem_node *simulation_argument(const struct flmem_node *call, const char *name,
						    const char *position)
{
	const struct flmem_node *args = flmem_node_get(call, "args");
	const struct flmem_node *node = flmem_node_get(args, name);

	return node ? node : flmem_node_get(args, position);
}

/*
 * The node "*" or "**" of a call, which may hold an argument that the call does not show; or NULL.
 */
static const struct flmem_node *open_arguments(const struct flmem_node *call)
{
	const struct flmem_node *args = flmem_node_get(call, "args");
	const struct flmem_node *open = flmem_node_get(args, "**");

	return open ? open : flmem_node_get(args, "*");
}

static const struct flmem_node *backend_config(const struct flmem_node *call)
{
	return simulation_argument(call, "backend_config", "4");
}

/* The expression that determines the resources; NULL if no expression does. */
static const struct flmem_node *unknown_resources(const struct flmem_node *resources)
{
	static const char *const names[] = {"num_cpus", "num_gpus", "**"};

	if (flmem_node_is_kind(resources, FLMEM_NODE_EXPRESSION))
		return resources;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++) {
		const struct flmem_node *node = node_spelled(resources, names[i]);

		if (flmem_node_is_kind(node, FLMEM_NODE_EXPRESSION))
			return node;
	}
	return NULL;
}

/* Checks run_simulation(..., backend_config={"client_resources": ...}). */
static void check_call_resources(struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *config = backend_config(call);
	const struct flmem_node *resources = node_spelled(config, "client_resources");
	const struct flmem_node *open = unknown_resources(resources);

	if (!open && (node_spelled(resources, "num_cpus") || node_spelled(resources, "num_gpus")))
		return;
	if (!open && !config)
		open = open_arguments(call);
	else if (!open && !resources)
		open = config->kind == FLMEM_NODE_MAP ? flmem_node_get(config, "**") : config;
	flmem_check_report(check, &(struct flmem_remark){
					  .node = open ? open : flmem_node_get(call, "path"),
					  .path = "run_simulation.backend_config",
					  .detail = flmem_node_is_kind(open, FLMEM_NODE_EXPRESSION)
							    ? FLMEM_FLOWER_UNTIL_RUN
							    : "without client_resources in "
							      "backend_config"});
}

void flmem_flower_check_resources(struct flmem_check *check)
{
	const struct flmem_node *n = flmem_node_first(federation_nodes(check));

	if (check->input->document.syntax == FLMEM_SYNTAX_TOML) {
		for (; n; n = n->next)
			check_federation(check, n);
		return;
	}
	n = flmem_node_first(flmem_node_get(check->subject, "calls"));
	for (; n; n = n->next)
		if (is_simulation_call(n, ".run_simulation"))
			check_call_resources(check, n);
}

static void report_number(struct flmem_check *check, const struct flmem_node *node)
{
	flmem_check_report(check, &(struct flmem_remark){.node = node});
}

/*
 * Whether a number of processors or GPUs is invalid; `zero`: 0 is allowed, as for GPUs. Python's
 * truth values are 1 and 0.
 */
static bool is_invalid_number(const struct flmem_node *node, bool zero)
{
	double value;

	if (!node || node->kind == FLMEM_NODE_EXPRESSION)
		return false;
	if (node->kind == FLMEM_NODE_BOOL)
		return !zero && !flmem_node_is_true(node);
	if (node->kind != FLMEM_NODE_INTEGER && node->kind != FLMEM_NODE_REAL)
		return true;
	return flmem_parse_real(node->text + (*node->text == '+'), &value, NULL) ||
	       (value <= 0 && !zero);
}

/*
 * Checks num-cpus of TOML for a fraction, also 2.0: from 1.28 on, SimulationConfig of
 * federation_config.proto has a uint32 for it.
 */
static void check_whole(struct flmem_check *check, const struct flmem_node *node)
{
	static const struct flmem_version_number first = FLMEM_VERSION_NUMBER(1, 28, 0);
	static const enum flmem_severity warning = FLMEM_SEVERITY_WARNING;
	bool known = check->release.count != 0;

	if (flmem_node_is_kind(node, FLMEM_NODE_REAL) &&
	    (!known || flmem_version_number_compare(&check->release, &first) >= 0))
		flmem_check_report(check,
				   &(struct flmem_remark){.node = node,
							  .detail = "not a whole number, which "
								    "Flower requires from 1.28 on",
							  .severity = known ? NULL : &warning});
}

static void check_table_numbers(struct flmem_check *check, const struct flmem_node *backend)
{
	static const char *const names[] = {"num-cpus", "num-gpus"};

	for (int i = 0; i < 2; i++) {
		const struct flmem_node *own = FLMEM_NODE_AT(backend, "client-resources", names[i]);
		const struct flmem_node *host = FLMEM_NODE_AT(backend, "init-args", names[i]);

		if (is_invalid_number(own, i == 1))
			report_number(check, own);
		else if (i == 0)
			check_whole(check, own);
		if (is_invalid_number(host, i == 1) || flmem_node_is_kind(host, FLMEM_NODE_REAL))
			report_number(check, host);
	}
}

/*
 * Checks the number of nodes: by cli/typing.py, and for run_simulation() by the loop that creates
 * them.
 */
static void check_supernodes(struct flmem_check *check, const struct flmem_node *nodes)
{
	int64_t count;

	if (!nodes || nodes->kind == FLMEM_NODE_EXPRESSION || flmem_node_is_true(nodes))
		return;
	if (!flmem_node_integer(nodes, &count) || count < 1 || count > UINT32_MAX)
		report_number(check, nodes);
}

static void check_federation_table(struct flmem_check *check, const struct flmem_node *federation)
{
	static const char name[] = "num-supernodes";
	const struct flmem_node *options = flmem_node_get(federation, "options");
	const struct flmem_node *nodes = flmem_node_get(options, name);

	if (federation->kind == FLMEM_NODE_LIST) /* a text is the name of the default federation */
		report_number(check, federation);
	if (options && options->kind != FLMEM_NODE_MAP)
		report_number(check, options);
	else if (options && !nodes)
		flmem_check_report(check, &(struct flmem_remark){.node = options, .missing = name});
	check_supernodes(check, nodes);
	check_table_numbers(check, flmem_node_get(options, "backend"));
}

static void check_federation_tables(struct flmem_check *check)
{
	const struct flmem_node *all = federation_nodes(check), *n = flmem_node_first(all);

	if (all && all->kind != FLMEM_NODE_MAP) {
		report_number(check, all);
		return;
	}
	for (; n; n = n->next)
		check_federation_table(check, n);
}

static void check_map_numbers(struct flmem_check *check, const struct flmem_node *map)
{
	const struct flmem_node *cpus = node_spelled(map, "num_cpus"),
				*gpus = node_spelled(map, "num_gpus");

	if (is_invalid_number(cpus, false))
		report_number(check, cpus);
	if (is_invalid_number(gpus, true))
		report_number(check, gpus);
}

/* Checks numbers in the resources of run_simulation(), which adds no defaults to them. */
static void check_call_numbers(struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *config = backend_config(call);
	const struct flmem_node *resources = node_spelled(config, "client_resources");
	const struct flmem_node *nodes = simulation_argument(call, "num_supernodes", "2");

	if (!nodes && !open_arguments(call))
		flmem_check_report(check,
				   &(struct flmem_remark){.node = flmem_node_get(call, "args"),
							  .missing = "num_supernodes"});
	check_supernodes(check, nodes);
	check_map_numbers(check, resources);
	check_map_numbers(check, node_spelled(config, "init_args"));
	if (!flmem_node_is_kind(resources, FLMEM_NODE_MAP)) {
		if (resources && resources->kind != FLMEM_NODE_EXPRESSION &&
		    !flmem_python_is_false(resources))
			report_number(check, resources);
	} else if (flmem_node_first(resources) && !node_spelled(resources, "num_cpus") &&
		   !flmem_node_get(resources, "**")) {
		flmem_check_report(
			check, &(struct flmem_remark){.node = resources, .missing = "num_cpus"});
	}
}

void flmem_flower_check_numbers(struct flmem_check *check)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, "calls"));

	if (check->input->document.syntax == FLMEM_SYNTAX_TOML) {
		check_federation_tables(check);
		return;
	}
	for (; n; n = n->next) {
		if (is_simulation_call(n, ".run_simulation"))
			check_call_numbers(check, n);
		else if (is_simulation_call(n, ".start_simulation"))
			check_map_numbers(check, FLMEM_NODE_AT(n, "args", "client_resources"));
	}
}

/* Checks keys of this table; cli/flower_config.py reads two of them. */
static void check_table_keys(struct flmem_check *check, const struct flmem_node *federation)
{
	const struct flmem_node *resources =
		FLMEM_NODE_AT(federation, "options", "backend", "client-resources");

	for (const struct flmem_node *n = flmem_node_first(resources); n; n = n->next)
		if (n->key && strcmp(n->key, "num-cpus") != 0 && strcmp(n->key, "num-gpus") != 0)
			flmem_check_report(check,
					   &(struct flmem_remark){.node = n, .detail = n->key});
}

void flmem_flower_check_keys(struct flmem_check *check)
{
	const struct flmem_node *n = flmem_node_first(federation_nodes(check));

	for (; n; n = n->next)
		check_table_keys(check, n);
}

/* Checks start_simulation(..., client_resources={"num_cpus": ...}) of Flower before 1.13. */
void flmem_flower_check_legacy(struct flmem_check *check)
{
	const struct flmem_node *call = check->subject;
	const struct flmem_node *resources = flmem_node_get(check->args, "client_resources");
	const struct flmem_node *open = unknown_resources(resources);

	if (!is_simulation_call(call, ".start_simulation") ||
	    (!open && flmem_node_get(resources, "num_cpus")))
		return;
	if (!open)
		open = resources ? resources : open_arguments(call);
	flmem_check_report(check, &(struct flmem_remark){
					  .node = open ? open : flmem_node_get(call, "path"),
					  .path = "start_simulation.client_resources",
					  .detail = flmem_node_is_kind(open, FLMEM_NODE_EXPRESSION)
							    ? FLMEM_FLOWER_UNTIL_RUN
							    : "without num_cpus in "
							      "client_resources"});
}
