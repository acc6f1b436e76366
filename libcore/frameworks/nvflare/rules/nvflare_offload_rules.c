/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about enable_tensor_disk_offload: what is received is written to disk only if it is sent as
 * tensors of PyTorch and no filter reads it.
 */
#include "frameworks/nvflare/nvflare_classes.h"

#include <string.h>

#include "base/text/text.h"

#define SERVER_FILE &flmem_nvflare_server_file
#define CLIENT_FILE &flmem_nvflare_client_file
#define PYTHON	    &flmem_nvflare_python_file
#define OFFLOAD	    "enable_tensor_disk_offload"

/* Returns the check of one workflow, executor or call of a file. */
static struct flmem_check check_of_part(const struct flmem_check *check,
					const struct flmem_rule_input *input,
					const struct flmem_node *part)
{
	struct flmem_check one = *check;

	one.input = input;
	one.subject = part;
	one.args = flmem_node_get(part, "args");
	return one;
}

/*
 * Whether a workflow or executor of a list offloads. A recipe makes a whole job and is checked
 * separately.
 */
static bool one_offloads(const struct flmem_check *check, const struct flmem_rule_input *input,
			 const char *list, const char *part)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(input->document.root, list));

	for (; n; n = n->next) {
		struct flmem_check one =
			check_of_part(check, input, part ? flmem_node_get(n, part) : n);
		const struct flmem_nvflare_class *known = flmem_nvflare_class_of(one.subject);

		if ((!known || (known->part != FLMEM_NVFLARE_RECIPE && known->offload)) &&
		    flmem_nvflare_is_on(&one, OFFLOAD))
			return true;
	}
	return false;
}

/*
 * Whether a workflow of the job's server, or an executor in the same file, offloads tensors. For
 * Python, only the script itself is searched: a folder may hold several scripts, each of another
 * job.
 */
static bool any_offloads(const struct flmem_check *check)
{
	if (check->input->kind == PYTHON)
		return one_offloads(check, check->input, "calls", NULL);
	for (size_t i = 0; i < check->bundle->count; i++)
		if (one_offloads(check, &check->bundle->inputs[i], "workflows", NULL))
			return true;
	return one_offloads(check, check->input, "executors", "executor");
}

static void compute_job_offloads(const struct flmem_check *check, struct flmem_memo *ret_value)
{
	ret_value->number = any_offloads(check);
}

static bool job_offloads(const struct flmem_check *check)
{
	return flmem_check_memo(check, compute_job_offloads).number;
}

bool flmem_nvflare_offloads(const struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);

	if (!known || !known->format)
		return false;
	if (known->part == FLMEM_NVFLARE_RECIPE)
		return known->offload && flmem_nvflare_is_on(check, OFFLOAD);
	return known->part == FLMEM_NVFLARE_EXECUTOR && job_offloads(check);
}

static void offload_numpy(struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);

	if (flmem_nvflare_offloads(check) &&
	    flmem_nvflare_format_of(check) == FLMEM_NVFLARE_FORMAT_OTHER)
		flmem_nvflare_report_arg(check, known->format,
					 flmem_nvflare_arg(check, known->format),
					 (struct flmem_remark){.proposed = "\"pytorch\""});
}

/*
 * Whether a call adds a filter for results: add_client_output_filter() of a recipe, to() of a job.
 */
static bool filters_results(const struct flmem_node *call)
{
	const char *name = flmem_node_string(flmem_node_get(call, "path"));
	const struct flmem_node *type = FLMEM_NODE_AT(call, "args", "filter_type");

	return name && (strcmp(name, "add_client_output_filter") == 0 ||
			strcmp(name, "add_server_input_filter") == 0 ||
			(flmem_text_starts(name, "to") && type &&
			 (flmem_text_ends(type->text, "TASK_RESULT") ||
			  strcmp(type->text, "task_result") == 0)));
}

/*
 * Whether any call of the script offloads: it does not show to which of several jobs a filter is
 * added.
 */
static bool script_offloads(const struct flmem_check *check)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, "calls"));

	for (; n; n = n->next) {
		const struct flmem_nvflare_class *known = flmem_nvflare_class_of(n);
		struct flmem_check one = check_of_part(check, check->input, n);

		if (known && known->offload && flmem_nvflare_is_on(&one, OFFLOAD))
			return true;
	}
	return false;
}

static void script_offload_filter(struct flmem_check *check)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, "methods"));

	if (!script_offloads(check))
		return;
	for (; n; n = n->next)
		if (filters_results(n))
			flmem_check_report(check, &(struct flmem_remark){
							  .node = flmem_node_get(n, "path"),
							  .path = flmem_node_get(n, "path")->text});
}

static void offload_filter(struct flmem_check *check)
{
	const struct flmem_node *filters = flmem_node_get(check->subject, "task_result_filters");

	if (check->input->kind == PYTHON)
		script_offload_filter(check);
	else if (flmem_node_is_kind(filters, FLMEM_NODE_LIST) && filters->first &&
		 job_offloads(check))
		flmem_check_report(check, &(struct flmem_remark){.node = filters});
}

static void report_site_format(struct flmem_check *check, const struct flmem_node *node,
			       bool certain)
{
	static const enum flmem_severity info = FLMEM_SEVERITY_INFO;

	flmem_check_report(check,
			   &(struct flmem_remark){
				   .node = node,
				   .path = "per_site_config.server_expected_format",
				   .proposed = certain ? "\"pytorch\"" : NULL,
				   .severity = certain ? NULL : &info,
				   .detail = certain ? NULL : "cannot tell whether it is pytorch"});
}

/* A value of None leaves the format to the recipe. */
static void check_site_format(struct flmem_check *check, const struct flmem_node *site)
{
	const struct flmem_node *node = flmem_node_get(site, "server_expected_format");
	enum flmem_nvflare_format format;

	if (!node)
		node = flmem_node_is_kind(site, FLMEM_NODE_EXPRESSION) ? site
								       : flmem_node_get(site, "**");
	if (!node || node->kind == FLMEM_NODE_NULL)
		return;
	format = flmem_nvflare_format_in(node);
	if (format != FLMEM_NVFLARE_FORMAT_PYTORCH)
		report_site_format(check, node, format == FLMEM_NVFLARE_FORMAT_OTHER);
}

static void offload_site(struct flmem_check *check)
{
	const struct flmem_node *call = NULL, *sites;

	if (!script_offloads(check))
		return;
	while ((sites = flmem_nvflare_sites_next(check->subject, &call))) {
		sites = flmem_nvflare_map(check, sites);
		if (sites->kind == FLMEM_NODE_EXPRESSION)
			report_site_format(check, sites, false);
		for (const struct flmem_node *n = flmem_node_first(sites); n; n = n->next)
			check_site_format(check, n);
	}
}

#define NVFLARE .framework = FLMEM_FRAMEWORK_NVFLARE

static const struct flmem_rule_row nvflare_offload_rows[] = {
	{
		.rule = {.id = "NVF-OFFLOAD-NUMPY",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .since = "2.8",
			 .fixable = true,
			 .condition = "enable_tensor_disk_offload true while the "
				      "server_expected_format (aggregation_format) of an executor, "
				      "runner or recipe is not pytorch",
			 .message =
				 "tensor offload to disk has no effect on results that are sent as "
				 "NumPy arrays; set their format to pytorch",
			 .source = "NVFlare design note \"tensor disk offload\""},
		.inputs = {CLIENT_FILE, PYTHON},
		.parts = true,
		.check = offload_numpy,
	},
	{
		.rule = {.id = "NVF-OFFLOAD-FILTER",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = "2.8",
			 .condition =
				 "enable_tensor_disk_offload true while task_result_filters is not "
				 "empty, or a script adds a filter for results",
			 .message = "filters that read the content of results do not work with "
				    "tensors that are offloaded to disk; "
				    "remove such filters, or turn the offload off",
			 .source = "NVFlare design note \"tensor disk offload\""},
		.inputs = {SERVER_FILE, CLIENT_FILE, PYTHON},
		.check = offload_filter,
	},
	{
		.rule = {.id = "NVF-OFFLOAD-SITE",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = "2.8",
			 .condition =
				 "a script with enable_tensor_disk_offload true and a "
				 "server_expected_format in per_site_config that is not pytorch; "
				 "information where it is known only when the script runs",
			 .message =
				 "tensor offload to disk has no effect on the results of this "
				 "site; leave the format to the recipe, which has to set pytorch",
			 .source = "NVFlare 2.9.0, recipe/fedavg.py"},
		.inputs = {PYTHON},
		.check = offload_site,
	},
};

const struct flmem_rule_table flmem_nvflare_offload_rules = {
	nvflare_offload_rows, FLMEM_ARRAY_SIZE(nvflare_offload_rows)};
