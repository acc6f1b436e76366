/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about memory limits of jobs: resource_spec and launcher_spec of their meta file, and the
 * container settings of the launcher in a startup kit (utils/job_launcher_utils.py and
 * app_opt/job_launcher of 2.9.0).
 */
#include <string.h>

#include "base/text/text.h"
#include "frameworks/limits.h"
#include "frameworks/nvflare/nvflare_specs.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"

struct job_limits {
	struct flmem_check *check;
	enum flmem_limit_outcome outcome;
};

static void hold_node(const struct job_limits *limits, const struct flmem_node *value,
		      enum flmem_limit_style style, const struct flmem_limit_need *need)
{
	if (!value || (value->kind != FLMEM_NODE_STRING && value->kind != FLMEM_NODE_INTEGER &&
		       value->kind != FLMEM_NODE_EXPRESSION))
		return;
	flmem_limit_compare(limits->check, limits->outcome,
			    &(struct flmem_limit){
				    .node = value,
				    .text = value->kind == FLMEM_NODE_EXPRESSION ? "" : value->text,
				    .style = style,
				    .need = *need});
}

/* Whether a site has memory itself, not only by the block for all sites. */
static bool has_own_memory(const struct flmem_node *asked, bool launcher)
{
	return launcher ? FLMEM_NODE_AT(asked, "k8s", "memory") ||
				  FLMEM_NODE_AT(asked, "slurm", "mem_per_node")
			: flmem_node_get(asked, "memory") != NULL;
}

static bool is_for_all_sites(const struct flmem_nvflare_spec *spec)
{
	return spec->site &&
	       strcmp(spec->site, spec->launcher ? FLMEM_NVFLARE_LAUNCHER_DEFAULT
						 : FLMEM_NVFLARE_RESOURCE_DEFAULT) == 0;
}

static struct flmem_limit_need need_of_spec(const struct flmem_plan_peaks *peaks,
					    const struct flmem_nvflare_spec *spec)
{
	bool server;

	if (!spec->site)
		return flmem_limit_need_of(peaks, FLMEM_ROLE_NONE);
	if (!is_for_all_sites(spec))
		return flmem_limit_need_of(peaks, strcmp(spec->site, "server") == 0
							  ? FLMEM_ROLE_SERVER
							  : FLMEM_ROLE_CLIENT);
	server = has_own_memory(flmem_node_get(spec->sites, "server"), spec->launcher);
	return flmem_limit_need_of(peaks, server || peaks->client >= peaks->server
						  ? FLMEM_ROLE_CLIENT
						  : FLMEM_ROLE_SERVER);
}

/* Whether Docker takes memory from launcher_spec: only before 2.9.0, which refuses it. */
static bool is_docker_memory(const struct flmem_check *check)
{
	static const struct flmem_version_number since = FLMEM_VERSION_NUMBER(2, 9, 0);

	return check->release.count && flmem_version_number_compare(&check->release, &since) < 0;
}

/* Checks the memory that the launchers of Docker, Kubernetes and Slurm read for a site. */
static void hold_spec(void *arg, const struct flmem_nvflare_spec *spec)
{
	const struct job_limits *limits = arg;
	struct flmem_limit_need need = need_of_spec(limits->check->bundle->peaks, spec);

	hold_node(limits, flmem_node_get(flmem_nvflare_spec_portable(spec), "memory"),
		  FLMEM_LIMIT_KUBERNETES, &need);
	hold_node(limits, FLMEM_NODE_AT(spec->asked, "k8s", "memory"), FLMEM_LIMIT_KUBERNETES,
		  &need);
	hold_node(limits, FLMEM_NODE_AT(spec->asked, "slurm", "mem_per_node"),
		  FLMEM_LIMIT_MEBIBYTES, &need);
	if (is_docker_memory(limits->check))
		hold_node(limits, FLMEM_NODE_AT(spec->asked, "docker", "mem_limit"),
			  FLMEM_LIMIT_DOCKER, &need);
}

/* Checks the container settings that a site or one of its studies has for all jobs. */
static void hold_kit(const struct job_limits *limits)
{
	const struct flmem_node *root = limits->check->subject, *n;
	const struct flmem_plan_peaks *peaks = limits->check->bundle->peaks;
	struct flmem_limit_need need = flmem_limit_need_of(peaks, FLMEM_ROLE_NONE);

	hold_node(limits,
		  FLMEM_NODE_AT(root, "job_launcher", "default_job_container_kwargs", "mem_limit"),
		  FLMEM_LIMIT_DOCKER, &need);
	for (n = flmem_node_first(flmem_node_get(root, "studies")); n; n = n->next)
		hold_node(limits, FLMEM_NODE_AT(n, "docker_kwargs", "mem_limit"),
			  FLMEM_LIMIT_DOCKER, &need);
	for (n = flmem_node_first(flmem_node_get(root, "components")); n; n = n->next) {
		const char *path = flmem_node_string(flmem_nvflare_path(n));

		if (!path || !strstr(path, "docker_launcher."))
			continue;
		need = flmem_limit_need_of(peaks, strstr(path, ".Server")   ? FLMEM_ROLE_SERVER
						  : strstr(path, ".Client") ? FLMEM_ROLE_CLIENT
									    : FLMEM_ROLE_NONE);
		hold_node(limits,
			  FLMEM_NODE_AT(n, "args", "default_job_container_kwargs", "mem_limit"),
			  FLMEM_LIMIT_DOCKER, &need);
	}
}

static void hold_job_limits(struct flmem_check *check, enum flmem_limit_outcome outcome)
{
	struct job_limits limits = {check, outcome};

	if (!check->bundle->peaks || check->bundle->peaks->framework != FLMEM_FRAMEWORK_NVFLARE)
		return;
	if (check->kind == &flmem_nvflare_meta_file || check->kind == &flmem_nvflare_python_file)
		flmem_nvflare_specs_visit(check, hold_spec, &limits);
	else
		hold_kit(&limits);
}

static void job_limit_low(struct flmem_check *check)
{
	hold_job_limits(check, FLMEM_LIMIT_LOW);
}

static void job_limit_unclear(struct flmem_check *check)
{
	hold_job_limits(check, FLMEM_LIMIT_UNCLEAR);
}

#define FILES                                                                        \
	{                                                                            \
		&flmem_nvflare_meta_file, &flmem_nvflare_resources_file,             \
			&flmem_nvflare_deployment_file, &flmem_nvflare_studies_file, \
			&flmem_nvflare_python_file                                   \
	}

static const struct flmem_rule_row nvflare_limit_rows[] = {
	{
		.rule = {.id = "NVF-LIMIT-LOW",
			 .severity = FLMEM_SEVERITY_ERROR,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .condition =
				 "with --model or --params: a memory limit in resource_spec or "
				 "launcher_spec of a job or a script, or in the container settings "
				 "of "
				 "a kit's launcher or study, below the peak that the plan predicts "
				 "for the "
				 "server or a client; a warning if less than a tenth of the limit "
				 "is left",
			 .message = FLMEM_LIMIT_LOW_MESSAGE,
			 .source = "docs/guides/planning.md; NVFlare 2.9.0, "
				   "utils/job_launcher_utils.py"},
		.inputs = FILES,
		.check = job_limit_low,
	},
	{
		.rule = {.id = "NVF-LIMIT-UNCLEAR",
			 .severity = FLMEM_SEVERITY_INFO,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .condition = "with --model or --params: such a limit in another form, or "
				      "one of which it is not known whether a server or a client "
				      "has it",
			 .message = FLMEM_LIMIT_UNCLEAR_MESSAGE,
			 .source = "NVFlare 2.9.0, utils/job_launcher_utils.py"},
		.inputs = FILES,
		.check = job_limit_unclear,
	},
};

const struct flmem_rule_table flmem_nvflare_limit_rules = {nvflare_limit_rows,
							   FLMEM_ARRAY_SIZE(nvflare_limit_rows)};
