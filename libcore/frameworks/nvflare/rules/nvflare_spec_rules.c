/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about the resources that a job requests at a site, by utils/job_launcher_utils.py,
 * private/fed/server/job_meta_validator.py, app_opt/job_launcher/slurm/config.py and
 * app_common/resource_managers/gpu_resource_manager.py of 2.9.0.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/nvflare/nvflare_specs.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"

#define PYTHON &flmem_nvflare_python_file

static const struct flmem_version_number release_2_9 = FLMEM_VERSION_NUMBER(2, 9, 0);

static const char *const portable_keys[] = {"num_of_gpus", "num_of_cpus", "memory", NULL};

static void report_spec(struct flmem_check *check, const struct flmem_node *node,
			const char *detail)
{
	flmem_check_report(check, &(struct flmem_remark){.node = node, .detail = detail});
}

static bool is_resource_default(const struct flmem_nvflare_spec *spec)
{
	return !spec->launcher && spec->site &&
	       strcmp(spec->site, FLMEM_NVFLARE_RESOURCE_DEFAULT) == 0;
}

/* Whether a value is not known: an expression, or null for an absent one. It is not a fault. */
static bool is_open_value(const struct flmem_node *value)
{
	return !value || value->kind == FLMEM_NODE_EXPRESSION;
}

/* Whether a value is "8Gi": a whole number of Mi, Gi or Ti. */
static bool is_portable_memory(const struct flmem_node *value)
{
	const char *text = flmem_node_string(value);
	static const char *const units[] = {"Mi", "Gi", "Ti", NULL};

	return text && *text >= '1' && *text <= '9' &&
	       flmem_text_is_one_of(text + strspn(text, "0123456789"), units);
}

static bool is_count(const struct flmem_node *value, int64_t least)
{
	int64_t count;

	return value->kind == FLMEM_NODE_INTEGER && flmem_node_integer(value, &count) &&
	       count >= least;
}

static void refuse_portable(struct flmem_check *check, const struct flmem_node *asked)
{
	const struct flmem_node *memory = flmem_node_get(asked, "memory");
	const struct flmem_node *gpus = flmem_node_get(asked, "num_of_gpus");
	const struct flmem_node *cpus = flmem_node_get(asked, "num_of_cpus");

	if (!is_open_value(memory) && !is_portable_memory(memory))
		report_spec(check, memory,
			    "memory has to be a text of a whole number and Mi, Gi or Ti");
	if (!is_open_value(gpus) && !is_count(gpus, 0))
		report_spec(check, gpus, "num_of_gpus has to be a whole number from 0 on");
	if (!is_open_value(cpus) && !is_count(cpus, 1))
		report_spec(check, cpus, "num_of_cpus has to be a whole number from 1 on");
}

static void report_other_keys(struct flmem_check *check, const struct flmem_node *map,
			      const char *const *known, const char *what)
{
	char detail[160];

	for (const struct flmem_node *n = flmem_node_first(map); n; n = n->next) {
		if (!n->key || flmem_text_is_one_of(n->key, known) || strcmp(n->key, "**") == 0)
			continue;
		snprintf(detail, sizeof(detail), "'%.60s' is not a key of %s", n->key, what);
		report_spec(check, n, detail);
	}
}

static void refuse_launcher_parts(struct flmem_check *check, const struct flmem_node *asked)
{
	static const char *const docker_keys[] = {"image",	 "python_path", "entrypoint",
						  "num_of_gpus", "shm_size",	NULL};
	static const char *const slurm_keys[] = {"image",
						 "nodes",
						 "gpus_per_node",
						 "cpus_per_node",
						 "mem_per_node",
						 "time",
						 "pending_timeout",
						 "additional_node_command",
						 NULL};
	const struct flmem_node *slurm = flmem_node_get(asked, "slurm");
	const struct flmem_node *memory = flmem_node_get(slurm, "mem_per_node");

	report_other_keys(check, flmem_node_get(asked, "docker"), docker_keys,
			  "a job for Docker; the memory of its container is 'memory' in "
			  "resource_spec");
	report_other_keys(check, slurm, slurm_keys, "a job for Slurm");
	if (!is_open_value(memory) && memory->kind != FLMEM_NODE_NULL && !is_count(memory, 1))
		report_spec(check, memory, "mem_per_node has to be a whole number of MiB");
}

/* The memory for any launcher of the same site. A block for all sites is merged into each site. */
static const struct flmem_node *find_portable_memory(const struct flmem_node *resources,
						     const struct flmem_nvflare_spec *own)
{
	bool all = own->launcher && strcmp(own->site, FLMEM_NVFLARE_LAUNCHER_DEFAULT) == 0;

	for (const struct flmem_node *n = flmem_node_first(resources); n; n = n->next) {
		struct flmem_nvflare_spec spec = {.site = n->key, .sites = resources, .asked = n};
		const struct flmem_node *memory;

		if (!n->key ||
		    !(all || strcmp(n->key, own->site) == 0 || is_resource_default(&spec)))
			continue;
		memory = flmem_node_get(flmem_nvflare_spec_portable(&spec), "memory");
		if (memory)
			return memory;
	}
	return NULL;
}

/* Whether launcher_spec has a part for a launcher: one in resource_spec is then not read. */
static bool launchers_have(const struct flmem_check *check, const char *site, const char *mode)
{
	const struct flmem_node *launchers = flmem_node_get(check->subject, "launcher_spec");

	return FLMEM_NODE_AT(launchers, FLMEM_NVFLARE_LAUNCHER_DEFAULT, mode) ||
	       FLMEM_NODE_AT(launchers, site, mode);
}

/* Reports a conflict of the parts of a meta file. A script sets the parts by separate calls. */
static void refuse_conflict(struct flmem_check *check, const struct flmem_nvflare_spec *spec)
{
	static const char *const keys[][2] = {
		{"k8s", "memory"}, {"k8s", "memory_request"}, {"slurm", "mem_per_node"}};
	const struct flmem_node *resources, *native = NULL;

	if (!spec->site || check->kind != &flmem_nvflare_meta_file)
		return;
	resources = flmem_node_get(check->subject, "resource_spec");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(keys) && !native; i++)
		if (spec->launcher || !launchers_have(check, spec->site, keys[i][0]))
			native = FLMEM_NODE_AT(spec->asked, keys[i][0], keys[i][1]);
	if (native && find_portable_memory(resources, spec))
		report_spec(check, native, "it conflicts with 'memory' in resource_spec");
}

static void refuse_launcher(struct flmem_check *check, const struct flmem_nvflare_spec *spec)
{
	static const char *const modes[] = {"process", "docker", "k8s", "slurm", NULL};

	report_other_keys(check, spec->asked, modes, "launcher_spec, whose parts are launchers");
	refuse_launcher_parts(check, spec->asked);
}

static void refuse_spec(void *arg, const struct flmem_nvflare_spec *spec)
{
	struct flmem_check *check = arg;

	if (spec->asked->kind == FLMEM_NODE_EXPRESSION)
		return;
	if (spec->asked->kind != FLMEM_NODE_MAP) {
		report_spec(check, spec->asked, "it has to be a map");
		return;
	}
	refuse_conflict(check, spec);
	if (spec->launcher) {
		refuse_launcher(check, spec);
		return;
	}
	if (is_resource_default(spec))
		report_other_keys(check, spec->asked, portable_keys, "the block for all sites");
	refuse_portable(check, flmem_nvflare_spec_portable(spec));
	refuse_launcher_parts(check, spec->asked);
}

static void spec_refused(struct flmem_check *check)
{
	flmem_nvflare_specs_visit(check, refuse_spec, check);
}

static bool is_before_2_9(const struct flmem_check *check)
{
	return check->release.count &&
	       flmem_version_number_compare(&check->release, &release_2_9) < 0;
}

/* Whether a key of a site is about memory, but no setting of NVFlare. */
static bool is_unread_memory(const char *key)
{
	static const char *const read[] = {"memory", "mem_per_gpu_in_GiB", NULL};

	return strstr(key, "mem") && !flmem_text_is_one_of(key, read);
}

static void ignore_other_memory(struct flmem_check *check, const struct flmem_node *asked)
{
	static const enum flmem_severity info = FLMEM_SEVERITY_INFO;

	for (const struct flmem_node *n = flmem_node_first(asked); n; n = n->next)
		if (n->key && is_unread_memory(n->key))
			flmem_check_report(check, &(struct flmem_remark){
							  .node = n,
							  .severity = &info,
							  .detail = "only a resource manager of "
								    "the site's own reads it"});
}

/* Reports "memory" beside "docker": the entry is then for launchers. */
static void ignore_flat(struct flmem_check *check, const struct flmem_nvflare_spec *spec)
{
	const struct flmem_node *memory = flmem_node_get(spec->asked, "memory");
	bool modes = flmem_nvflare_spec_has_modes(spec->asked);

	if (memory && modes && !is_resource_default(spec))
		report_spec(check, memory,
			    "the entry has parts for launchers, and only these "
			    "are read then");
	else if (memory && is_before_2_9(check))
		report_spec(check, memory, "launchers before 2.9.0 do not read it");
}

/* Reports a part for a launcher that launcher_spec has, too. */
static void ignore_nested(struct flmem_check *check, const struct flmem_nvflare_spec *spec)
{
	static const char *const modes[] = {"docker", "k8s", "slurm"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(modes); i++) {
		const struct flmem_node *part = flmem_node_get(spec->asked, modes[i]);

		if (part && launchers_have(check, spec->site, modes[i]))
			report_spec(check, part,
				    "launcher_spec has this part, and only that is "
				    "read then");
	}
}

/* Reports other keys of a part for Kubernetes; those for Docker and Slurm are refused. */
static void ignore_k8s_keys(struct flmem_check *check, const struct flmem_node *asked)
{
	static const char *const keys[] = {"image",  "python_path", "pending_timeout",
					   "cpu",    "cpu_request", "ephemeral_storage",
					   "memory", "num_of_gpus", "memory_request",
					   NULL};

	report_other_keys(check, flmem_node_get(asked, "k8s"), keys, "a job for Kubernetes");
}

static void ignore_spec(void *arg, const struct flmem_nvflare_spec *spec)
{
	struct flmem_check *check = arg;
	const char *other =
		spec->launcher ? FLMEM_NVFLARE_RESOURCE_DEFAULT : FLMEM_NVFLARE_LAUNCHER_DEFAULT;

	if (spec->asked->kind != FLMEM_NODE_MAP)
		return;
	if (spec->site && strcmp(spec->site, other) == 0) {
		report_spec(check, spec->asked,
			    spec->launcher ? "it is treated as the name of a site; for all sites "
					     "it is 'default' in launcher_spec"
					   : "it is treated as the name of a site; for all sites "
					     "it is '@default' in resource_spec");
		return;
	}
	ignore_k8s_keys(check, spec->asked);
	if (spec->launcher)
		return;
	if (is_resource_default(spec) && is_before_2_9(check)) {
		report_spec(check, spec->asked, "it is treated as the name of a site before 2.9.0");
		return;
	}
	ignore_flat(check, spec);
	ignore_other_memory(check, spec->asked);
	if (check->kind == &flmem_nvflare_meta_file)
		ignore_nested(check, spec);
}

/*
 * Whether a call sets the whole map: FedJob(meta_props={"resource_spec": ...}),
 * set_recipe_meta(recipe, ...RESOURCE_SPEC, ...).
 */
static bool sets_whole_spec(const struct flmem_check *check, const struct flmem_node *call)
{
	const char *path = flmem_nvflare_path_text(call);
	const struct flmem_node *value;

	if (flmem_text_ends(path, ".set_recipe_meta")) {
		value = flmem_nvflare_call_argument(check, call, "key", "1");
		return value && flmem_text_ends(value->text, ".RESOURCE_SPEC");
	}
	value = flmem_nvflare_call_argument(check, call, "meta_props", NULL);
	return flmem_node_get(flmem_nvflare_map(check, value), "resource_spec");
}

static bool makes_job_or_recipe(const struct flmem_node *call)
{
	const struct flmem_nvflare_class *known = flmem_nvflare_class_of(call);

	return flmem_text_ends(flmem_nvflare_path_text(call), "Job") ||
	       (known && known->part == FLMEM_NVFLARE_RECIPE);
}

/*
 * Reports add_resource_spec() beside meta_props, which replace it in 2.9.0. With several jobs it is
 * not known which one is meant.
 */
static void ignore_added(struct flmem_check *check)
{
	const struct flmem_node *call = NULL;
	bool whole = false;
	size_t jobs = 0;

	while ((call = flmem_nvflare_next_call(check, call))) {
		whole |= sets_whole_spec(check, call);
		jobs += makes_job_or_recipe(call);
	}
	while (whole && jobs <= 1 && (call = flmem_nvflare_next_call(check, call)))
		if (strcmp(flmem_nvflare_path_text(call), "add_resource_spec") == 0)
			flmem_check_report(
				check,
				&(struct flmem_remark){.node = flmem_nvflare_path(call),
						       .path = "add_resource_spec",
						       .detail = "set_recipe_meta() or meta_props "
								 "set resource_spec as a "
								 "whole, and that takes the place "
								 "of what is added"});
}

static void spec_ignored(struct flmem_check *check)
{
	flmem_nvflare_specs_visit(check, ignore_spec, check);
	if (flmem_syntax_is_python(check->input->document.syntax))
		ignore_added(check);
}

/*
 * The resources that the resource manager of the site is asked for: with parts for launchers and
 * without a block for all sites, all of "process". NULL: none, or not known.
 */
static const struct flmem_node *find_managed(const struct flmem_check *check,
					     const struct flmem_nvflare_spec *spec)
{
	static const char *const before[] = {"num_of_gpus", NULL};
	bool modes = flmem_nvflare_spec_has_modes(spec->asked);
	bool whole = modes && !flmem_node_get(spec->sites, FLMEM_NVFLARE_RESOURCE_DEFAULT);
	const char *const *passed = whole || is_before_2_9(check) ? before : portable_keys;
	const struct flmem_node *asked =
		modes ? flmem_node_get(spec->asked, "process") : spec->asked;

	for (const struct flmem_node *n = flmem_node_first(asked); n; n = n->next)
		if (n->key && strcmp(n->key, "**") == 0)
			return NULL;
	for (const struct flmem_node *n = flmem_node_first(asked); n; n = n->next)
		if (n->key && !flmem_text_is_one_of(n->key, passed))
			return n;
	return NULL;
}

static void manage_spec(void *arg, const struct flmem_nvflare_spec *spec)
{
	struct flmem_check *check = arg;
	const struct flmem_node *managed, *gpus, *memory;

	if (spec->launcher || spec->asked->kind != FLMEM_NODE_MAP || is_resource_default(spec))
		return;
	managed = find_managed(check, spec);
	gpus = managed ? flmem_node_get(managed->parent, "num_of_gpus") : NULL;
	if (!gpus && !is_before_2_9(check))
		gpus = FLMEM_NODE_AT(spec->sites, FLMEM_NVFLARE_RESOURCE_DEFAULT, "num_of_gpus");
	if (managed && !gpus)
		report_spec(check, managed, "it is refused without num_of_gpus");
	if (!gpus)
		return;
	memory = managed ? flmem_node_get(managed->parent, "mem_per_gpu_in_GiB") : NULL;
	if (!is_open_value(memory) && is_count(gpus, 1) && memory->kind != FLMEM_NODE_INTEGER &&
	    memory->kind != FLMEM_NODE_REAL)
		report_spec(check, memory, "mem_per_gpu_in_GiB has to be a number");
}

static void spec_gpus(struct flmem_check *check)
{
	flmem_nvflare_specs_visit(check, manage_spec, check);
}

/* Whether the requested memory is known only when the script runs. */
static bool has_open_memory(const struct flmem_node *asked, int levels)
{
	static const char *const keys[] = {
		"memory", "mem_per_gpu_in_GiB", "mem_limit", "mem_per_node", "**", NULL};

	for (const struct flmem_node *n = flmem_node_first(asked); n; n = n->next)
		if (n->kind == FLMEM_NODE_EXPRESSION ? n->key && flmem_text_is_one_of(n->key, keys)
						     : levels && has_open_memory(n, levels - 1))
			return true;
	return false;
}

static void doubt_spec(void *arg, const struct flmem_nvflare_spec *spec)
{
	if (spec->asked->kind == FLMEM_NODE_EXPRESSION || has_open_memory(spec->asked, 1))
		report_spec(arg, spec->asked, NULL);
}

static void spec_cannot_tell(struct flmem_check *check)
{
	flmem_nvflare_specs_visit(check, doubt_spec, check);
}

#define NVFLARE .framework = FLMEM_FRAMEWORK_NVFLARE

static const struct flmem_rule_row nvflare_spec_rows[] = {
	{
		.rule = {.id = "NVF-SPEC-REFUSED",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .since = "2.9.0",
			 .condition =
				 "in resource_spec or launcher_spec of a job, or in "
				 "add_resource_spec(), set_recipe_meta() or meta_props of a "
				 "script: memory that is not a whole number of Mi, Gi or Ti (of "
				 "Slurm: of MiB), num_of_gpus or num_of_cpus that is none, keys "
				 "that a block for all sites, Docker or Slurm does not take, an "
				 "unknown launcher, memory for a launcher beside memory for all",
			 .message = "NVFlare refuses what the job asks for at a site, and does not "
				    "run it",
			 .source = "NVFlare 2.9.0, job_meta_validator.py, "
				   "utils/job_launcher_utils.py"},
		.inputs = {&flmem_nvflare_meta_file, PYTHON},
		.check = spec_refused,
	},
	{
		.rule = {.id = "NVF-SPEC-IGNORED",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .condition =
				 "in the same places: 'default' in resource_spec, '@default' in "
				 "launcher_spec, memory beside parts for launchers, parts for "
				 "launchers that launcher_spec has, too; add_resource_spec() of a "
				 "script that sets resource_spec as a whole, too; memory and "
				 "'@default' before 2.9.0; other keys of parts for k8s; for "
				 "information other keys about memory",
			 .message = "NVFlare does not apply what the job asks for at a site",
			 .source = "NVFlare 2.8.1 and 2.9.0, utils/job_launcher_utils.py"},
		.inputs = {&flmem_nvflare_meta_file, PYTHON},
		.check = spec_ignored,
	},
	{
		.rule = {.id = "NVF-SPEC-GPUS",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .condition =
				 "in the same places: resources without num_of_gpus (except memory "
				 "and num_of_cpus since 2.9.0), or mem_per_gpu_in_GiB that is "
				 "not a number",
			 .message = "the GPU resource manager that a startup kit has by default "
				    "fails at what the job asks for, and the site does not get "
				    "the job",
			 .source = "NVFlare 2.7.2 to 2.9.0, gpu_resource_manager.py"},
		.inputs = {&flmem_nvflare_meta_file, PYTHON},
		.check = spec_gpus,
	},
	{
		.rule = {.id = "NVF-SPEC-CANNOT-TELL",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .condition = "memory in the same places of a script that is known only "
				      "when it runs",
			 .message = "cannot tell what memory the job asks for at a site; check "
				    "meta.json of the exported job",
			 .source = "NVFlare 2.9.0, utils/job_launcher_utils.py"},
		.inputs = {PYTHON},
		.check = spec_cannot_tell,
	},
};

const struct flmem_rule_table flmem_nvflare_spec_rules = {nvflare_spec_rows,
							  FLMEM_ARRAY_SIZE(nvflare_spec_rows)};
