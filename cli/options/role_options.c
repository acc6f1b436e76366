/* SPDX-License-Identifier: Apache-2.0 */
#include "options/role_options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <flmem/recommend.h>

#define NAME_OF(name, text)	   text,
#define FRAMEWORK_NAME(NAME, name) #name,

/* The choices are in the order of enum flmem_role. */
const char *const role_choices[] = {"server", "client", "trainer", NULL};
const char *const role_parallelism_choices[] = {"normal", "high", NULL};
const char *const role_allocator_choices[] = {FLMEM_SETTINGS_ALLOCATORS(NAME_OF) NULL};
const char *const role_framework_choices[] = {FLMEM_FRAMEWORKS(FRAMEWORK_NAME) NULL};

static enum flmem_role find_role(const char *name)
{
	static const enum flmem_role roles[] = {FLMEM_ROLE_SERVER, FLMEM_ROLE_CLIENT,
						FLMEM_ROLE_TRAINER};

	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (strcmp(flmem_role_name(roles[i]), name) == 0)
			return roles[i];
	return FLMEM_ROLE_NONE;
}

enum flmem_role role_named(const struct role_options *options)
{
	return options->role ? find_role(options->role) : FLMEM_ROLE_NONE;
}

/*
 * Judges from the job's trainers whether they set the cleanup interval, leave it, or do not read
 * the variables.
 */
static enum flmem_settings_job judge_job(const struct flmem_trainer_facts *trainers)
{
	if (!trainers->count)
		return FLMEM_SETTINGS_JOB_UNREAD;
	return trainers->gc_highest || trainers->unclear ? FLMEM_SETTINGS_JOB_SET
							 : FLMEM_SETTINGS_JOB_LEFT;
}

/*
 * Returns the first problem that leaves settings of the job unknown, or NULL. A link to code
 * that was not followed is not one: the job's settings were read.
 */
static const struct flmem_input_problem *find_job_problem(const struct flmem_recommendations *found)
{
	for (size_t i = 0; i < found->problem_count; i++)
		if (!found->problems[i].link)
			return &found->problems[i];
	return NULL;
}

static int read_job(const struct role_options *options, enum flmem_settings_job *ret_job,
		    struct flmem_error *err)
{
	const struct flmem_recommend_options how = {.framework_version =
							    options->framework_version};
	struct flmem_recommendations found = {0};
	const struct flmem_input_problem *problem;
	int rc = flmem_recommend(&options->job, 1, &how, &found, err);

	if (rc)
		return rc;
	problem = find_job_problem(&found);
	if (problem)
		rc = flmem_error_set(err, problem->code, 0, "cannot read the job: %s: %s",
				     problem->file, problem->message);
	else if (!found.file_count)
		rc = flmem_error_set(err, FLMEM_EUSAGE, 0,
				     "no job in '%s'; name the folder that has meta.json",
				     options->job);
	else
		*ret_job = judge_job(&found.trainers);
	flmem_recommendations_clear(&found);
	return rc;
}

/* Returns why no GPU is assumed, or NULL where one is assumed. */
static const char *find_missing_gpu(const struct role_options *options)
{
	if (options->no_gpu)
		return "--no-gpu: this client uses no GPU";
	if (options->gpu || flmem_settings_gpu_present())
		return NULL;
	return "no GPU is visible here (/dev/nvidia0, 1, ..., /dev/dxg, /dev/kfd); --gpu sets it";
}

/* Refuses what selects variables and settings that this role or framework does not have. */
static int check_effect(const struct role_options *options, const char *name, bool given,
			struct flmem_error *err)
{
	if (given && opt_choice_index(role_framework_choices, options->framework, 0) != 0)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "%s needs --framework=%s: the others have no such "
				       "variables",
				       name, role_framework_choices[0]);
	if (given && role_named(options) == FLMEM_ROLE_SERVER)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "%s has no effect for a server; choose from client, "
				       "trainer",
				       name);
	return 0;
}

int role_request(const struct role_options *options, struct flmem_settings_request *ret_request,
		 struct flmem_error *err)
{
	enum flmem_settings_job job = FLMEM_SETTINGS_JOB_UNKNOWN;
	const char *gpu_missing = find_missing_gpu(options);
	int rc = 0;

	if (!options->role)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--role is required; choose from server, client, trainer");
	if (options->gpu && options->no_gpu)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--gpu and --no-gpu exclude each other");
	if (options->jemalloc_library &&
	    opt_choice_index(role_allocator_choices, options->allocator,
			     FLMEM_SETTINGS_ALLOCATOR_GLIBC) == FLMEM_SETTINGS_ALLOCATOR_GLIBC)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--jemalloc-library needs --allocator=jemalloc or auto");
	rc = check_effect(options, "--job", options->job != NULL, err);
	if (!rc)
		rc = check_effect(options, "--gpu", options->gpu, err);
	if (!rc && options->job)
		rc = read_job(options, &job, err);
	if (rc)
		return rc;
	*ret_request = (struct flmem_settings_request){
		.role = find_role(options->role),
		.high_parallelism =
			opt_choice_index(role_parallelism_choices, options->parallelism, 0) == 1,
		.gpu = !gpu_missing,
		.gpu_missing = gpu_missing,
		.allocator = opt_choice_index(role_allocator_choices, options->allocator,
					      FLMEM_SETTINGS_ALLOCATOR_GLIBC),
		.jemalloc_library = options->jemalloc_library,
		.framework = FLMEM_FRAMEWORK_NVFLARE +
			     opt_choice_index(role_framework_choices, options->framework, 0),
		.framework_version = options->framework_version,
		.job = job,
		.force = options->force,
		.environment = environ,
	};
	return 0;
}

void role_print_problems(const char *command, const struct flmem_settings *settings)
{
	for (size_t i = 0; i < settings->count; i++) {
		const struct flmem_setting *s = &settings->rows[i];

		if (s->note)
			fprintf(stderr, "flmem %s: your value of %s is %s: %s\n", command, s->name,
				s->origin == FLMEM_SETTING_ROLE ? "replaced" : "kept", s->note);
	}
}
