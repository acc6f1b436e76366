/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for config_fed_client: the executors of a job. */
#include "frameworks/nvflare/nvflare_classes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"

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

/* With cuda_empty_cache the same value is worse: NVF-CUDA-NOOP reports it. */
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

/* Some num_of_gpus above 0 in the resources of a site; launchers put them one level deeper. */
static bool has_gpus(const struct flmem_node *resources, int levels)
{
	int64_t count;

	for (const struct flmem_node *n = flmem_node_first(resources); n; n = n->next) {
		if (n->key && !strcmp(n->key, "num_of_gpus") && flmem_node_integer(n, &count) &&
		    count > 0)
			return true;
		if (levels && has_gpus(n, levels - 1))
			return true;
	}
	return false;
}

static bool is_deployed_to(const struct flmem_node *sites, const char *site)
{
	for (const struct flmem_node *n = flmem_node_first(sites); n; n = n->next) {
		const char *name = flmem_node_string(n);

		if (name && (!strcmp(name, "@ALL") || !strcmp(name, site)))
			return true;
	}
	return false;
}

/* The site with a GPU to which the meta file deploys this app; NULL when none is known. */
static const char *gpu_site(const struct flmem_check *check)
{
	for (size_t i = 0; i < check->bundle->count; i++) {
		const struct flmem_rule_input *input = &check->bundle->inputs[i];
		const struct flmem_node *sites, *site;

		if (input->kind != &flmem_nvflare_meta_file)
			continue;
		sites = FLMEM_NODE_DIG(input->document.root, "deploy_map", check->input->app);
		site = flmem_node_first(flmem_node_get(input->document.root, "resource_spec"));
		for (; site; site = site->next)
			if (strcmp(site->key, "server") != 0 && has_gpus(site, 1) &&
			    is_deployed_to(sites, site->key))
				return site->key;
	}
	return NULL;
}

/* A list that is written out, and not empty. */
static bool lists_some(const struct flmem_check *check, const struct flmem_node *node)
{
	const char *text = check->input->document.text.data + node->place.start;

	return *text == '[' && text[1 + strspn(text + 1, " \t\r\n")] != ']';
}

/* SimEnv(gpu_config=...), PocEnv(gpu_ids=[...]), simulator_run(gpu=...); or NULL. */
static const struct flmem_node *gpus_of_call(const struct flmem_node *call)
{
	const char *path = flmem_node_string(flmem_node_get(call, "path"));
	const struct flmem_node *args = flmem_node_get(call, "args");

	if (path && flmem_text_ends(path, ".SimEnv"))
		return flmem_node_get(args, "gpu_config");
	if (path && flmem_text_ends(path, ".PocEnv"))
		return flmem_node_get(args, "gpu_ids");
	return path && strcmp(path, "simulator_run") == 0 ? flmem_node_get(args, "gpu") : NULL;
}

static bool runs_on_gpus(const struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *gpus = gpus_of_call(call);
	const char *text = flmem_node_string(gpus);

	return gpus && (text ? *text != '\0' : lists_some(check, gpus));
}

/* An argument of set_recipe_meta() by its name or place; or NULL. */
static const struct flmem_node *meta_argument(const struct flmem_node *call, const char *name,
					      const char *place)
{
	const char *path = flmem_node_string(flmem_node_get(call, "path"));
	const struct flmem_node *args = flmem_node_get(call, "args");
	const struct flmem_node *named = flmem_node_get(args, name);

	if (!path || !flmem_text_ends(path, ".set_recipe_meta"))
		return NULL;
	return named ? named : flmem_node_get(args, place);
}

/* The value for the key RESOURCE_SPEC; or NULL. */
static const struct flmem_node *spec_of_call(const struct flmem_node *call)
{
	const struct flmem_node *key = meta_argument(call, "key", "1");

	return key && flmem_text_ends(key->text, "RESOURCE_SPEC")
		       ? meta_argument(call, "value", "2")
		       : NULL;
}

/* As gpu_site(), of the value that a script gives to set_recipe_meta(). */
static const char *gpu_site_of_meta(const struct flmem_node *call)
{
	const struct flmem_node *site = flmem_node_first(meta_argument(call, "value", "2"));

	for (; site; site = site->next)
		if (site->key && strcmp(site->key, "server") != 0 && has_gpus(site, 1))
			return site->key;
	return NULL;
}

/* Behind a call of a script, or the first one: those of functions, then those of methods. */
static const struct flmem_node *next_call(const struct flmem_check *check,
					  const struct flmem_node *call)
{
	const struct flmem_node *root = check->input->document.root;
	const struct flmem_node *methods = flmem_node_get(root, "methods");
	const struct flmem_node *next =
		call ? call->next : flmem_node_first(flmem_node_get(root, "calls"));

	return next || (call && call->parent == methods) ? next : flmem_node_first(methods);
}

/* `*ret_by` is what assigns GPUs to it. */
static const char *gpu_site_of_script(const struct flmem_check *check, const char **ret_by)
{
	const struct flmem_node *n = NULL;

	while ((n = next_call(check, n))) {
		const char *path = flmem_node_string(flmem_node_get(n, "path"));
		const char *site = gpu_site_of_meta(n);

		*ret_by = site ? "set_recipe_meta()"
			  : flmem_text_ends(path ? path : "", ".PocEnv") ? "PocEnv"
									 : "the simulator";
		if (site || runs_on_gpus(check, n))
			return site ? site : "clients";
	}
	return NULL;
}

/* A script that assigns GPUs, or none, by a variable. */
static bool may_run_on_gpus(const struct flmem_check *check)
{
	const struct flmem_node *n = NULL;

	while ((n = next_call(check, n))) {
		const struct flmem_node *gpus = gpus_of_call(n);

		gpus = gpus ? gpus : spec_of_call(n);
		if (flmem_node_is_kind(gpus, FLMEM_NODE_EXPRESSION) &&
		    check->input->document.text.data[gpus->place.start] != '[')
			return true;
	}
	return false;
}

/* Whether a call or an executor may have the setting, and does not set it. */
static bool lacks_cuda(const struct flmem_check *check)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *node = flmem_node_get(check->args, "cuda_empty_cache");
	bool script = check->input->kind == PYTHON;

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
	site = script ? gpu_site_of_script(check, &by) : gpu_site(check);
	if (site) {
		snprintf(detail, sizeof(detail), "%s assigns GPUs to '%.64s'", by, site);
		flmem_nvflare_report_arg(
			check, "cuda_empty_cache", node,
			(struct flmem_remark){.detail = detail, .proposed = "true"});
	} else if (script && may_run_on_gpus(check)) {
		flmem_nvflare_report_arg(
			check, "cuda_empty_cache", node,
			(struct flmem_remark){.severity = &info,
					      .detail = "whether clients have GPUs is known only "
							"when the script runs"});
	}
}

/* The executor that runs the training script in the same file, as the subject of a check. */
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

static void resends_null(struct flmem_check *check)
{
	static const enum flmem_severity warning = FLMEM_SEVERITY_WARNING;
	static const struct flmem_version_number rejects = FLMEM_VERSION_NUMBER(2, 8, 0);
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(check->subject);
	const struct flmem_node *node = flmem_node_get(check->args, "max_resends");
	bool rejected = check->release.count &&
			flmem_version_number_compare(&check->release, &rejects) >= 0;

	/* A file may hold a class of the user's; of NVFlare's in the table only these have it. */
	if (known ? !flmem_nvflare_resends(known)
		  : check->input->kind == &flmem_nvflare_python_file)
		return;
	if (flmem_node_is_kind(node, FLMEM_NODE_NULL))
		flmem_nvflare_report_arg(
			check, "max_resends", node,
			(struct flmem_remark){.proposed = "3",
					      .severity = rejected ? NULL : &warning});
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

static const struct flmem_rule_row rows[] = {
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
				    "its result; set memory_gc_rounds to 1",
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
				    "memory_gc_rounds to 1",
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
				 "a site with num_of_gpus above 0 in the job's resource_spec, or "
				 "in set_recipe_meta() of a script, or GPUs of an environment or "
				 "the simulator (gpu_config of SimEnv, gpu_ids of PocEnv, gpu of "
				 "simulator_run()), whose executor lacks cuda_empty_cache; for "
				 "information where the GPUs are known only when the script runs",
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
				 "unknown)",
			 .message =
				 "each resend starts another download of the whole result, without "
				 "bound; 2.8 and later refuse null",
			 .source = "NVFlare code, 2.7.2 and 2.8.1"},
		.inputs = {CLIENT_FILE, PYTHON},
		.parts = true,
		.check = resends_null,
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

const struct flmem_rule_table flmem_nvflare_client_rules = {rows, FLMEM_ARRAY_SIZE(rows)};
