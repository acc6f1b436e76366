/* SPDX-License-Identifier: Apache-2.0 */
/* Memory settings of NVFlare: its variables, and the settings of its jobs. */
#include "frameworks/setting_rows.h"

#include <string.h>

#include <flmem/process_report.h>

#include "frameworks/nvflare/rules/nvflare_rules.h"
#include "runtimes/cpython_int.h"

#define SERVER	FLMEM_BIT(FLMEM_ROLE_SERVER)
#define CLIENTS (FLMEM_BIT(FLMEM_ROLE_CLIENT) | FLMEM_BIT(FLMEM_ROLE_TRAINER))

#define GLIBC	 FLMEM_BIT(FLMEM_ALLOCATOR_GLIBC)
#define JEMALLOC FLMEM_BIT(FLMEM_ALLOCATOR_JEMALLOC)

#define NVFLARE FLMEM_BIT(FLMEM_FRAMEWORK_NVFLARE)

#define REMOVED "NVFlare reads it only from 2.7.2 to 2.8; use the job setting instead"

static bool is_python_int(const char *value)
{
	int64_t number;

	return flmem_python_int_parse(value, &number) != FLMEM_PYTHON_INT_INVALID;
}

static bool is_literal_boolean(const char *value)
{
	return strcasecmp(value, "true") == 0 || strcasecmp(value, "false") == 0;
}

/* Columns of the two variables that NVFlare's external trainer reads in 2.7.2 to 2.8. */
#define TRAINER_VARIABLE                                                                 \
	.roles = CLIENTS, .allocators = GLIBC | JEMALLOC, .frameworks = NVFLARE,         \
	.since = FLMEM_VERSION_NUMBER(2, 7, 2), .before = FLMEM_VERSION_NUMBER(2, 9, 0), \
	.source = FLMEM_SOURCE_NVFLARE_GUIDE, .otherwise = REMOVED, .overrides_job = true

#define JOB_SETTING                                            \
	.allocators = GLIBC | JEMALLOC, .frameworks = NVFLARE, \
	.since = FLMEM_VERSION_NUMBER(2, 7, 2), .source = FLMEM_SOURCE_NVFLARE_GUIDE

const struct flmem_setting_row flmem_nvflare_settings[] = {
	{
		TRAINER_VARIABLE,
		.name = FLMEM_NVFLARE_GC_ROUNDS,
		.value = "1",
		.reason = "an external trainer collects garbage and trims after every send",
		.valid = is_python_int,
		.invalid = "not a whole number, so flare.init() of an external trainer fails on it",
	},
	{
		TRAINER_VARIABLE,
		.name = FLMEM_NVFLARE_CUDA_EMPTY_CACHE,
		.value = "true",
		.needs = FLMEM_NEEDS_GPU,
		.reason = "the same cleanup also empties PyTorch's CUDA cache",
		.valid = is_literal_boolean,
		.invalid = "neither true nor false, so NVFlare treats it as false",
	},
	{
		JOB_SETTING,
		.name = "server_memory_gc_rounds",
		.value = "5",
		.roles = SERVER,
		.where = "recipe argument; workflows[].args.memory_gc_rounds in "
			 "config_fed_server.json",
		.reason = "the server collects garbage and trims every 5 rounds, for under 0.2% of "
			  "the time",
	},
	{
		JOB_SETTING,
		.name = "client_memory_gc_rounds",
		.value = "1",
		.roles = CLIENTS,
		.where = "recipe argument; executors[].executor.args.memory_gc_rounds in "
			 "config_fed_client.json",
		.reason = "start with every round; 2, then 5, once the resident memory is stable",
	},
	{
		JOB_SETTING,
		.name = "cuda_empty_cache",
		.value = "true",
		.roles = CLIENTS,
		.needs = FLMEM_NEEDS_GPU,
		.where = "recipe argument; executors[].executor.args.cuda_empty_cache in "
			 "config_fed_client.json",
		.reason =
			"for a client with a GPU; has an effect only if client_memory_gc_rounds is "
			"above 0",
	},
	{0},
};

/* Formats of YAML that NVFlare's launchers read. */
const struct flmem_settings_syntax flmem_nvflare_setting_syntaxes[] = {
	{.format = FLMEM_SETTINGS_FORMAT_NVFLARE_DOCKER,
	 .head = "default_job_env:\n",
	 .before = "  ",
	 .between = ": ",
	 .after = "\n",
	 .quote = flmem_quote_yaml,
	 .elsewhere = true,
	 .comment_before = "  # ",
	 .comment_after = "\n"},
	/* A block of YAML, in which nothing is escaped, with lines for bash. */
	{.format = FLMEM_SETTINGS_FORMAT_NVFLARE_SLURM,
	 .head = "setup: |\n",
	 .before = "  export ",
	 .between = "=",
	 .after = "\n",
	 .quote = flmem_quote_sh_in_yaml,
	 .elsewhere = true,
	 .comment_before = "  # ",
	 .comment_after = "\n",
	 .tail = "forward_env:\n",
	 .name_before = "  - "},
	{0},
};
