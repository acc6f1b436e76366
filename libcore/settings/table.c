/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/table.h"

#include <string.h>

#include "allocators/glibc/glibc_arena_max.h"
#include "base/cleanup.h"
#include "runtimes/cpython_int.h"

#define SERVER	FLMEM_BIT(FLMEM_ROLE_SERVER)
#define CLIENTS (FLMEM_BIT(FLMEM_ROLE_CLIENT) | FLMEM_BIT(FLMEM_ROLE_TRAINER))

#define GLIBC	 FLMEM_BIT(FLMEM_ALLOCATOR_GLIBC)
#define JEMALLOC FLMEM_BIT(FLMEM_ALLOCATOR_JEMALLOC)

#define NVFLARE	      FLMEM_BIT(FLMEM_FRAMEWORK_NVFLARE)
#define ANY_FRAMEWORK (~0U)

#define GUIDE	 "NVFlare guide \"Memory Management\""
#define TEMPLATE "NVFlare start script sub_start.sh"

#define NOT_GLIBC "only glibc's malloc reads it; jemalloc has its own arenas"
#define REMOVED	  "NVFlare reads it only from 2.7.2 to 2.8; use the job setting instead"

static bool is_arena_limit(const char *value)
{
	uint64_t limit;

	return flmem_glibc_arena_max_parse(value, &limit);
}

static bool is_python_int(const char *value)
{
	int64_t number;

	return flmem_python_int_parse(value, &number) != FLMEM_PYTHON_INT_INVALID;
}

static bool is_literal_boolean(const char *value)
{
	return strcasecmp(value, "true") == 0 || strcasecmp(value, "false") == 0;
}

#define ARENA_ROW                                                                     \
	.name = "MALLOC_ARENA_MAX", .allocators = GLIBC, .frameworks = ANY_FRAMEWORK, \
	.source = GUIDE, .otherwise = NOT_GLIBC, .valid = is_arena_limit,             \
	.ignored_pattern = "*[!0-9]* | 0",                                            \
	.invalid = "not a whole number above 0, so glibc sets no limit with it"

/* The two variables that NVFlare's external trainer read in 2.7.2 to 2.8. */
#define TRAINER_VARIABLE                                                                    \
	.roles = CLIENTS, .allocators = GLIBC | JEMALLOC, .frameworks = NVFLARE,            \
	.since = FLMEM_RELEASE(2, 7, 2), .before = FLMEM_RELEASE(2, 9, 0), .source = GUIDE, \
	.otherwise = REMOVED, .overrides_job = true

#define JOB_SETTING                                                                             \
	.allocators = GLIBC | JEMALLOC, .frameworks = NVFLARE, .since = FLMEM_RELEASE(2, 7, 2), \
	.source = GUIDE

const struct flmem_setting_row flmem_setting_rows[] = {
	{
		ARENA_ROW,
		.value = "4",
		.roles = SERVER,
		.needs = FLMEM_NEEDS_NORMAL_PARALLELISM,
		.reason =
			"a server aggregates on many threads: 4 arenas balance throughput against "
			"memory that free lists hold back",
	},
	{
		ARENA_ROW,
		.value = "8",
		.roles = SERVER,
		.needs = FLMEM_NEEDS_HIGH_PARALLELISM,
		.reason =
			"a server with high parallelism: more arenas cost memory and save waiting "
			"for locks",
	},
	{
		ARENA_ROW,
		.value = "2",
		.roles = CLIENTS,
		.reason = "a client has little memory to spare: 2 arenas keep fragmentation low",
	},
	{
		.name = "LD_PRELOAD",
		.roles = SERVER | CLIENTS,
		.allocators = JEMALLOC,
		.frameworks = ANY_FRAMEWORK,
		.reason = "puts jemalloc in the place of glibc's malloc; recommended for PyTorch",
		.source = GUIDE,
	},
	{
		.name = "MALLOC_CONF",
		.value = "dirty_decay_ms:5000,muzzy_decay_ms:5000",
		.roles = SERVER | CLIENTS,
		.allocators = JEMALLOC,
		.frameworks = ANY_FRAMEWORK,
		.reason = "jemalloc gives freed pages back after 5 seconds",
		.source = TEMPLATE,
	},
	{
		TRAINER_VARIABLE,
		.name = "NVFLARE_CLIENT_MEMORY_GC_ROUNDS",
		.value = "1",
		.reason = "an external trainer collects garbage and trims after every send",
		.valid = is_python_int,
		.invalid = "not a whole number, so flare.init() of an external trainer fails on it",
	},
	{
		TRAINER_VARIABLE,
		.name = "NVFLARE_CUDA_EMPTY_CACHE",
		.value = "true",
		.needs = FLMEM_NEEDS_GPU,
		.reason = "the same cleanup also empties PyTorch's CUDA cache",
		.valid = is_literal_boolean,
		.invalid = "neither true nor false, so NVFlare takes it for false",
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
			"a GPU client; it acts only together with client_memory_gc_rounds above 0",
	},
};

const size_t flmem_setting_row_count = FLMEM_ARRAY_SIZE(flmem_setting_rows);

const char *flmem_setting_problem(const char *name, const char *value)
{
	uint64_t limit;

	if (strcmp(name, "GLIBC_TUNABLES") == 0 && flmem_glibc_arena_max_tuned(value) &&
	    !flmem_glibc_arena_max_find(NULL, value, &limit))
		return "glibc.malloc.arena_max is not a whole number above 0, so glibc sets no "
		       "limit with it";
	for (size_t i = 0; i < flmem_setting_row_count; i++) {
		const struct flmem_setting_row *row = &flmem_setting_rows[i];

		if (row->valid && strcmp(row->name, name) == 0)
			return row->valid(value) ? NULL : row->invalid;
	}
	return NULL;
}
