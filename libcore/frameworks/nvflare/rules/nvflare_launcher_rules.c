/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules about files that choose how a site launches jobs: resources.json of a startup kit, and what
 * `nvflare deploy prepare` reads. By app_opt/job_launcher of 2.8 and 2.9: a container of Docker
 * gets default_job_env and the environment of its study; `sbatch --export=NIL` gets what `setup`
 * exports, and a container below it only what forward_env names. A pod of Kubernetes gets, from 2.9
 * on, what its study sets by env or pod_template, and before 2.9 nothing.
 */
#include "frameworks/nvflare/nvflare_classes.h"

#include <stdio.h>
#include <string.h>

#include "allocators/glibc/glibc_arena_max.h"
#include "base/text/text.h"
#include "frameworks/nvflare/nvflare_comm.h"

#define DOCKER "nvflare.app_opt.job_launcher.docker_launcher."
#define SLURM  "nvflare.app_opt.job_launcher.slurm."
#define K8S    "nvflare.app_opt.job_launcher.k8s_launcher."

/* Variables of which one is enough: they choose the allocator, or limit its arenas. */
static const char *const nvflare_launcher_names[] = {"MALLOC_ARENA_MAX", "LD_PRELOAD",
						     "GLIBC_TUNABLES"};

static bool is_likely(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	(void)syntax;
	return flmem_file_has_word(text, "job_launcher");
}

/* Whether a text may be resources.json. Keys without effect in this file have rules, too. */
static bool are_resources_likely(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	static const char *const words[] = {
		"job_launcher",	    "streaming_",	"max_message_size", "download_chunk_size",
		"memory_gc_rounds", "cuda_empty_cache", "disk_offload",	    NULL};

	(void)syntax;
	return flmem_file_has_any_word(text, words);
}

/*
 * Whether a document is resources.json of NVFlare: other programs have files of this name, and a
 * file that is added to another one has few keys.
 */
static bool are_resources(const struct flmem_document *document)
{
	const struct flmem_node *root = document->root;
	bool own = flmem_node_is_kind(flmem_node_get(root, "components"), FLMEM_NODE_LIST);

	for (enum flmem_comm_key key = 0; key < FLMEM_COMM_KEYS; key++)
		own |= flmem_node_get(root, flmem_comm_keys[key].name) != NULL;
	for (const char *const *name = flmem_nvflare_names; *name; name++)
		own |= flmem_node_get(root, *name) != NULL;
	return own || flmem_node_get(root, "tensor_download_chunk_size") ||
	       flmem_node_get(root, "np_download_chunk_size");
}

static bool has_runtime(const struct flmem_node *root, const char *name)
{
	const char *runtime = flmem_node_string(flmem_node_get(root, "runtime"));

	return runtime && strcmp(runtime, name) == 0;
}

static bool is_deployment(const struct flmem_document *document)
{
	const struct flmem_node *root = document->root;

	return flmem_node_is_kind(flmem_node_get(root, "job_launcher"), FLMEM_NODE_MAP) &&
	       (has_runtime(root, "docker") || has_runtime(root, "slurm") ||
		has_runtime(root, "k8s"));
}

static bool is_study_likely(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	(void)syntax;
	return flmem_file_has_word(text, "studies");
}

static bool is_studies(const struct flmem_document *document)
{
	return flmem_node_get(document->root, "format_version") &&
	       flmem_node_is_kind(flmem_node_get(document->root, "studies"), FLMEM_NODE_MAP);
}

const struct flmem_input_kind flmem_nvflare_resources_file = {
	.is_likely = are_resources_likely,
	.is_one = are_resources,
	.content = FLMEM_CONTENT_CONFIG,
};
const struct flmem_input_kind flmem_nvflare_deployment_file = {.is_likely = is_likely,
							       .is_one = is_deployment};
const struct flmem_input_kind flmem_nvflare_studies_file = {.is_likely = is_study_likely,
							    .is_one = is_studies};

/*
 * Whether glibc or the loader uses a value; also true for one that a shell expands, as it is not
 * known.
 */
static bool is_applied(const char *name, const char *value)
{
	uint64_t arenas;

	if (strpbrk(value, "$`"))
		return true;
	if (strcmp(name, "MALLOC_ARENA_MAX") == 0)
		return flmem_glibc_arena_max_parse(value, &arenas);
	if (strcmp(name, "GLIBC_TUNABLES") == 0)
		return flmem_glibc_arena_max_find(NULL, value, &arenas);
	return *value;
}

/* Whether the value of an entry is used. A map, as of a secret, may hold any value. */
static bool is_value_applied(const char *name, const struct flmem_node *value)
{
	if (value->kind == FLMEM_NODE_STRING || value->kind == FLMEM_NODE_INTEGER)
		return is_applied(name, value->text);
	return value->kind == FLMEM_NODE_MAP;
}

/*
 * Whether an entry sets a variable: NAME: VALUE of a map, or {name: NAME, value: VALUE} of a pod.
 */
static bool entry_sets_variable(const struct flmem_node *node, const char *name)
{
	const char *named = flmem_node_string(flmem_node_get(node, "name"));
	const struct flmem_node *value = flmem_node_get(node, "value");

	if (node->key && strcmp(node->key, name) == 0)
		return is_value_applied(name, node);
	return named && strcmp(named, name) == 0 && (!value || is_value_applied(name, value));
}

/* Whether any entry in a map or list sets one of these variables. */
static bool sets_allocator(const struct flmem_node *node)
{
	for (const struct flmem_node *n = flmem_node_first(node); n; n = n->next) {
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(nvflare_launcher_names); i++)
			if (entry_sets_variable(n, nvflare_launcher_names[i]))
				return true;
		if (sets_allocator(n))
			return true;
	}
	return false;
}

/* Whether a study names a template file, which may set anything. */
static bool has_template_file(const struct flmem_node *root)
{
	const struct flmem_node *study = flmem_node_first(flmem_node_get(root, "studies"));

	for (; study; study = study->next)
		if (flmem_node_string(flmem_node_get(study, "pod_template")))
			return true;
	return false;
}

/* Whether a study in a file of the same folder sets one of these variables. */
static bool is_set_by_study(const struct flmem_check *check)
{
	for (size_t i = 0; i < check->bundle->count; i++) {
		const struct flmem_rule_input *input = &check->bundle->inputs[i];

		if (input->kind != &flmem_nvflare_studies_file)
			continue;
		if (sets_allocator(flmem_node_get(input->document.root, "studies")))
			return true;
		if (has_template_file(input->document.root))
			return true;
	}
	return false;
}

static bool is_listed_text(const struct flmem_node *list, const char *name)
{
	for (const struct flmem_node *n = flmem_node_first(list); n; n = n->next)
		if (flmem_node_string(n) && strcmp(flmem_node_string(n), name) == 0)
			return true;
	return false;
}

static bool docker_keeps(const struct flmem_node *args)
{
	return sets_allocator(flmem_node_get(args, "default_job_env"));
}

/* Whether lines of a shell set the variable, as NAME=VALUE or in another way. */
static bool sets_in_shell(const char *setup, const char *name)
{
	for (const char *at = strstr(setup, name); at; at = strstr(at, name)) {
		char value[256];
		size_t length;

		at += strlen(name);
		if (*at != '=')
			return true;
		at += 1 + strspn(at + 1, "\"'");
		length = strcspn(at, "\"' \t\r\n;&|");
		snprintf(value, sizeof(value), "%.*s", (int)length, at);
		if (is_applied(name, value))
			return true;
	}
	return false;
}

/*
 * Whether jobs of Slurm get one of these variables. A sandbox is a container, which gets only names
 * in forward_env.
 */
static bool slurm_keeps(const struct flmem_node *args)
{
	const char *setup = flmem_node_string(flmem_node_get(args, "setup"));
	const char *sandbox = flmem_node_string(flmem_node_get(args, "sandbox"));
	bool contained = sandbox && strcmp(sandbox, "none") != 0;

	for (size_t i = 0; setup && i < FLMEM_ARRAY_SIZE(nvflare_launcher_names); i++)
		if (sets_in_shell(setup, nvflare_launcher_names[i]) &&
		    (!contained || is_listed_text(flmem_node_get(args, "forward_env"),
						  nvflare_launcher_names[i])))
			return true;
	/* The setup may load modules or source files that set anything. */
	return setup && !contained && (strstr(setup, "source ") || strstr(setup, "flmem "));
}

static void report_lost(struct flmem_check *check, const struct flmem_node *args, bool docker,
			const char *arenas)
{
	const char *key = docker ? "default_job_env" : "setup";
	const struct flmem_node *value = flmem_node_get(args, key);
	char detail[96];

	if (docker ? docker_keeps(args) : slurm_keeps(args))
		return;
	snprintf(detail, sizeof(detail), "flmem env --role %s --format %s prints it",
		 arenas ? (*arenas == '4' ? "server" : "client") : "client",
		 docker ? "nvflare-docker" : "nvflare-slurm");
	flmem_check_report(check, &(struct flmem_remark){.node = value ? value : args,
							 .missing = value ? NULL : key,
							 .detail = detail});
}

/* Reports a launcher of pods: no argument of its own sets a variable of the pod. */
static void report_pod(struct flmem_check *check, const struct flmem_node *launcher)
{
	flmem_check_report(check, &(struct flmem_remark){
					  .node = launcher,
					  .detail = "from 2.9 on by env of the study in "
						    "local/study_runtime.yaml, before by the image",
				  });
}

static void check_component(struct flmem_check *check, const struct flmem_node *component)
{
	const char *path = flmem_node_string(flmem_nvflare_path(component));
	const struct flmem_node *args = flmem_node_get(component, "args");
	bool docker = path && flmem_text_starts(path, DOCKER);

	if (path && flmem_text_starts(path, K8S))
		report_pod(check, args ? args : component);
	if (!docker && !(path && flmem_text_starts(path, SLURM)))
		return;
	report_lost(check, args ? args : component, docker, strstr(path, ".Server") ? "4" : "2");
}

static void environment_lost(struct flmem_check *check)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(check->subject, "components"));
	FLMEM_AUTO_FREE char *other = check->input->kind == &flmem_nvflare_resources_file
					      ? flmem_nvflare_read_instead(check->input->file)
					      : NULL;

	if (other || is_set_by_study(check))
		return;
	if (has_runtime(check->subject, "k8s"))
		report_pod(check, flmem_node_get(check->subject, "job_launcher"));
	else if (check->input->kind == &flmem_nvflare_deployment_file)
		report_lost(check, flmem_node_get(check->subject, "job_launcher"),
			    has_runtime(check->subject, "docker"), NULL);
	for (; n; n = n->next)
		check_component(check, n);
}

static const struct flmem_rule_row nvflare_launcher_rows[] = {
	{
		.rule = {.id = "NVF-LAUNCHER-ENV-LOST",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .framework = FLMEM_FRAMEWORK_NVFLARE,
			 .since = "2.8",
			 .condition =
				 "the Docker, Slurm or Kubernetes launcher of a startup kit, or a "
				 "configuration of nvflare deploy, whose jobs get neither "
				 "MALLOC_ARENA_MAX nor LD_PRELOAD nor GLIBC_TUNABLES from it or "
				 "from the site's study_runtime.yaml, or only with a value that "
				 "is ignored (MALLOC_ARENA_MAX of 0, an empty LD_PRELOAD, "
				 "GLIBC_TUNABLES without glibc.malloc.arena_max)",
			 .message = "jobs do not inherit the environment of the process that "
				    "launches them, so settings of start scripts are lost; set "
				    "them for this launcher",
			 .source = "NVFlare 2.8.1 and 2.9.0, app_opt/job_launcher"},
		.inputs = {&flmem_nvflare_resources_file, &flmem_nvflare_deployment_file},
		.check = environment_lost,
	},
};

const struct flmem_rule_table flmem_nvflare_launcher_rules = {
	nvflare_launcher_rows, FLMEM_ARRAY_SIZE(nvflare_launcher_rows)};
