/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the GPUs of clients as 2.9.0 does: job_config/api.py, job_config/fed_job_config.py,
 * recipe/sim_env.py, recipe/poc_env.py, private/fed/app/simulator/simulator_runner.py,
 * utils/job_launcher_utils.py.
 */
#include "frameworks/nvflare/nvflare_gpus.h"

#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/nvflare/nvflare_specs.h"

/* Keys of a meta file, and of meta_props, with the resources of sites. */
static const char *const nvflare_gpus_spec_keys[] = {"resource_spec", "launcher_spec"};

/* Whether resources of a site have a number of GPUs above 0. Launchers put it one level deeper. */
static bool has_gpus(const struct flmem_node *resources, int levels)
{
	static const char *const keys[] = {"num_of_gpus", "gpus_per_node", NULL};
	int64_t count;

	for (const struct flmem_node *n = flmem_node_first(resources); n; n = n->next) {
		if (n->key && flmem_text_is_one_of(n->key, keys) && flmem_node_integer(n, &count) &&
		    count > 0)
			return true;
		if (levels && has_gpus(n, levels - 1))
			return true;
	}
	return false;
}

/* Whether a key is the block for all sites, of launcher_spec or of resource_spec. */
static bool is_for_all(const char *site)
{
	return strcmp(site, FLMEM_NVFLARE_LAUNCHER_DEFAULT) == 0 ||
	       strcmp(site, FLMEM_NVFLARE_RESOURCE_DEFAULT) == 0;
}

static bool is_deployed_to(const struct flmem_node *sites, const char *site)
{
	for (const struct flmem_node *n = flmem_node_first(sites); n; n = n->next) {
		const char *name = flmem_node_string(n);

		if (name && (!strcmp(name, "@ALL") || !strcmp(name, site) ||
			     (is_for_all(site) && strcmp(name, "server") != 0)))
			return true;
	}
	return false;
}

/* The first client with GPUs in a map by site; with `sites`, only one of these. NULL: none. */
static const char *gpu_site_in(const struct flmem_node *spec, const struct flmem_node *sites)
{
	for (const struct flmem_node *n = flmem_node_first(spec); n; n = n->next)
		if (n->key && strcmp(n->key, "server") != 0 && has_gpus(n, 1) &&
		    (!sites || is_deployed_to(sites, n->key)))
			return n->key;
	return NULL;
}

const char *flmem_nvflare_gpu_site(const struct flmem_check *check)
{
	for (size_t i = 0; i < check->bundle->count; i++) {
		const struct flmem_rule_input *input = &check->bundle->inputs[i];
		const struct flmem_node *sites;

		if (input->kind != &flmem_nvflare_meta_file)
			continue;
		sites = FLMEM_NODE_AT(input->document.root, "deploy_map", check->input->app);
		for (size_t k = 0; sites && k < FLMEM_ARRAY_SIZE(nvflare_gpus_spec_keys); k++) {
			const char *site = gpu_site_in(
				flmem_node_get(input->document.root, nvflare_gpus_spec_keys[k]),
				sites);

			if (site)
				return site;
		}
	}
	return NULL;
}

/* Whether a value is a list that is written out and not empty. */
static bool lists_some(const struct flmem_check *check, const struct flmem_node *node)
{
	const char *text = check->input->document.text.data + node->place.start;

	return *text == '[' && text[1 + strspn(text + 1, " \t\r\n")] != ']';
}

/*
 * The GPUs of SimEnv(gpu_config=...), PocEnv(gpu_ids=[...]), simulator_run(gpu=...) and the like;
 * or NULL.
 */
static const struct flmem_node *gpus_of_call(const struct flmem_check *check,
					     const struct flmem_node *call)
{
	const char *path = flmem_nvflare_path_text(call);

	if (flmem_text_ends(path, ".SimEnv"))
		return flmem_nvflare_call_argument(check, call, "gpu_config", NULL);
	if (flmem_text_ends(path, ".PocEnv"))
		return flmem_nvflare_call_argument(check, call, "gpu_ids", NULL);
	if (flmem_text_starts(path, "nvflare.") && flmem_text_ends(path, ".SimulatorRunner"))
		return flmem_nvflare_call_argument(check, call, "gpu", "5");
	return strcmp(path, "simulator_run") == 0
		       ? flmem_nvflare_call_argument(check, call, "gpu", "4")
		       : NULL;
}

static bool runs_on_gpus(const struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *gpus = gpus_of_call(check, call);
	const char *text = flmem_node_string(gpus);

	return gpus && (text ? *text != '\0' : lists_some(check, gpus));
}

/* The value of set_recipe_meta(), whatever its key; NULL for other calls. */
static const struct flmem_node *recipe_meta_of(const struct flmem_check *check,
					       const struct flmem_node *call)
{
	return flmem_text_ends(flmem_nvflare_path_text(call), ".set_recipe_meta")
		       ? flmem_nvflare_call_argument(check, call, "value", "2")
		       : NULL;
}

/*
 * Whether a key may be JobMetaKey.RESOURCE_SPEC or JOB_LAUNCHER_SPEC, also if it is known only when
 * the script runs.
 */
static bool may_be_spec_key(const struct flmem_node *key)
{
	const char *text = key && key->text ? key->text : "", *dot = strrchr(text, '.');

	return flmem_text_ends(text, "RESOURCE_SPEC") || flmem_text_ends(text, "LAUNCHER_SPEC") ||
	       (flmem_node_is_kind(key, FLMEM_NODE_EXPRESSION) &&
		(!dot || !isupper((unsigned char)dot[1])));
}

/* Whether the GPUs of a site are known only when the script runs; `levels` as in has_gpus(). */
static bool has_open_gpus(const struct flmem_node *resources, int levels)
{
	static const char *const keys[] = {"num_of_gpus", "gpus_per_node", "**",      "docker",
					   "k8s",	  "slurm",	   "process", NULL};

	if (flmem_node_is_kind(resources, FLMEM_NODE_EXPRESSION))
		return true;
	for (const struct flmem_node *n = flmem_node_first(resources); n; n = n->next)
		if (flmem_node_is_kind(n, FLMEM_NODE_EXPRESSION)
			    ? n->key && flmem_text_is_one_of(n->key, keys)
			    : levels && has_open_gpus(n, levels - 1))
			return true;
	return false;
}

/* Whether the GPUs in a map by site are known only when the script runs. */
static bool is_open_spec(const struct flmem_check *check, const struct flmem_node *value)
{
	const struct flmem_node *spec = flmem_nvflare_map(check, value);

	if (flmem_node_is_kind(spec, FLMEM_NODE_EXPRESSION))
		return true;
	for (const struct flmem_node *n = flmem_node_first(spec); n; n = n->next)
		if (n->key && strcmp(n->key, "server") != 0 && has_open_gpus(n, 1))
			return true;
	return false;
}

/* The site with GPUs in FedJob(meta_props={"resource_spec": ...}); or NULL. */
static const char *gpu_site_of_props(const struct flmem_check *check, const struct flmem_node *call)
{
	const char *path = flmem_nvflare_path_text(call), *site = NULL;
	const struct flmem_node *props;

	props = flmem_nvflare_call_argument(check, call, "meta_props",
					    flmem_text_ends(path, ".FedJob") ? "3" : NULL);
	props = flmem_nvflare_map(check, props);
	for (size_t i = 0; !site && i < FLMEM_ARRAY_SIZE(nvflare_gpus_spec_keys); i++)
		site = gpu_site_in(
			flmem_nvflare_map(check, flmem_node_get(props, nvflare_gpus_spec_keys[i])),
			NULL);
	return site;
}

/* The site with GPUs of add_resource_spec(site_name, resource_spec); or NULL. */
static const char *gpu_site_of_added(const struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *site, *spec;
	const char *name;

	site = flmem_nvflare_call_argument(check, call, "site_name", "0");
	spec = flmem_nvflare_map(check,
				 flmem_nvflare_call_argument(check, call, "resource_spec", "1"));
	name = flmem_node_string(site);
	return name && strcmp(name, "server") != 0 && has_gpus(spec, 1) ? name : NULL;
}

/* The client to which a call assigns GPUs, with the name of the call in *ret_by; or NULL. */
static const char *gpu_site_of_call(const struct flmem_check *check, const struct flmem_node *call,
				    const char **ret_by)
{
	const char *path = flmem_nvflare_path_text(call), *site;

	if (strcmp(path, "add_resource_spec") == 0) {
		*ret_by = "add_resource_spec()";
		return gpu_site_of_added(check, call);
	}
	if (flmem_text_ends(path, ".set_recipe_meta")) {
		*ret_by = "set_recipe_meta()";
		return gpu_site_in(flmem_nvflare_map(check, recipe_meta_of(check, call)), NULL);
	}
	*ret_by = "meta_props";
	site = flmem_text_ends(path, "Job") ? gpu_site_of_props(check, call) : NULL;
	if (site)
		return site;
	*ret_by = flmem_text_ends(path, ".PocEnv") ? "PocEnv" : "the simulator";
	return runs_on_gpus(check, call) ? "clients" : NULL;
}

static void compute_gpu_site(const struct flmem_check *check, struct flmem_memo *ret_value)
{
	const struct flmem_node *n = NULL;

	while (!ret_value->texts[0] && (n = flmem_nvflare_next_call(check, n)))
		ret_value->texts[0] = gpu_site_of_call(check, n, &ret_value->texts[1]);
}

const char *flmem_nvflare_gpu_site_of_script(const struct flmem_check *check, const char **ret_by)
{
	struct flmem_memo site = flmem_check_memo(check, compute_gpu_site);

	*ret_by = site.texts[1];
	return site.texts[0];
}

/* Whether the script assigns "env.gpu_config = value" that is not a value without GPUs. */
static bool assigns_gpus(const struct flmem_check *check)
{
	static const char *const names[] = {"gpu_config", "gpu_ids", NULL};
	static const char *const nothing[] = {"None", "\"\"", "''", "[]"};
	const struct flmem_node *n =
		flmem_node_first(flmem_node_get(check->input->document.root, "attributes"));

	for (; n; n = n->next) {
		const char *value = check->input->document.text.data + n->place.end;
		bool some = flmem_text_is_one_of(n->text, names);

		value += strspn(value, " \t=");
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(nothing); i++)
			some &= !flmem_text_starts(value, nothing[i]);
		if (some)
			return true;
	}
	return false;
}

/* Whether a class of the script inherits from an environment. */
static bool inherits_environment(const struct flmem_check *check)
{
	const struct flmem_node *n =
		flmem_node_first(flmem_node_get(check->input->document.root, "bases"));

	while (n && !flmem_text_ends(n->text, ".SimEnv") && !flmem_text_ends(n->text, ".PocEnv"))
		n = n->next;
	return n;
}

/* The GPUs that such a class passes to super().__init__(); NULL: no call has them. */
static const struct flmem_node *inherited_gpus(const struct flmem_check *check)
{
	static const char *const names[] = {"gpu_config", "gpu_ids"};
	const struct flmem_node *n =
		flmem_node_first(flmem_node_get(check->input->document.root, "methods"));

	for (; n; n = n->next)
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++) {
			const struct flmem_node *gpus = FLMEM_NODE_AT(n, "args", names[i]);

			if (gpus && strcmp(flmem_nvflare_path_text(n), "__init__") == 0)
				return gpus;
		}
	return NULL;
}

/*
 * Whether a class of the script may get GPUs: who creates its objects, with which GPUs, is not
 * read.
 */
static bool may_inherit_gpus(const struct flmem_check *check)
{
	const char *text = check->input->document.text.data;
	const struct flmem_node *gpus;

	if ((!strstr(text, "gpu_config") && !strstr(text, "gpu_ids")) ||
	    !inherits_environment(check))
		return false;
	gpus = inherited_gpus(check);
	return !flmem_node_is_kind(gpus, FLMEM_NODE_NULL);
}

/* Whether the GPUs of set_recipe_meta(recipe, key, value) are known only when the script runs. */
static bool has_open_meta(const struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *args = flmem_node_get(call, "args"), *value, *key;

	if (!flmem_text_ends(flmem_nvflare_path_text(call), ".set_recipe_meta"))
		return false;
	value = recipe_meta_of(check, call);
	key = flmem_nvflare_call_argument(check, call, "key", "1");
	return flmem_node_get(args, "*") ||
	       (value && may_be_spec_key(key) && is_open_spec(check, value));
}

/* Whether the GPUs of FedJob(meta_props=...) are known only when the script runs. */
static bool has_open_props(const struct flmem_check *check, const struct flmem_node *call)
{
	const char *path = flmem_nvflare_path_text(call);
	const struct flmem_node *props;

	if (!flmem_text_starts(path, "nvflare.") || !flmem_text_ends(path, "Job"))
		return false;
	props = flmem_nvflare_call_argument(check, call, "meta_props",
					    flmem_text_ends(path, ".FedJob") ? "3" : NULL);
	props = flmem_nvflare_map(check, props);
	if (flmem_node_is_kind(props, FLMEM_NODE_EXPRESSION) || flmem_node_get(props, "**"))
		return true;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(nvflare_gpus_spec_keys); i++)
		if (is_open_spec(check, flmem_node_get(props, nvflare_gpus_spec_keys[i])))
			return true;
	return false;
}

/* Whether GPUs of add_resource_spec() are known only when the script runs; its site may be, too. */
static bool has_open_addition(const struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *site, *spec;

	if (strcmp(flmem_nvflare_path_text(call), "add_resource_spec") != 0)
		return false;
	site = flmem_nvflare_call_argument(check, call, "site_name", "0");
	spec = flmem_nvflare_map(check,
				 flmem_nvflare_call_argument(check, call, "resource_spec", "1"));
	return has_open_gpus(spec, 1) ||
	       (flmem_node_is_kind(site, FLMEM_NODE_EXPRESSION) && has_gpus(spec, 1));
}

/* Whether the GPUs of an environment or of the simulator are known only when the script runs. */
static bool has_open_argument(const struct flmem_check *check, const struct flmem_node *call)
{
	const struct flmem_node *gpus = gpus_of_call(check, call);

	return flmem_node_is_kind(gpus, FLMEM_NODE_EXPRESSION) &&
	       check->input->document.text.data[gpus->place.start] != '[';
}

static bool may_run_on_gpus(const struct flmem_check *check)
{
	const struct flmem_node *n = NULL;

	while ((n = flmem_nvflare_next_call(check, n)))
		if (has_open_argument(check, n) || has_open_meta(check, n) ||
		    has_open_props(check, n) || has_open_addition(check, n))
			return true;
	return assigns_gpus(check) || may_inherit_gpus(check);
}

static void compute_may_run_on_gpus(const struct flmem_check *check, struct flmem_memo *ret_value)
{
	ret_value->number = may_run_on_gpus(check);
}

bool flmem_nvflare_may_run_on_gpus(const struct flmem_check *check)
{
	return flmem_check_memo(check, compute_may_run_on_gpus).number;
}
