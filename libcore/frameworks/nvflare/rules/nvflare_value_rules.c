/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about launch files whose variables have values that the program rejects or overrides. */
#include "frameworks/launch/launch_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "allocators/glibc/glibc_arena_max.h"
#include "base/cleanup.h"
#include "frameworks/launch/launch_calls.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"
#include "runtimes/cpython_int.h"

static void arena_ignored(const struct flmem_launch_check *one,
			  const struct flmem_launch_variable *variable)
{
	bool musl = one->launch ? one->launch->musl : one->launches->musl;
	uint64_t limit;

	if (!flmem_launch_is(variable, FLMEM_LAUNCH_ARENA_MAX) || musl ||
	    flmem_glibc_arena_max_parse(variable->value, &limit))
		return;
	flmem_launch_report(
		one->check, variable, one->launch ? flmem_launch_arenas(one->launch->role) : NULL,
		flmem_glibc_arena_max_until_2_38(variable->value) ? FLMEM_GLIBC_ARENA_MAX_UNTIL_2_38
								  : NULL);
}

static void check_value_gc_invalid(const struct flmem_launch_check *one,
				   const struct flmem_launch_variable *variable)
{
	int64_t rounds;

	if (flmem_launch_is(variable, FLMEM_NVFLARE_GC_ROUNDS) &&
	    flmem_python_int_parse(variable->value, &rounds) == FLMEM_PYTHON_INT_INVALID)
		flmem_launch_report(one->check, variable, "1", NULL);
}

/*
 * The variable is read if the configuration of the job lacks the key, and is converted like the
 * key.
 */
static void check_env_chunk(const struct flmem_launch_check *one,
			    const struct flmem_launch_variable *variable, bool invalid)
{
	enum flmem_python_int kind;
	int64_t size = 0;

	if (!flmem_launch_is(variable, FLMEM_NVFLARE_TENSOR_CHUNK) &&
	    !flmem_launch_is(variable, FLMEM_NVFLARE_NUMPY_CHUNK))
		return;
	kind = flmem_python_int_parse(variable->value, &size);
	if (invalid ? kind == FLMEM_PYTHON_INT_INVALID
		    : kind == FLMEM_PYTHON_INT_VALID && size <= 0)
		flmem_launch_report(one->check, variable, "2097152", NULL);
}

static void env_chunk_zero(const struct flmem_launch_check *one,
			   const struct flmem_launch_variable *variable)
{
	check_env_chunk(one, variable, false);
}

static void env_chunk_invalid(const struct flmem_launch_check *one,
			      const struct flmem_launch_variable *variable)
{
	check_env_chunk(one, variable, true);
}

static void report_override(const struct flmem_launch_check *one,
			    const struct flmem_launch_variable *variable, const char *key,
			    const char *job)
{
	char detail[192];

	snprintf(detail, sizeof(detail), "%s is %s in the job and %.60s here", key, job,
		 variable->value);
	flmem_launch_report(one->check, variable, NULL, detail);
}

/* Reports an interval in the environment, which holds for a job that sets none. */
static void gc_overridden(const struct flmem_launch_check *one,
			  const struct flmem_launch_variable *variable)
{
	const struct flmem_trainer_facts *job = &one->check->found->trainers;
	char text[64];
	int64_t rounds;

	if (!job->gc_highest ||
	    flmem_python_int_parse(variable->value, &rounds) != FLMEM_PYTHON_INT_VALID ||
	    (rounds == (int64_t)job->gc_lowest && rounds == (int64_t)job->gc_highest))
		return;
	if (job->gc_lowest == job->gc_highest)
		snprintf(text, sizeof(text), "%" PRIu64, job->gc_lowest);
	else
		snprintf(text, sizeof(text), "%" PRIu64 " to %" PRIu64, job->gc_lowest,
			 job->gc_highest);
	report_override(one, variable, "memory_gc_rounds", text);
}

/*
 * Reports a value other than true, which NVFlare takes as false; false in a job may be its default.
 */
static void cuda_overridden(const struct flmem_launch_check *one,
			    const struct flmem_launch_variable *variable)
{
	if (one->check->found->trainers.cuda_count && strcasecmp(variable->value, "true") != 0)
		report_override(one, variable, "cuda_empty_cache", "true");
}

static void overrides_job(const struct flmem_launch_check *one,
			  const struct flmem_launch_variable *variable)
{
	if (flmem_launch_is(variable, FLMEM_NVFLARE_GC_ROUNDS))
		gc_overridden(one, variable);
	else if (flmem_launch_is(variable, FLMEM_NVFLARE_CUDA_EMPTY_CACHE))
		cuda_overridden(one, variable);
}

static void check_arena_ignored(struct flmem_check *check)
{
	flmem_launch_check_variables(check, arena_ignored);
}

static void check_gc_invalid(struct flmem_check *check)
{
	flmem_launch_check_variables(check, check_value_gc_invalid);
}

static void check_env_chunk_zero(struct flmem_check *check)
{
	flmem_launch_check_variables(check, env_chunk_zero);
}

static void check_env_chunk_invalid(struct flmem_check *check)
{
	flmem_launch_check_variables(check, env_chunk_invalid);
}

static void check_overrides_job(struct flmem_check *check)
{
	flmem_launch_check_variables(check, overrides_job);
}

#define NVFLARE .framework = FLMEM_FRAMEWORK_NVFLARE
#define LAUNCH	.inputs = {&flmem_launch_file}
#define ENVS	.inputs = {FLMEM_NVFLARE_VARIABLE_FILES}
#define CHUNK	"NVFlare 2.7.2 to 2.9.0, fuel/utils/config_service.py"
#define TRAINER "NVFlare 2.7.2 and 2.8.1, client/ex_process/api.py"

static const struct flmem_rule_row nvflare_value_rows[] = {
	{
		.rule = {.id = "ENV-ARENA-IGNORED",
			 .severity = FLMEM_SEVERITY_WARNING,
			 .condition =
				 "MALLOC_ARENA_MAX that is empty or not a whole number above 0",
			 .message = "glibc sets no limit with this value and creates up to 8 "
				    "arenas per processor; set a whole number above 0",
			 .source = "glibc 2.36 to 2.43, elf/dl-tunables.c"},
		.inputs = {&flmem_launch_file, &flmem_launch_python_file},
		.check = check_arena_ignored,
	},
	{
		.rule = {.id = "NVF-ENV-GC-INVALID",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .since = "2.7.2",
			 .before = "2.9",
			 .condition = "NVFLARE_CLIENT_MEMORY_GC_ROUNDS that is not a whole number",
			 .message = "flare.init() of an external trainer fails on this value; set "
				    "a whole number, or leave the interval to the job",
			 .source = TRAINER},
		ENVS,
		.check = check_gc_invalid,
	},
	{
		.rule = {.id = "NVF-ENV-OVERRIDES-JOB",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .since = "2.7.2",
			 .before = "2.9",
			 .condition =
				 "NVFLARE_CLIENT_MEMORY_GC_ROUNDS or NVFLARE_CUDA_EMPTY_CACHE that "
				 "differs from a job beside it that sets the value",
			 .message = "external trainers take this value instead of the job's; leave "
				    "the variable out",
			 .source = TRAINER},
		LAUNCH,
		.check = check_overrides_job,
	},
	{
		.rule = {.id = "NVF-ENV-CHUNK-ZERO",
			 .severity = FLMEM_SEVERITY_WARNING,
			 NVFLARE,
			 .condition = "NVFLARE_TENSOR_DOWNLOAD_CHUNK_SIZE or "
				      "NVFLARE_NP_DOWNLOAD_CHUNK_SIZE of 0 or less",
			 .message = "where a job does not set the size itself, models are "
				    "serialised whole instead of streamed in chunks; leave the "
				    "variable out, or set it to the default of the job's key",
			 .source = CHUNK},
		ENVS,
		.check = check_env_chunk_zero,
	},
	{
		.rule = {.id = "NVF-ENV-CHUNK-INVALID",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .condition = "NVFLARE_TENSOR_DOWNLOAD_CHUNK_SIZE or "
				      "NVFLARE_NP_DOWNLOAD_CHUNK_SIZE that is not a whole number",
			 .message = "where a job does not set the size itself, NVFlare converts "
				    "this value with int(), which fails when the first model is "
				    "sent; write a number of bytes",
			 .source = CHUNK},
		ENVS,
		.check = check_env_chunk_invalid,
	},
};

const struct flmem_rule_table flmem_nvflare_value_rules = {nvflare_value_rows,
							   FLMEM_ARRAY_SIZE(nvflare_value_rows)};
