/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/nvflare/nvflare_classes.h"

#include <stdio.h>
#include <string.h>

#define WORKFLOWS "nvflare.app_common.workflows."
#define EXECUTORS "nvflare.app_common.executors."

/* From the constructors of NVFlare 2.7.2, 2.8.1 and 2.9 in development. */
static const struct flmem_nvflare_class classes[] = {
	{.path = WORKFLOWS "fedavg.FedAvg"},
	{.path = "nvflare.app_opt.pt.fedavg.PTFedAvg"},
	{.path = "nvflare.app_opt.pt.fedopt_ctl.FedOpt"},
	{.path = "nvflare.app_opt.tf.fedopt_ctl.FedOpt"},
	{.path = WORKFLOWS "scaffold.Scaffold"},
	{.path = WORKFLOWS "cyclic.Cyclic"},
	{.path = WORKFLOWS "lr.fedavg.FedAvgLR", .gc_ignored = true},
	{.path = WORKFLOWS "scatter_and_gather.ScatterAndGather", .gc_default = 1},
	{.path = WORKFLOWS "scatter_and_gather_scaffold.ScatterAndGatherScaffold",
	 .gc_default = 1,
	 .gc_ignored = true},
	{.path = WORKFLOWS "cyclic_ctl.CyclicController", .gc_default = 1},
	{.path = EXECUTORS "in_process_client_api_executor.InProcessClientAPIExecutor",
	 .part = FLMEM_NVFLARE_EXECUTOR,
	 .legacy = true},
	{.path = "nvflare.app_opt.pt.in_process_client_api_executor.PTInProcessClientAPIExecutor",
	 .part = FLMEM_NVFLARE_EXECUTOR,
	 .legacy = true},
	{.path = "nvflare.app_opt.tf.in_process_client_api_executor.TFInProcessClientAPIExecutor",
	 .part = FLMEM_NVFLARE_EXECUTOR,
	 .legacy = true},
	{.path = EXECUTORS "client_api_launcher_executor.ClientAPILauncherExecutor",
	 .part = FLMEM_NVFLARE_EXECUTOR,
	 .legacy = true},
	{.path = "nvflare.app_opt.pt.client_api_launcher_executor.PTClientAPILauncherExecutor",
	 .part = FLMEM_NVFLARE_EXECUTOR,
	 .legacy = true},
	{.path = "nvflare.app_opt.tf.client_api_launcher_executor.TFClientAPILauncherExecutor",
	 .part = FLMEM_NVFLARE_EXECUTOR,
	 .legacy = true},
	{.path = EXECUTORS "client_api_executor.ClientAPIExecutor", .part = FLMEM_NVFLARE_EXECUTOR},
	{.path = "nvflare.app_common.ccwf.swarm_client_ctl.SwarmClientController",
	 .part = FLMEM_NVFLARE_SWARM_EXECUTOR,
	 .gc_default = 1},
};

const char *flmem_nvflare_short_name(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot ? dot + 1 : path;
}

const struct flmem_nvflare_class *flmem_nvflare_class_of(const struct flmem_node *subject)
{
	const char *path = flmem_node_string(flmem_node_get(subject, "path"));
	const char *name = flmem_node_string(flmem_node_get(subject, "name"));

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(classes); i++) {
		const char *known = classes[i].path;

		if (path ? !strcmp(path, known)
			 : name && !strcmp(name, flmem_nvflare_short_name(known)))
			return &classes[i];
	}
	return NULL;
}

bool flmem_nvflare_gc_rounds(const struct flmem_check *check, int64_t *ret_rounds,
			     const struct flmem_node **ret_node)
{
	const struct flmem_node *node = flmem_node_get(check->args, "memory_gc_rounds");
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);

	*ret_node = node;
	if (node)
		return flmem_node_integer(flmem_check_resolve(check->input, node), ret_rounds);
	if (!known)
		return false;
	*ret_rounds = known->gc_default;
	return true;
}

void flmem_nvflare_report_arg(struct flmem_check *check, const char *name,
			      const struct flmem_node *node, struct flmem_remark remark)
{
	char under_args[64];

	snprintf(under_args, sizeof(under_args), "args.%s", name);
	remark.node = node ? node : check->args ? check->args : check->subject;
	if (!node)
		remark.missing = check->args ? name : under_args;
	flmem_check_report(check, &remark);
}

void flmem_nvflare_report_gc_off(struct flmem_check *check, const char *proposed)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	struct flmem_remark remark = {.proposed = proposed};
	const struct flmem_node *node;
	char detail[128];
	int64_t rounds;

	if (!flmem_nvflare_gc_rounds(check, &rounds, &node) || rounds != 0)
		return;
	if (!node && known) {
		snprintf(detail, sizeof(detail), "absent, and the default of %s is 0",
			 flmem_nvflare_short_name(known->path));
		remark.detail = detail;
	}
	flmem_nvflare_report_arg(check, "memory_gc_rounds", node, remark);
}

bool flmem_nvflare_integer(const struct flmem_input *input, const struct flmem_node *args,
			   const char *name, int64_t *ret_value)
{
	const struct flmem_node *node = flmem_node_get(args, name);

	return flmem_node_integer(flmem_check_resolve(input, node), ret_value);
}

bool flmem_nvflare_job_rounds(const struct flmem_bundle *bundle, int64_t *ret_rounds)
{
	for (size_t i = 0; i < bundle->count; i++) {
		const struct flmem_input *input = &bundle->inputs[i];
		const struct flmem_node *workflow;

		if (input->kind != &flmem_nvflare_server_file)
			continue;
		workflow = flmem_node_first(flmem_node_get(input->document.root, "workflows"));
		for (; workflow; workflow = workflow->next)
			if (flmem_nvflare_integer(input, flmem_node_get(workflow, "args"),
						  "num_rounds", ret_rounds))
				return true;
	}
	return false;
}
