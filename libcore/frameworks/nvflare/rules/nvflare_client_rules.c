/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about config_fed_client, which holds the executors of a job. */
#include "frameworks/nvflare/nvflare_classes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "documents/python/python.h"
#include "frameworks/nvflare/nvflare_gpus.h"

#define CLIENT_FILE &flmem_nvflare_client_file
#define PYTHON	    &flmem_nvflare_python_file

static bool runs_script(const struct flmem_nvflare_class *known)
{
	return known && known->part == FLMEM_NVFLARE_EXECUTOR;
}

static bool empties_cuda(const struct flmem_check *check)
{
	return flmem_nvflare_is_on(check, "cuda_empty_cache");
}

/* Not with cuda_empty_cache, where the same value is worse: rule NVF-CUDA-NOOP reports it. */
static void client_gc_off(struct flmem_check *check)
{
	if (!empties_cuda(check))
		flmem_nvflare_report_gc_off(check, FLMEM_NVFLARE_CLIENT, "1");
}

static void cuda_noop(struct flmem_check *check)
{
	const struct flmem_node *node;
	int64_t rounds;

	if (empties_cuda(check) &&
	    flmem_nvflare_gc_rounds(check, FLMEM_NVFLARE_CLIENT, &rounds, &node) && rounds == 0)
		flmem_nvflare_report_gc(check, FLMEM_NVFLARE_CLIENT,
					(struct flmem_remark){.proposed = "1"});
}

/* Whether a call or an executor may have the argument, and does not set it. */
static bool lacks_cuda(const struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *node = flmem_node_get(check->args, "cuda_empty_cache"), *value;
	bool script = check->input->kind == PYTHON;

	if (flmem_nvflare_is_overridden(check, FLMEM_NVFLARE_CLIENT, "cuda_empty_cache", &value))
		return false;
	return (!node || flmem_node_is_kind(node, FLMEM_NODE_BOOL)) && !empties_cuda(check) &&
	       !flmem_nvflare_open_args(check) &&
	       (script ? known && known->cuda : runs_script(known)) && !strstr(known->path, ".tf.");
}

static void cuda_missing(struct flmem_check *check)
{
	static const enum flmem_severity info = FLMEM_SEVERITY_INFO;
	const struct flmem_node *node = flmem_node_get(check->args, "cuda_empty_cache");
	bool script = check->input->kind == PYTHON;
	const char *by = "the meta file", *site;
	char detail[128];

	if (!lacks_cuda(check))
		return;
	site = script ? flmem_nvflare_gpu_site_of_script(check, &by)
		      : flmem_nvflare_gpu_site(check);
	if (site) {
		snprintf(detail, sizeof(detail), "%s assigns GPUs to '%.64s'", by, site);
		flmem_nvflare_report_arg(
			check, "cuda_empty_cache", node,
			(struct flmem_remark){.detail = detail, .proposed = "true"});
	} else if (script && flmem_nvflare_may_run_on_gpus(check)) {
		flmem_nvflare_report_arg(
			check, "cuda_empty_cache", node,
			(struct flmem_remark){.severity = &info,
					      .detail = "whether clients have GPUs is known only "
							"when the script runs"});
	}
}

/* Finds the executor that runs the training script in the same file, as the subject of a check. */
static bool find_trainer(const struct flmem_check *check, struct flmem_check *ret_trainer)
{
	const struct flmem_input_kind *kind = check->input->kind;
	const struct flmem_node *entry =
		flmem_node_first(flmem_node_get(check->input->document.root, kind->parts));

	for (; entry; entry = entry->next) {
		const struct flmem_node *executor =
			kind->part ? flmem_node_get(entry, kind->part) : entry;

		if (!runs_script(flmem_nvflare_class_of(executor)))
			continue;
		*ret_trainer = *check;
		ret_trainer->subject = executor;
		ret_trainer->args = flmem_node_get(executor, "args");
		return true;
	}
	return false;
}

static void swarm_split(struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *own_node, *trainer_node;
	struct flmem_check trainer;
	int64_t own, training;
	char detail[160], proposed[24];

	if (!known || known->part != FLMEM_NVFLARE_SWARM_EXECUTOR ||
	    !find_trainer(check, &trainer) ||
	    !flmem_nvflare_gc_rounds(check, FLMEM_NVFLARE_CLIENT, &own, &own_node) ||
	    !flmem_nvflare_gc_rounds(&trainer, FLMEM_NVFLARE_CLIENT, &training, &trainer_node) ||
	    own == training || !training)
		return;
	snprintf(detail, sizeof(detail), "aggregation every %" PRId64 ", training every %" PRId64,
		 own, training);
	snprintf(proposed, sizeof(proposed), "%" PRId64, training);
	flmem_nvflare_report_arg(check, "memory_gc_rounds", own_node,
				 (struct flmem_remark){.detail = detail, .proposed = proposed});
}

/*
 * Whether a script makes an executor of an external process with 2.7.2, which exports max_resends
 * as null whatever the script passes: TaskExchanger.__init__() sets the attribute that is exported.
 */
static bool exports_null_resends(const struct flmem_check *check)
{
	static const struct flmem_version_number exports = FLMEM_VERSION_NUMBER(2, 7, 2);
	const struct flmem_node *external = flmem_nvflare_arg(check, "launch_external_process");

	return check->input->kind == &flmem_nvflare_python_file && check->release.count &&
	       flmem_version_number_compare(&check->release, &exports) == 0 &&
	       flmem_node_is_kind(external, FLMEM_NODE_BOOL) && !flmem_python_is_false(external) &&
	       flmem_nvflare_class_of(check->subject);
}

static void resends_null(struct flmem_check *check)
{
	static const enum flmem_severity warning = FLMEM_SEVERITY_WARNING;
	static const struct flmem_version_number rejects = FLMEM_VERSION_NUMBER(2, 8, 0);
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *node = flmem_node_get(check->args, "max_resends");
	bool rejected = check->release.count &&
			flmem_version_number_compare(&check->release, &rejects) >= 0;

	if (exports_null_resends(check))
		flmem_nvflare_report_arg(
			check, "launch_external_process",
			flmem_nvflare_arg(check, "launch_external_process"),
			(struct flmem_remark){.severity = &warning,
					      .detail = "2.7.2 writes null into the exported job "
							"for an external process: set 3 there"});
	/*
	 * In a job file the class may be the user's. Of the classes in the table, only some have
	 * the argument.
	 */
	if (known ? !flmem_nvflare_resends(known)
		  : check->input->kind == &flmem_nvflare_python_file)
		return;
	if (flmem_node_is_kind(node, FLMEM_NODE_NULL))
		flmem_nvflare_report_arg(
			check, "max_resends", node,
			(struct flmem_remark){.proposed = "3",
					      .severity = rejected ? NULL : &warning});
}

/*
 * Checks the value by which ClientAPILauncherExecutor of 2.8 is overridden
 * (_apply_max_resends_client_config_override()).
 */
static void check_config_resends(struct flmem_check *check, const struct flmem_node *map)
{
	const struct flmem_node *node = flmem_node_get(map, "max_resends");
	const struct flmem_node *value = flmem_check_resolve(check->input, node);
	int64_t number;

	if (value && value->kind != FLMEM_NODE_EXPRESSION &&
	    !(flmem_node_integer(value, &number) && number >= 0))
		flmem_check_report(check,
				   &(struct flmem_remark){.node = node, .path = "max_resends"});
}

static void config_resends(struct flmem_check *check)
{
	struct flmem_nvflare_config_at at = {0};
	const struct flmem_node *map;

	while ((map = flmem_nvflare_config_next(check, &at)))
		if (!strstr(flmem_nvflare_path_text(at.call), "server"))
			check_config_resends(check, map);
}

static void legacy_executor(struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *path = flmem_nvflare_path(check->subject);

	if (known && known->before && path)
		flmem_check_report(check, &(struct flmem_remark){.node = path});
}

static void executors_without_settings(struct flmem_check *check)
{
	flmem_nvflare_report_no_settings(check, "executors", "executor");
}

#define NVFLARE .framework = FLMEM_FRAMEWORK_NVFLARE

static const struct flmem_rule_row nvflare_client_rows[] = {
	{
		.rule = {.id = "NVF-CLI-GC-OFF",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = "2.7.2",
			 .fixable = true,
			 .condition = "an executor or recipe whose memory_gc_rounds "
				      "(client_memory_gc_rounds) is 0 or absent; absent means off, "
				      "contrary to the release notes of 2.7.2",
			 .message = "the client never collects garbage or trims after it has sent "
				    "its result; set the interval of cleanups to 1",
			 .source = FLMEM_SOURCE_NVFLARE_GUIDE},
		.inputs = {CLIENT_FILE, PYTHON},
		.parts = true,
		.check = client_gc_off,
	},
	{
		.rule = {.id = "NVF-CUDA-NOOP",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .since = "2.7.2",
			 .fixable = true,
			 .condition = "cuda_empty_cache true while memory_gc_rounds is 0 or absent",
			 .message = "cuda_empty_cache has no effect without a cleanup; set "
				    "the interval of cleanups to 1",
			 .source = FLMEM_SOURCE_NVFLARE_CODE},
		.inputs = {CLIENT_FILE, PYTHON},
		.parts = true,
		.check = cuda_noop,
	},
	{
		.rule = {.id = "NVF-CUDA-MISSING",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = "2.7.2",
			 .fixable = true,
			 .condition =
				 "a site with GPUs (num_of_gpus, or gpus_per_node of Slurm) in the "
				 "job's resource_spec or launcher_spec, or in set_recipe_meta(), "
				 "add_resource_spec() or meta_props of a script, or GPUs of an "
				 "environment or the simulator (gpu_config of SimEnv, gpu_ids of "
				 "PocEnv, gpu of simulator_run() and SimulatorRunner), whose "
				 "executor lacks cuda_empty_cache; for information where the GPUs "
				 "are known only when the script runs, also in a class that "
				 "inherits from an environment",
			 .message = "a GPU client keeps PyTorch's CUDA cache between rounds; set "
				    "cuda_empty_cache to true",
			 .source = FLMEM_SOURCE_NVFLARE_GUIDE},
		.inputs = {CLIENT_FILE, PYTHON},
		.parts = true,
		.check = cuda_missing,
	},
	{
		.rule = {.id = "NVF-SWARM-SPLIT",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = "2.7.2",
			 .fixable = true,
			 .condition =
				 "SwarmClientController and the executor that trains differ in "
				 "memory_gc_rounds",
			 .message = "the two halves of a swarm client clean up at different "
				    "intervals; set the value of the recipe's single argument in "
				    "both places",
			 .source = "NVFlare swarm recipe, 2.7.2 to 2.9.0"},
		.inputs = {CLIENT_FILE, PYTHON},
		.parts = true,
		.check = swarm_split,
	},
	{
		.rule = {.id = "NVF-RESENDS-NULL",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .fixable = true,
			 .condition =
				 "max_resends null (a warning where the version is below 2.8 or "
				 "unknown); launch_external_process in a script of 2.7.2",
			 .message =
				 "each resend starts another download of the whole result, without "
				 "bound; 2.8 and later refuse null",
			 .source = "NVFlare code, 2.7.2 and 2.8.1"},
		.inputs = {CLIENT_FILE, PYTHON},
		.parts = true,
		.check = resends_null,
	},
	{
		.rule = {.id = "NVF-RESENDS-INVALID",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .since = "2.8",
			 .before = "2.9",
			 .condition =
				 "max_resends as an outermost key of config_fed_client, or added "
				 "to it by a script, that is not a whole number of at least 0",
			 .message = "the executor of an external process accepts only a whole "
				    "number of at least 0 here; set a small one, like 3",
			 .source = "NVFlare code, 2.8.0"},
		.inputs = {CLIENT_FILE, PYTHON},
		.check = config_resends,
	},
	{
		.rule = {.id = "NVF-EXECUTOR-NO-SETTINGS",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .condition =
				 "a job in which no executor has a memory setting, with one of "
				 "NVFlare's others (ModelLearnerExecutor, for example)",
			 .message = "this executor never cleans up and has no argument for it; set "
				    "the allocator with flmem start, and trim with flmem trim",
			 .source = "NVFlare code, 2.7.2 to 2.9.0"},
		.inputs = {CLIENT_FILE},
		.check = executors_without_settings,
	},
	{
		.rule = {.id = "NVF-LEGACY-EXECUTOR",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .since = "2.9",
			 .certain = true,
			 .condition = "an executor class that 2.9 removed",
			 .message = "NVFlare 2.9 removed this executor, so the job does not load; "
				    "export the job again, which writes a ClientAPIExecutor",
			 .source = "NVFlare code, 2.8.3 and 2.9.0"},
		.inputs = {CLIENT_FILE, PYTHON},
		.parts = true,
		.check = legacy_executor,
	},
};

const struct flmem_rule_table flmem_nvflare_client_rules = {nvflare_client_rows,
							    FLMEM_ARRAY_SIZE(nvflare_client_rows)};
