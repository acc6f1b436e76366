/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises files of NVFlare: exported and submitted jobs, and Python that uses it. A job is a
 * folder with a meta file and folders of apps: JOB/APP/config/config_fed_server.json. The simulator
 * also takes an app as a job: the meta file is then in the app.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/text.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"

#define META "meta"

const struct flmem_input_kind flmem_nvflare_meta_file = {.content = FLMEM_CONTENT_CONFIG};
const struct flmem_input_kind flmem_nvflare_server_file = {
	.parts = "workflows",
	.content = FLMEM_CONTENT_CONFIG,
};
const struct flmem_input_kind flmem_nvflare_client_file = {
	.parts = "executors",
	.part = "executor",
	.content = FLMEM_CONTENT_CONFIG,
};

static bool python_is_likely(enum flmem_syntax syntax, const struct flmem_buf *text)
{
	/*
	 * The second is a method of jobs, also of a job that is loaded; the last two are of
	 * recipes.
	 */
	static const char *const words[] = {"nvflare", ".simulator_run(", "server_memory_gc_rounds",
					    "client_memory_gc_rounds", NULL};

	(void)syntax;
	return flmem_file_has_any_word(text, words);
}

static bool is_python_job_file(const struct flmem_document *document)
{
	return python_is_likely(document->syntax, &document->text);
}

/* Whether a call belongs to NVFlare: Python calls much else. */
static bool is_own_call(const struct flmem_node *call)
{
	const char *path = flmem_node_string(flmem_node_get(call, "path"));

	return path && flmem_text_starts(path, "nvflare.");
}

const struct flmem_input_kind flmem_nvflare_python_file = {
	.is_likely = python_is_likely,
	.is_one = is_python_job_file,
	.by_words = true,
	.parts = "calls",
	.is_part = is_own_call,
	.content = FLMEM_CONTENT_PYTHON,
};

const struct flmem_input_kind flmem_nvflare_module_file = {.content = FLMEM_CONTENT_PYTHON};

const struct flmem_file_name flmem_nvflare_files[] = {
	{META, &flmem_nvflare_meta_file, .match = FLMEM_NAME_STEM},
	{"config_fed_server", &flmem_nvflare_server_file, .match = FLMEM_NAME_STEM},
	{"config_fed_client", &flmem_nvflare_client_file, .match = FLMEM_NAME_STEM},
	{"resources.json", &flmem_nvflare_resources_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_JSON},
	{"resources.json.default", &flmem_nvflare_resources_file, FLMEM_NAME_WHOLE,
	 FLMEM_SYNTAX_JSON},
	{"resources.conf", &flmem_nvflare_resources_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_HOCON},
	{"job_resources.json", &flmem_nvflare_resources_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_JSON},
	{"__resources.json", &flmem_nvflare_resources_file, FLMEM_NAME_END, FLMEM_SYNTAX_JSON},
	{"__p_resources.json", &flmem_nvflare_resources_file, FLMEM_NAME_END, FLMEM_SYNTAX_JSON},
	{"__j_resources.json", &flmem_nvflare_resources_file, FLMEM_NAME_END, FLMEM_SYNTAX_JSON},
	{"comm_config.json", &flmem_nvflare_comm_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_JSON},
	{"comm_config.conf", &flmem_nvflare_comm_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_HOCON},
	{"comm_config.yml", &flmem_nvflare_comm_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_YAML},
	{"comm_config.yaml", &flmem_nvflare_comm_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_YAML},
	{"comm_config.json.default", &flmem_nvflare_comm_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_JSON},
	{"comm_config.conf.default", &flmem_nvflare_comm_file, FLMEM_NAME_WHOLE,
	 FLMEM_SYNTAX_HOCON},
	{"comm_config.yml.default", &flmem_nvflare_comm_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_YAML},
	{"comm_config.yaml.default", &flmem_nvflare_comm_file, FLMEM_NAME_WHOLE, FLMEM_SYNTAX_YAML},
	{".yml", &flmem_nvflare_deployment_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_YAML},
	{".yaml", &flmem_nvflare_deployment_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_YAML},
	{".yml", &flmem_nvflare_target_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_YAML},
	{".yaml", &flmem_nvflare_target_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_YAML},
	{".yaml", &flmem_nvflare_studies_file, FLMEM_NAME_SUFFIX, FLMEM_SYNTAX_YAML},
	FLMEM_PYTHON_FILE_NAMES(&flmem_nvflare_python_file),
	{0},
};

static bool has_meta(const char *folder)
{
	for (const char *const *suffix = flmem_file_suffixes; *suffix; suffix++) {
		FLMEM_AUTO_FREE char *path = NULL;

		if (asprintf(&path, "%s/" META "%s", folder, *suffix) < 0) {
			path = NULL;
			return false;
		}
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

/* The name of a folder; "." and ".." have that of the folder they lead to. */
static char *name_of_folder(const char *folder)
{
	bool dots = flmem_text_ends(folder, ".");
	FLMEM_AUTO_FREE char *real = dots ? realpath(folder, NULL) : NULL;

	return strdup(flmem_text_basename(real ? real : folder));
}

static bool locate_job(const struct flmem_found_file *file, char **ret_job, char **ret_app)
{
	FLMEM_AUTO_FREE char *config = flmem_file_folder(file->path), *app = NULL;
	bool laid_out;

	if (file->kind == &flmem_nvflare_meta_file) {
		*ret_job = FLMEM_TAKE(config);
		return *ret_job;
	}
	if (!config)
		return false;
	/*
	 * Only a folder "config" is part of the layout of a job; with any other name it is the app
	 * itself.
	 */
	laid_out = strcmp(flmem_text_basename(config), "config") == 0;
	app = laid_out ? flmem_file_folder(config) : FLMEM_TAKE(config);
	if (!app)
		return false;
	*ret_app = name_of_folder(app);
	*ret_job = !laid_out || has_meta(app) ? FLMEM_TAKE(app)
		   : strcmp(app, ".") == 0    ? strdup("..")
					      : flmem_file_folder(app);
	return *ret_app && *ret_job;
}

/*
 * Whether a meta.json belongs to another program: that of a job is next to configurations, or the
 * user named it.
 */
static bool is_foreign_meta(const struct flmem_found_job *job, const struct flmem_found_file *file)
{
	if (file->kind != &flmem_nvflare_meta_file || file->named)
		return false;
	for (size_t i = 0; i < job->count; i++)
		if (job->files[i].app)
			return false;
	return true;
}

/* Whether a meta file deploys apps: then it is NVFlare's, even if the apps are missing. */
static bool is_nvflare_meta(const struct flmem_document *document)
{
	return flmem_node_is_kind(flmem_node_get(document->root, "deploy_map"), FLMEM_NODE_MAP);
}

static bool has_config(const struct flmem_found_job *job, const char *app,
		       const struct flmem_input_kind *kind)
{
	for (size_t i = 0; i < job->count; i++)
		if (job->files[i].kind == kind && job->files[i].app &&
		    strcmp(job->files[i].app, app) == 0)
			return true;
	return false;
}

static bool report_missing_config(const struct flmem_rule_input *meta, const struct flmem_node *app,
				  const char *name, struct flmem_recommendations *found)
{
	struct flmem_error why = {0};

	flmem_error_set(&why, FLMEM_EUSAGE, 0, "deploy_map names the app '%.100s', which has no %s",
			app->key, name);
	return flmem_recommendations_add_problem(found, meta->file, app->key_place.line, &why);
}

/* Checks that an app has the configurations that the sites to which it is deployed need. */
static bool check_app(const struct flmem_found_job *job, const struct flmem_rule_input *meta,
		      const struct flmem_node *app, struct flmem_recommendations *found)
{
	bool server = false, client = false, kept = true;

	for (const struct flmem_node *n = flmem_node_first(app); n; n = n->next) {
		const char *site = flmem_node_string(n);

		server |= site && (!strcmp(site, "server") || !strcmp(site, "@ALL"));
		client |= site && strcmp(site, "server") != 0;
	}
	if (server && !has_config(job, app->key, &flmem_nvflare_server_file))
		kept = report_missing_config(meta, app, "config/config_fed_server", found);
	if (kept && client && !has_config(job, app->key, &flmem_nvflare_client_file))
		kept = report_missing_config(meta, app, "config/config_fed_client", found);
	return kept;
}

/* Whether apps were found in a folder without a meta file. */
static bool lacks_meta(const struct flmem_found_job *job)
{
	bool apps = false;

	for (size_t i = 0; i < job->count; i++) {
		if (job->files[i].kind == &flmem_nvflare_meta_file)
			return false;
		apps |= job->files[i].app && !job->files[i].named;
	}
	return apps;
}

static bool check_apps(const struct flmem_found_job *job, struct flmem_recommendations *found)
{
	bool kept = true;

	for (size_t i = 0; i < job->input_count && kept; i++) {
		const struct flmem_node *map;

		if (job->inputs[i].kind != &flmem_nvflare_meta_file || job->files[0].named)
			continue;
		map = flmem_node_get(job->inputs[i].document.root, "deploy_map");
		for (map = flmem_node_first(map); map && kept; map = map->next)
			if (map->key)
				kept = check_app(job, &job->inputs[i], map, found);
	}
	return kept;
}

/* The job above a path that the user named, by the links of the file system; NULL: none. */
static char *find_job_above(const struct flmem_found_job *job)
{
	for (size_t i = 0; i < job->count; i++) {
		FLMEM_AUTO_FREE char *config = flmem_file_folder(job->files[i].path);
		FLMEM_AUTO_FREE char *real = config ? realpath(config, NULL) : NULL, *app = NULL;
		FLMEM_AUTO_FREE char *above = NULL;

		if (!job->files[i].app || !real || strcmp(flmem_text_basename(real), "config") != 0)
			continue;
		app = flmem_file_folder(real);
		if (app && has_meta(app))
			return FLMEM_TAKE(app);
		above = app ? flmem_file_folder(app) : NULL;
		if (above && has_meta(above))
			return FLMEM_TAKE(above);
	}
	return NULL;
}

static bool report_missing_meta(const struct flmem_found_job *job,
				struct flmem_recommendations *found)
{
	FLMEM_AUTO_FREE char *above = find_job_above(job);
	struct flmem_error why = {0};

	if (above)
		flmem_error_set(&why, FLMEM_EUSAGE, 0,
				"part of the job '%.300s', whose meta file and other apps are not "
				"checked; name that folder to check them",
				above);
	else
		flmem_error_set(
			&why, FLMEM_EUSAGE, 0,
			"the job has no meta file, so NVFlare refuses it; name the configuration "
			"files to check only them");
	if (!flmem_recommendations_add_problem(found, job->files[0].job, 0, &why))
		return false;
	found->problems[found->problem_count - 1].warning = above != NULL;
	return true;
}

/* A searched job folder must be complete; individually named files need not be. */
static int check_job(const struct flmem_found_job *job, struct flmem_recommendations *found,
		     struct flmem_error *err)
{
	bool kept = check_apps(job, found);

	if (kept && lacks_meta(job))
		kept = report_missing_meta(job, found);
	return kept ? 0 : flmem_error_nomem(err, "cannot store the problems of the job");
}

const struct flmem_job_layout flmem_nvflare_jobs = {
	.locate = locate_job,
	.is_foreign = is_foreign_meta,
	.claims = is_nvflare_meta,
	.ignored = flmem_nvflare_ignored,
	.check = check_job,
};
