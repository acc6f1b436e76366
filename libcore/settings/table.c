/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/table.h"

#include <string.h>

#include "allocators/glibc/glibc_arena_max.h"
#include "base/cleanup.h"
#include "frameworks/framework.h"

#define SERVER	FLMEM_BIT(FLMEM_ROLE_SERVER)
#define CLIENTS (FLMEM_BIT(FLMEM_ROLE_CLIENT) | FLMEM_BIT(FLMEM_ROLE_TRAINER))

#define GLIBC	 FLMEM_BIT(FLMEM_ALLOCATOR_GLIBC)
#define JEMALLOC FLMEM_BIT(FLMEM_ALLOCATOR_JEMALLOC)

#define ANY_FRAMEWORK (~0U)

#define TEMPLATE "NVFlare start script sub_start.sh"

#define NOT_GLIBC "only glibc's malloc reads it; jemalloc has its own arenas"

static bool is_arena_limit(const char *value)
{
	uint64_t limit;

	return flmem_glibc_arena_max_parse(value, &limit);
}

/*
 * Reports whether the decay time is finite. If a variable lists a key twice, the last one counts.
 */
static bool is_decay_finite(const char *value)
{
	static const char name[] = "dirty_decay_ms:";
	bool finite = true;

	for (; (value = strstr(value, name)); value += sizeof(name) - 1)
		finite = value[sizeof(name) - 1] != '-';
	return finite;
}

#define ARENA_ROW                                                                              \
	.name = "MALLOC_ARENA_MAX", .allocators = GLIBC, .frameworks = ANY_FRAMEWORK,          \
	.source = FLMEM_SOURCE_NVFLARE_GUIDE, .otherwise = NOT_GLIBC, .valid = is_arena_limit, \
	.ignored_pattern = "*[!0-9]* | 0",                                                     \
	.invalid = "not a whole number above 0, so glibc from 2.39 on sets no limit with it"

static const struct flmem_setting_row table_rows[] = {
	{
		ARENA_ROW,
		.value = "4",
		.roles = SERVER,
		.needs = FLMEM_NEEDS_NORMAL_PARALLELISM,
		.reason = "a server aggregates on many threads: 4 arenas balance throughput "
			  "against memory that free lists retain",
	},
	{
		ARENA_ROW,
		.value = "8",
		.roles = SERVER,
		.needs = FLMEM_NEEDS_HIGH_PARALLELISM,
		.reason = "a server with high parallelism: more arenas use more memory and reduce "
			  "lock contention",
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
		.reason = "replaces glibc's malloc with jemalloc; recommended for PyTorch",
		.source = FLMEM_SOURCE_NVFLARE_GUIDE,
	},
	{
		.name = "MALLOC_CONF",
		.value = "dirty_decay_ms:5000,muzzy_decay_ms:5000",
		.roles = SERVER | CLIENTS,
		.allocators = JEMALLOC,
		.frameworks = ANY_FRAMEWORK,
		.reason = "jemalloc returns freed pages to the kernel after 5 seconds",
		.source = TEMPLATE,
		.valid = is_decay_finite,
		.invalid = "with a negative dirty_decay_ms jemalloc returns no freed memory by "
			   "itself",
	},
};

const struct flmem_setting_row *flmem_setting_row_at(size_t index)
{
	if (index < FLMEM_ARRAY_SIZE(table_rows))
		return &table_rows[index];
	index -= FLMEM_ARRAY_SIZE(table_rows);
	for (size_t i = 0; flmem_frameworks[i]; i++)
		for (const struct flmem_setting_row *row = flmem_frameworks[i]->settings;
		     row && row->name; row++)
			if (!index--)
				return row;
	return NULL;
}

const char *flmem_setting_problem(const char *name, const char *value)
{
	const struct flmem_setting_row *row;
	uint64_t limit;

	if (strcmp(name, "GLIBC_TUNABLES") == 0 && flmem_glibc_arena_max_tuned(value) &&
	    !flmem_glibc_arena_max_find(NULL, value, &limit))
		return "glibc.malloc.arena_max is not a whole number above 0, so glibc sets no "
		       "limit with it";
	for (size_t i = 0; (row = flmem_setting_row_at(i)); i++)
		if (row->valid && strcmp(row->name, name) == 0)
			return row->valid(value) ? NULL : row->invalid;
	return NULL;
}
