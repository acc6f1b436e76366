/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the rules about live processes: for each, a report that must trigger it and near misses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "frameworks/framework.h"
#include "frameworks/nvflare/nvflare_comm.h"

#define MIB (UINT64_C(1) << 20)

#define SETTINGS_MAX 3

/* The differences between the rows; everything else is a quiet process. */
struct live_case {
	const char *rule; /* the rule that the row is about */
	bool triggers;
	enum flmem_role role;
	enum flmem_allocator_kind allocator;
	const char *settings[SETTINGS_MAX]; /* variables as "NAME=value" */
	uint64_t arenas;		    /* number of arenas; 0: unknown */
	uint64_t trimmable_mib;		    /* trimmable memory, of 1000 MiB in all */
	uint64_t headroom_mib;		    /* memory below the limit, of 1000 MiB; 0: no limit */
	const char *version;
	const char *proposed; /* checked when triggered */
	bool in_memory;	      /* its temporary files are in memory */
	bool offload;	      /* a job beside it has tensors offloaded */
	const char *built;    /* version of its allocator */
	const char *python;
	uint64_t huge_mib; /* memory in huge pages, of 1000 MiB in all */
	uint64_t in_force; /* limit of arenas that malloc has now */
};

#define SERVER	 FLMEM_ROLE_SERVER_JOB
#define CLIENT	 FLMEM_ROLE_CLIENT_JOB
#define TRAINER	 FLMEM_ROLE_TRAINER
#define GLIBC	 .allocator = FLMEM_ALLOCATOR_GLIBC
#define JEMALLOC .allocator = FLMEM_ALLOCATOR_JEMALLOC
#define TCMALLOC .allocator = FLMEM_ALLOCATOR_TCMALLOC
#define MIMALLOC .allocator = FLMEM_ALLOCATOR_MIMALLOC
#define THP	 "GLIBC_TUNABLES=glibc.malloc.hugetlb="
#define THP_OFF	 "glibc.malloc.hugetlb=0"
#define TCACHE	 "GLIBC_TUNABLES=glibc.malloc.tcache_max="
#define DECAY	 "MALLOC_CONF=dirty_decay_ms:5000,muzzy_decay_ms:5000"

#define CHUNK	FLMEM_NVFLARE_COMM_CHUNK "="
#define WINDOW	FLMEM_NVFLARE_COMM_WINDOW "="
#define MESSAGE FLMEM_NVFLARE_COMM_MESSAGE "="
#define BLOB	FLMEM_NVFLARE_COMM_BLOB "="
#define RETRY	FLMEM_NVFLARE_COMM_RETRY "="

static const struct live_case cases[] = {
	{"LIVE-ARENA-UNSET", true, SERVER, GLIBC, .arenas = 9, .proposed = "4"},
	{"LIVE-ARENA-UNSET", true, CLIENT, GLIBC, .proposed = "2"},
	{"LIVE-ARENA-UNSET", false, FLMEM_ROLE_NONE, GLIBC},
	{"LIVE-ARENA-UNSET", false, SERVER, GLIBC, {"MALLOC_ARENA_MAX=4"}},
	{"LIVE-ARENA-UNSET", false, SERVER, GLIBC, {"GLIBC_TUNABLES=glibc.malloc.arena_max=4"}},
	{"LIVE-ARENA-UNSET", false, SERVER, JEMALLOC, {DECAY}},
	{"LIVE-ARENA-UNSET", false, CLIENT, GLIBC, {"MALLOC_ARENA_MAX=0"}},
	{"LIVE-ARENA-IGNORED", true, CLIENT, GLIBC, {"MALLOC_ARENA_MAX=0"}, .proposed = "2"},
	{"LIVE-ARENA-IGNORED", true, SERVER, GLIBC, {"MALLOC_ARENA_MAX="}, .proposed = "4"},
	{"LIVE-ARENA-IGNORED", true, SERVER, GLIBC, {"MALLOC_ARENA_MAX=abc"}, .arenas = 9},
	{"LIVE-ARENA-IGNORED", true, SERVER, GLIBC, {"MALLOC_ARENA_MAX=-1"}},
	{"LIVE-ARENA-IGNORED", true, SERVER, GLIBC, {"GLIBC_TUNABLES=glibc.malloc.arena_max=x"}},
	{"LIVE-ARENA-IGNORED",
	 false,
	 SERVER,
	 GLIBC,
	 {"GLIBC_TUNABLES=glibc.malloc.tcache_count=0"}},
	{"LIVE-ARENA-IGNORED",
	 true,
	 SERVER,
	 GLIBC,
	 {"MALLOC_ARENA_MAX=4", "GLIBC_TUNABLES=glibc.malloc.arena_max=-1"}},
	{"LIVE-ARENA-HIGH",
	 true,
	 SERVER,
	 GLIBC,
	 {"MALLOC_ARENA_MAX=4", "GLIBC_TUNABLES=glibc.malloc.arena_max=32"}},
	{"LIVE-ARENA-HIGH",
	 false,
	 SERVER,
	 GLIBC,
	 {"MALLOC_ARENA_MAX=32", "GLIBC_TUNABLES=glibc.malloc.arena_max=4"}},
	{"LIVE-ARENA-IGNORED",
	 false,
	 SERVER,
	 GLIBC,
	 {"MALLOC_ARENA_MAX=0", "GLIBC_TUNABLES=glibc.malloc.arena_max=4"}},
	{"LIVE-ARENA-IGNORED",
	 false,
	 SERVER,
	 GLIBC,
	 {"MALLOC_ARENA_MAX=4", "GLIBC_TUNABLES=glibc.malloc.arena_max=0"}},
	{"LIVE-ARENA-IGNORED", false, SERVER, GLIBC, {"MALLOC_ARENA_MAX=4"}},
	{"LIVE-ARENA-IGNORED", true, SERVER, GLIBC, {"MALLOC_ARENA_MAX=4x"}},
	{"LIVE-ARENA-IGNORED", false, SERVER, GLIBC, {"MALLOC_ARENA_MAX=4x"}, .in_force = 4},
	{"LIVE-ARENA-IGNORED", false, FLMEM_ROLE_NONE, GLIBC, {"MALLOC_ARENA_MAX=0"}},
	{"LIVE-ARENA-IGNORED", false, SERVER, JEMALLOC, {"MALLOC_ARENA_MAX=0", DECAY}},
	{"LIVE-ENV-CHUNK", true, SERVER, GLIBC, {"NVFLARE_NP_DOWNLOAD_CHUNK_SIZE=0"}},
	{"LIVE-ENV-CHUNK", true, CLIENT, GLIBC, {"NVFLARE_TENSOR_DOWNLOAD_CHUNK_SIZE=2M"}},
	{"LIVE-ENV-CHUNK", false, CLIENT, GLIBC, {"NVFLARE_TENSOR_DOWNLOAD_CHUNK_SIZE=1"}},
	{"LIVE-COMM-FAILS", true, SERVER, GLIBC, {CHUNK "1M"}, .proposed = "1048576"},
	{"LIVE-COMM-FAILS", true, CLIENT, GLIBC, {CHUNK}, .proposed = "1048576"},
	{"LIVE-COMM-FAILS", true, TRAINER, GLIBC, {CHUNK "0"}},
	{"LIVE-COMM-FAILS", true, SERVER, GLIBC, {CHUNK "2000001", MESSAGE "2000000"}},
	{"LIVE-COMM-FAILS", false, SERVER, GLIBC, {CHUNK "2000000", MESSAGE "2000000"}},
	{"LIVE-COMM-STALLS", true, CLIENT, GLIBC, {WINDOW "65536"}, .proposed = "16777216"},
	{"LIVE-COMM-STALLS", false, CLIENT, GLIBC, {WINDOW "4194304"}},
	{"LIVE-COMM-STALLS", false, CLIENT, GLIBC, {WINDOW "65536"}, .version = "2.9.0"},
	{"LIVE-COMM-LIMIT", true, SERVER, GLIBC, {BLOB "2097151"}, .proposed = "4294967296"},
	{"LIVE-COMM-LIMIT", true, SERVER, GLIBC, {BLOB "0"}},
	{"LIVE-COMM-LIMIT", true, SERVER, GLIBC, {WINDOW "8388608", BLOB "4194304"}},
	{"LIVE-COMM-LIMIT", true, SERVER, GLIBC, {RETRY "67108864"}},
	{"LIVE-COMM-LIMIT", false, SERVER, GLIBC, {BLOB "2097152"}},
	{"LIVE-COMM-LIMIT", false, SERVER, GLIBC, {RETRY "67108864"}, .version = "2.8.1"},
	{"LIVE-ENV-GC-INVALID", true, CLIENT, GLIBC, {"NVFLARE_CLIENT_MEMORY_GC_ROUNDS=two"}},
	{"LIVE-ENV-GC-INVALID", true, TRAINER, GLIBC, {"NVFLARE_CLIENT_MEMORY_GC_ROUNDS="}},
	{"LIVE-ENV-GC-INVALID", false, CLIENT, GLIBC, {"NVFLARE_CLIENT_MEMORY_GC_ROUNDS= 2 "}},
	{"LIVE-ENV-GC-INVALID", false, SERVER, GLIBC, {"NVFLARE_CLIENT_MEMORY_GC_ROUNDS=two"}},
	{"LIVE-ENV-GC-INVALID",
	 false,
	 TRAINER,
	 GLIBC,
	 {"NVFLARE_CLIENT_MEMORY_GC_ROUNDS=two", "NVFLARE_CLIENT_API_BOOTSTRAP=/w/b.json"}},
	{"LIVE-ENV-GC-INVALID",
	 false,
	 CLIENT,
	 GLIBC,
	 {"NVFLARE_CLIENT_MEMORY_GC_ROUNDS=two"},
	 .version = "2.9"},
	{"LIVE-ARENA-HIGH", true, SERVER, GLIBC, {"MALLOC_ARENA_MAX=9"}, .proposed = "4"},
	{"LIVE-ARENA-HIGH", true, CLIENT, GLIBC, {"MALLOC_ARENA_MAX=5"}, .proposed = "2"},
	{"LIVE-ARENA-HIGH", false, SERVER, GLIBC, {"MALLOC_ARENA_MAX=8"}},
	{"LIVE-ARENA-HIGH", false, FLMEM_ROLE_NONE, GLIBC, {"MALLOC_ARENA_MAX=64"}},
	{"LIVE-ARENA-CLIENT-4", true, CLIENT, GLIBC, {"MALLOC_ARENA_MAX=4"}, .proposed = "2"},
	{"LIVE-ARENA-CLIENT-4", false, SERVER, GLIBC, {"MALLOC_ARENA_MAX=4"}},
	{"LIVE-ARENA-CLIENT-4", false, CLIENT, GLIBC, {"MALLOC_ARENA_MAX=3"}},
	{"LIVE-ARENA-EXCEEDED", true, CLIENT, GLIBC, {"MALLOC_ARENA_MAX=2"}, .arenas = 3},
	{"LIVE-ARENA-EXCEEDED", false, CLIENT, GLIBC, {"MALLOC_ARENA_MAX=2"}, .arenas = 2},
	{"LIVE-ARENA-EXCEEDED", false, CLIENT, GLIBC, {"MALLOC_ARENA_MAX=2"}},
	{"LIVE-ARENA-EXCEEDED", false, CLIENT, GLIBC, {"MALLOC_ARENA_MAX=two"}, .arenas = 3},
	{"LIVE-ARENA-USELESS", true, CLIENT, JEMALLOC, {"MALLOC_ARENA_MAX=2", DECAY}},
	{"LIVE-ARENA-USELESS", true, CLIENT, .allocator = FLMEM_ALLOCATOR_MUSL,
	 .settings = {"MALLOC_ARENA_MAX=2"}},
	{"LIVE-ARENA-USELESS", false, CLIENT, GLIBC, {"MALLOC_ARENA_MAX=2"}},
	{"LIVE-ARENA-USELESS", false, CLIENT, .settings = {"MALLOC_ARENA_MAX=2"}},
	{"LIVE-JEMALLOC-NOT-LOADED", true, CLIENT, GLIBC, {"NVFLARE_ENABLE_JEMALLOC_PRELOAD=true"}},
	{"LIVE-JEMALLOC-NOT-LOADED",
	 true,
	 FLMEM_ROLE_NONE,
	 GLIBC,
	 {"LD_PRELOAD=/usr/lib/libjemalloc.so.2"}},
	{"LIVE-JEMALLOC-NOT-LOADED",
	 false,
	 CLIENT,
	 GLIBC,
	 {"NVFLARE_ENABLE_JEMALLOC_PRELOAD=True"}},
	{"LIVE-JEMALLOC-NOT-LOADED",
	 false,
	 CLIENT,
	 JEMALLOC,
	 {"NVFLARE_ENABLE_JEMALLOC_PRELOAD=true", DECAY}},
	{"LIVE-JEMALLOC-NOT-LOADED", false, CLIENT, GLIBC, {"LD_PRELOAD=/usr/lib/libfoo.so"}},
	{"LIVE-JEMALLOC-DECAY", true, CLIENT, JEMALLOC,
	 .proposed = "dirty_decay_ms:5000,muzzy_decay_ms:5000"},
	{"LIVE-JEMALLOC-DECAY", true, CLIENT, JEMALLOC, {"MALLOC_CONF=dirty_decay_ms:5000"}},
	{"LIVE-JEMALLOC-DECAY",
	 true,
	 CLIENT,
	 JEMALLOC,
	 {"MALLOC_CONF=dirty_decay_ms:-1,muzzy_decay_ms:0"}},
	{"LIVE-JEMALLOC-DECAY", false, CLIENT, JEMALLOC, {DECAY}},
	{"LIVE-JEMALLOC-DECAY", true, CLIENT, JEMALLOC, .built = "5.0.1-0-g89"},
	{"LIVE-JEMALLOC-DECAY", false, CLIENT, JEMALLOC, .built = "4.5.0-0-g04"},
	{"LIVE-JEMALLOC-DECAY", false, CLIENT, JEMALLOC, .built = "3.6.0-0-g46"},
	{"LIVE-JEMALLOC-DECAY", false, CLIENT, GLIBC, {"MALLOC_ARENA_MAX=2"}},
	{"LIVE-TRIMMABLE", true, FLMEM_ROLE_NONE, GLIBC, .trimmable_mib = 200},
	{"LIVE-TRIMMABLE", false, FLMEM_ROLE_NONE, GLIBC, .trimmable_mib = 199},
	{"LIVE-LIMIT-NEAR", true, FLMEM_ROLE_NONE, GLIBC, .headroom_mib = 99},
	{"LIVE-LIMIT-NEAR", false, FLMEM_ROLE_NONE, GLIBC, .headroom_mib = 101},
	{"LIVE-OFFLOAD-TMPFS", true, SERVER, GLIBC, .in_memory = true, .offload = true},
	{"LIVE-OFFLOAD-TMPFS", false, SERVER, GLIBC, .offload = true},
	{"LIVE-OFFLOAD-TMPFS", false, SERVER, GLIBC, .in_memory = true},
	{"LIVE-OFFLOAD-TMPFS", false, SERVER, GLIBC, .in_memory = true, .offload = true,
	 .version = "2.7.2"},
	{"LIVE-MUSL-NO-TRIM", true, CLIENT, .allocator = FLMEM_ALLOCATOR_MUSL},
	{"LIVE-MUSL-NO-TRIM", false, FLMEM_ROLE_NONE, .allocator = FLMEM_ALLOCATOR_MUSL},
	{"LIVE-PROFILE-BLIND-29",
	 true,
	 TRAINER,
	 GLIBC,
	 {"NVFLARE_CLIENT_MEMORY_PROFILE=1", "MALLOC_ARENA_MAX=2"},
	 .version = "2.9"},
	{"LIVE-PROFILE-BLIND-29",
	 false,
	 TRAINER,
	 GLIBC,
	 {"NVFLARE_CLIENT_MEMORY_PROFILE=1", "MALLOC_ARENA_MAX=2"},
	 .version = "2.8"},
	{"LIVE-PROFILE-BLIND-29",
	 false,
	 TRAINER,
	 GLIBC,
	 {"NVFLARE_CLIENT_MEMORY_PROFILE=1", "MALLOC_ARENA_MAX=2"}},
	{"LIVE-PROFILE-BLIND-29",
	 false,
	 CLIENT,
	 GLIBC,
	 {"NVFLARE_CLIENT_MEMORY_PROFILE=1", "MALLOC_ARENA_MAX=2"},
	 .version = "2.9"},
	{"LIVE-NVF-GC-WRONG-ALLOCATOR", true, SERVER, TCMALLOC},
	{"LIVE-NVF-GC-WRONG-ALLOCATOR", true, TRAINER, MIMALLOC},
	{"LIVE-NVF-GC-WRONG-ALLOCATOR", false, FLMEM_ROLE_SERVER, TCMALLOC},
	{"LIVE-NVF-GC-WRONG-ALLOCATOR", false, FLMEM_ROLE_CLIENT, TCMALLOC},
	{"LIVE-NVF-GC-WRONG-ALLOCATOR", false, FLMEM_ROLE_NONE, TCMALLOC},
	{"LIVE-NVF-GC-WRONG-ALLOCATOR", false, CLIENT, JEMALLOC, {DECAY}},
	{"LIVE-NVF-GC-WRONG-ALLOCATOR", false, CLIENT, GLIBC},
	{"LIVE-NVF-GC-WRONG-ALLOCATOR", false, CLIENT, .allocator = FLMEM_ALLOCATOR_MUSL},
	{"LIVE-NVF-GC-WRONG-ALLOCATOR", false, CLIENT, .allocator = FLMEM_ALLOCATOR_UNKNOWN},
	{"LIVE-NVF-GC-WRONG-ALLOCATOR", false, CLIENT, TCMALLOC, .version = "2.7.1"},
	{"LIVE-GLIBC-THP",
	 true,
	 FLMEM_ROLE_NONE,
	 GLIBC,
	 {THP "1"},
	 .huge_mib = 200,
	 .built = "2.36",
	 .proposed = THP_OFF},
	{"LIVE-GLIBC-THP", false, SERVER, GLIBC, {THP "1"}, .huge_mib = 199, .built = "2.36"},
	{"LIVE-GLIBC-THP", false, SERVER, GLIBC, {THP "0"}, .huge_mib = 900, .built = "2.43"},
	{"LIVE-GLIBC-THP", false, SERVER, GLIBC, {THP "1"}, .huge_mib = 900, .built = "2.34"},
	{"LIVE-GLIBC-THP", false, SERVER, GLIBC, {THP "1"}, .huge_mib = 900},
	{"LIVE-GLIBC-THP", false, SERVER, TCMALLOC, {THP "1"}, .huge_mib = 900, .built = "2.36"},
	{"LIVE-GLIBC-TCACHE", true, SERVER, GLIBC, {TCACHE "4194304"}, .built = "2.42"},
	{"LIVE-GLIBC-TCACHE", true, FLMEM_ROLE_NONE, GLIBC, {TCACHE "1033"}, .built = "2.43"},
	{"LIVE-GLIBC-TCACHE", false, SERVER, GLIBC, {TCACHE "1032"}, .built = "2.42"},
	{"LIVE-GLIBC-TCACHE", false, SERVER, GLIBC, {TCACHE "4194304"}, .built = "2.41"},
	{"LIVE-GLIBC-TCACHE", false, SERVER, GLIBC, {TCACHE "4194304"}},
	{"LIVE-GLIBC-TCACHE", false, SERVER, GLIBC, {TCACHE "much"}, .built = "2.42"},
	{"LIVE-GLIBC-TCACHE", false, SERVER, JEMALLOC, {TCACHE "4194304", DECAY}, .built = "5.3"},
	{"LIVE-CPYTHON-GC", true, SERVER, GLIBC, .python = "3.14.0"},
	{"LIVE-CPYTHON-GC", true, CLIENT, GLIBC, .python = "3.14.4"},
	{"LIVE-CPYTHON-GC", false, SERVER, GLIBC, .python = "3.14.5"},
	{"LIVE-CPYTHON-GC", false, SERVER, GLIBC, .python = "3.13.9"},
	{"LIVE-CPYTHON-GC", false, SERVER, GLIBC, .python = "3.15.0"},
	{"LIVE-CPYTHON-GC", false, SERVER, GLIBC, .python = "3.14"},
	{"LIVE-CPYTHON-GC", false, SERVER, GLIBC, .python = ""},
	{"LIVE-CPYTHON-GC", false, FLMEM_ROLE_NONE, GLIBC, .python = "3.14.2"},
	{"LIVE-PYTHON-MIMALLOC", true, SERVER, GLIBC, {"PYTHONMALLOC=mimalloc"}},
	{"LIVE-PYTHON-MIMALLOC", true, SERVER, GLIBC, {"PYTHONMALLOC=mimalloc_debug"}},
	{"LIVE-PYTHON-MIMALLOC", false, SERVER, GLIBC, {"PYTHONMALLOC=malloc"}},
	{"LIVE-PYTHON-MIMALLOC", false, SERVER, GLIBC},
};

/* Splits each "NAME=value" for the report; the texts are in `storage`. */
static size_t fill_settings(const struct live_case *row, char storage[SETTINGS_MAX][128],
			    struct flmem_setting_report *rows)
{
	size_t count = 0;

	for (; count < SETTINGS_MAX && row->settings[count]; count++) {
		char *equals;

		snprintf(storage[count], sizeof(storage[count]), "%s", row->settings[count]);
		equals = strchr(storage[count], '=');
		assert_non_null(equals);
		*equals = '\0';
		rows[count] = (struct flmem_setting_report){
			.name = storage[count], .value = equals + 1, .source = "environment"};
	}
	return count;
}

static void run(const struct live_case *row, struct flmem_recommendations *ret_found)
{
	static const char none[] = "none";
	struct flmem_recommendations jobs = {.disk_offload = row->offload};
	struct flmem_recommend_options options = {.framework_version = row->version,
						  .beside = &jobs};
	struct flmem_setting_report settings[SETTINGS_MAX];
	char storage[SETTINGS_MAX][128];
	struct flmem_allocator_report allocator = {.kind = row->allocator,
						   .version = (char *)(uintptr_t)row->built,
						   .serves_malloc = true,
						   .heap = FLMEM_HEAP_UNKNOWN(none)};
	struct flmem_process_report process = {
		.pid = 4711,
		.framework = FLMEM_FRAMEWORK_NVFLARE,
		.role = row->role,
		.allocators = &allocator,
		.allocator_count = 1,
		.heap = FLMEM_HEAP_UNKNOWN(none),
		.memory = {.rss_bytes = FLMEM_KNOWN(1000 * MIB),
			   .thp_bytes = FLMEM_KNOWN(row->huge_mib * MIB)},
		.python = {.version = (char *)(uintptr_t)row->python},
		.settings = settings,
		.setting_count = fill_settings(row, storage, settings),
		.limit.cgroup_max_bytes = FLMEM_UNKNOWN(none),
		.limit.headroom_bytes = FLMEM_UNKNOWN(none),
		.temporary_in_memory = FLMEM_KNOWN(row->in_memory),
	};
	struct flmem_detect_report report = {.processes = &process, .process_count = 1};

	if (row->arenas)
		allocator.heap.arenas = process.heap.arenas = FLMEM_KNOWN(row->arenas);
	if (row->in_force)
		allocator.heap.arena_max = FLMEM_KNOWN(row->in_force);
	if (row->trimmable_mib)
		process.heap.trimmable_bytes = FLMEM_KNOWN(row->trimmable_mib * MIB);
	if (row->headroom_mib)
		process.limit = (struct flmem_limit_report){
			.cgroup_max_bytes = FLMEM_KNOWN(1000 * MIB),
			.headroom_bytes = FLMEM_KNOWN(row->headroom_mib * MIB)};
	assert_int_equal(flmem_recommend_processes(&report, &options, ret_found, NULL), 0);
}

static const struct flmem_finding *find(const struct flmem_recommendations *found, const char *rule)
{
	for (size_t i = 0; i < found->finding_count; i++)
		if (strcmp(found->findings[i].rule->id, rule) == 0)
			return &found->findings[i];
	return NULL;
}

static void each_rule_is_triggered_and_nearly_missed(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++) {
		struct flmem_recommendations found = {0};
		const struct flmem_finding *finding;

		run(&cases[i], &found);
		finding = find(&found, cases[i].rule);
		if (!!finding != cases[i].triggers)
			fail_msg("row %zu: %s %s", i, cases[i].rule,
				 finding ? "was triggered" : "was not triggered");
		if (finding) {
			assert_string_equal(finding->file, "process 4711");
			assert_int_equal(finding->line, 0);
			assert_false(finding->fixable);
		}
		if (finding && cases[i].proposed)
			assert_string_equal(finding->proposed, cases[i].proposed);
		assert_int_equal(found.problem_count, 0);
		flmem_recommendations_clear(&found);
	}
}

static void every_rule_has_both(void **state)
{
	const struct flmem_rule *rule;

	(void)state;
	for (size_t i = 0; (rule = flmem_recommend_rule(i)); i++) {
		bool hit = false, miss = false;

		if (strncmp(rule->id, "LIVE-", 5) != 0)
			continue;
		for (size_t n = 0; n < FLMEM_ARRAY_SIZE(cases); n++) {
			hit |= cases[n].triggers && !strcmp(cases[n].rule, rule->id);
			miss |= !cases[n].triggers && !strcmp(cases[n].rule, rule->id);
		}
		if (!hit || !miss)
			fail_msg("%s lacks a case", rule->id);
	}
}

static bool is_about_any_process(const char *id)
{
	const struct flmem_live_table *tables[] = {&flmem_live_rules, &flmem_live_runtime_rules};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(tables); i++)
		for (size_t n = 0; n < tables[i]->count; n++)
			if (strcmp(tables[i]->rows[n].rule.id, id) == 0)
				return true;
	return false;
}

/* A rule that followed no rule would not run. */
static void a_rule_of_a_framework_follows_one_that_there_is(void **state)
{
	size_t following = 0;

	(void)state;
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++) {
		const struct flmem_live_table *table = (*f)->live_rules;

		for (size_t i = 0; table && i < table->count; i++) {
			const struct flmem_live_row *row = &table->rows[i];

			if (row->after && !is_about_any_process(row->after))
				fail_msg("%s follows '%s'", row->rule.id, row->after);
			following += row->after != NULL;
		}
	}
	assert_true(following > 0);
}

/* The command line, which names the database, decides. */
static void a_superlink_that_keeps_its_store_in_memory_is_reported(void **state)
{
	static const struct {
		enum flmem_role role;
		const char *command;
		bool hit;
	} rows[] = {
		{FLMEM_ROLE_SERVER, "flower-superlink --insecure", true},
		{FLMEM_ROLE_SERVER, "flower-superlink --database :flwr-in-memory: --insecure",
		 true},
		{FLMEM_ROLE_SERVER, "flower-superlink --database=:memory:", true},
		{FLMEM_ROLE_SERVER, "flower-superlink --database a.db --database :memory:", true},
		{FLMEM_ROLE_SERVER, "flower-superlink --database state.db", false},
		{FLMEM_ROLE_SERVER, "flower-superlink --database=sqlite:///x.db --insecure", false},
		{FLMEM_ROLE_SERVER, NULL, false},
		{FLMEM_ROLE_CLIENT, "flower-supernode --insecure", false},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_process_report process = {
			.pid = 4711,
			.framework = FLMEM_FRAMEWORK_FLOWER,
			.role = rows[i].role,
			.command = (char *)(uintptr_t)rows[i].command,
			.heap = FLMEM_HEAP_UNKNOWN("none"),
			.memory.rss_bytes = FLMEM_UNKNOWN("none"),
			.limit.cgroup_max_bytes = FLMEM_UNKNOWN("none"),
			.limit.headroom_bytes = FLMEM_UNKNOWN("none")};
		struct flmem_detect_report report = {.processes = &process, .process_count = 1};
		struct flmem_recommendations found = {0};

		assert_int_equal(flmem_recommend_processes(&report, NULL, &found, NULL), 0);
		if (!!find(&found, "FLWR-STORE-IN-MEMORY") != rows[i].hit)
			fail_msg("row %zu", i);
		flmem_recommendations_clear(&found);
	}
}

static void what_may_not_be_read_is_a_problem(void **state)
{
	struct flmem_process_report process = {.pid = 7,
					       .heap = FLMEM_HEAP_UNKNOWN("denied"),
					       .memory.rss_bytes = FLMEM_UNKNOWN("denied"),
					       .limit.cgroup_max_bytes = FLMEM_UNKNOWN("denied"),
					       .limit.headroom_bytes = FLMEM_UNKNOWN("denied"),
					       .settings_unknown = "denied",
					       .denied_why = "another user's",
					       .denied_how = "use sudo"};
	struct flmem_skipped skipped = {.pid = 8, .code = FLMEM_ENOPROC, .message = "ended"};
	struct flmem_detect_report report = {
		.processes = &process, .process_count = 1, .skipped = &skipped, .skipped_count = 1};
	struct flmem_recommendations found = {0};

	(void)state;
	assert_int_equal(flmem_recommend_processes(&report, NULL, &found, NULL), 0);
	assert_int_equal(found.finding_count, 0);
	assert_int_equal(found.problem_count, 2);
	assert_string_equal(found.problems[0].file, "process 7");
	assert_int_equal(found.problems[0].code, FLMEM_EPERM);
	assert_int_equal(found.problems[1].code, FLMEM_ENOPROC);
	flmem_recommendations_clear(&found);
}

/* The environment is untrusted: a rule shows its text without control characters. */
static void text_of_the_environment_is_escaped(void **state)
{
	static const struct live_case row = {
		"LIVE-OFFLOAD-TMPFS", true,	      SERVER, GLIBC, {"TMPDIR=/x\033[2J"},
		.in_memory = true,    .offload = true};
	struct flmem_recommendations found = {0};
	size_t shown = 0;

	(void)state;
	run(&row, &found);
	for (size_t i = 0; i < found.finding_count; i++) {
		if (strcmp(found.findings[i].rule->id, row.rule) != 0)
			continue;
		assert_string_equal(found.findings[i].current, "/x\\x1b[2J");
		shown++;
	}
	assert_int_equal(shown, 1);
	flmem_recommendations_clear(&found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_rule_is_triggered_and_nearly_missed),
		cmocka_unit_test(every_rule_has_both),
		cmocka_unit_test(a_rule_of_a_framework_follows_one_that_there_is),
		cmocka_unit_test(a_superlink_that_keeps_its_store_in_memory_is_reported),
		cmocka_unit_test(what_may_not_be_read_is_a_problem),
		cmocka_unit_test(text_of_the_environment_is_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
