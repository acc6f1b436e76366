/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the steps of the troubleshooting lists: the facts about a process, and the conclusion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "frameworks/framework.h"
#include "frameworks/troubleshooting.h"
#include "rules/rules.h"

#define MIB	 (UINT64_C(1) << 20)
#define SERVER	 FLMEM_ROLE_SERVER_JOB
#define CLIENT	 FLMEM_ROLE_CLIENT_JOB
#define GLIBC	 .allocator = FLMEM_ALLOCATOR_GLIBC
#define JEMALLOC .allocator = FLMEM_ALLOCATOR_JEMALLOC
#define DONE	 FLMEM_STEP_DONE
#define NOT_DONE FLMEM_STEP_NOT_DONE
#define NEEDLESS FLMEM_STEP_NOT_NEEDED
#define UNKNOWN	 FLMEM_STEP_CANNOT_TELL

/* The differences between the rows. Without an allocator there is no live process. */
struct step_case {
	const char *step;
	enum flmem_step_state state;
	const char *says; /* text in the evidence */
	enum flmem_role role;
	enum flmem_framework framework; /* NONE: NVFlare */
	enum flmem_allocator_kind allocator;
	/* Name and value of a setting. */
	const char *name, *value;
	int64_t server_rounds, client_rounds, clear_cache, cuda, gpu; /* each is KNOWN(n) */
	enum flmem_trend_verdict trend;				      /* used with `rounds` */
	uint64_t rounds;					      /* 0: no recording */
	uint64_t max; /* times that the recorded process met its limit */
};

#define KNOWN(n)	     ((n) + 1) /* 0 means not known */
#define ARENAS(n)	     .name = "MALLOC_ARENA_MAX", .value = (n)
#define CONF(v)		     .name = "MALLOC_CONF", .value = (v)
#define DECAY		     "dirty_decay_ms:5000,muzzy_decay_ms:5000"
#define RECORDED(how, count) .trend = FLMEM_TREND_##how, .rounds = (count)

/* clang-format off */
static const struct step_case cases[] = {
	{"SRV-ARENA", DONE, "MALLOC_ARENA_MAX=4", SERVER, GLIBC, ARENAS("4")},
	{"SRV-ARENA", NOT_DONE, "is not set", SERVER, GLIBC},
	{"SRV-ARENA", NOT_DONE, "'0' sets no limit", SERVER, GLIBC, ARENAS("0")},
	{"SRV-ARENA", NOT_DONE, "'' sets no limit", SERVER, GLIBC, ARENAS("")},
	{"SRV-ARENA", NOT_DONE, "'abc' sets no limit", SERVER, GLIBC, ARENAS("abc")},
	{"SRV-ARENA", NOT_DONE, "is not set", FLMEM_ROLE_NONE, GLIBC},
	{"SRV-ARENA", NOT_DONE, "LIVE-ARENA-HIGH", SERVER, GLIBC, ARENAS("64")},
	{"SRV-ARENA", NEEDLESS, "jemalloc", SERVER, JEMALLOC},
	{"SRV-ARENA", UNKNOWN, "environment", SERVER, RECORDED(FLAT, 9)},
	{"SRV-ARENA", UNKNOWN, "allocator", SERVER, .allocator = FLMEM_ALLOCATOR_UNKNOWN},
	{"CLI-ARENA", DONE, "MALLOC_ARENA_MAX=2", CLIENT, GLIBC, ARENAS("2")},
	{"CLI-ARENA", DONE, "GLIBC_TUNABLES", CLIENT, GLIBC, .name = "GLIBC_TUNABLES",
	 .value = "glibc.malloc.arena_max=2"},
	{"CLI-ARENA", NOT_DONE, "is not set", CLIENT, GLIBC, .name = "GLIBC_TUNABLES",
	 .value = "glibc.malloc.arena_max=0"},
	{"CLI-ARENA", NOT_DONE, "LIVE-ARENA-CLIENT-4", CLIENT, GLIBC, ARENAS("4")},
	{"SRV-GC", DONE, "is 5", SERVER, GLIBC, .server_rounds = KNOWN(5)},
	{"SRV-GC", DONE, "is 1", SERVER, GLIBC, .server_rounds = KNOWN(1)},
	{"SRV-GC", NOT_DONE, "is 6 in the job, above", SERVER, GLIBC, .server_rounds = KNOWN(6)},
	{"SRV-GC", NOT_DONE, "is 0", SERVER, GLIBC, .server_rounds = KNOWN(0)},
	{"SRV-GC", UNKNOWN, "server unknown", SERVER, GLIBC, .client_rounds = KNOWN(1)},
	{"SRV-GC", NEEDLESS, "appfl", SERVER, FLMEM_FRAMEWORK_APPFL, GLIBC},
	{"SRV-JEMALLOC", DONE, "jemalloc", SERVER, JEMALLOC},
	{"SRV-JEMALLOC", NOT_DONE, "served by glibc", SERVER, GLIBC},
	{"SRV-JEMALLOC", NOT_DONE, "requested", SERVER, GLIBC, .name = "LD_PRELOAD",
	 .value = "/x/libjemalloc.so.2"},
	{"SRV-JEMALLOC", UNKNOWN, "environment", SERVER, .rounds = 0},
	{"SRV-MONITOR", DONE, "9 rounds", SERVER, RECORDED(FLAT, 9)},
	{"SRV-MONITOR", UNKNOWN, "not known", SERVER, GLIBC},
	{"CLI-CLEAR-CACHE", DONE, "send()", CLIENT, GLIBC, .clear_cache = KNOWN(1)},
	{"CLI-CLEAR-CACHE", NOT_DONE, "False", CLIENT, GLIBC, .clear_cache = KNOWN(0)},
	{"CLI-CLEAR-CACHE", UNKNOWN, "value unknown", CLIENT, GLIBC},
	{"CLI-CLEAR-CACHE", NEEDLESS, "flower", CLIENT, FLMEM_FRAMEWORK_FLOWER, GLIBC},
	{"CLI-GC", DONE, "is 1", CLIENT, GLIBC, .client_rounds = KNOWN(1)},
	{"CLI-GC", NOT_DONE, "is 10 in the job, above", CLIENT, GLIBC,
	 .client_rounds = KNOWN(10)},
	{"CLI-GC", NOT_DONE, "is 0", CLIENT, GLIBC, .client_rounds = KNOWN(0)},
	{"CLI-GC", UNKNOWN, "client unknown", CLIENT, GLIBC},
	{"CLI-GC", DONE, "is 3 in its environment", FLMEM_ROLE_TRAINER, GLIBC,
	 .name = "NVFLARE_CLIENT_MEMORY_GC_ROUNDS", .value = "3", .client_rounds = KNOWN(0)},
	{"CLI-GC", NOT_DONE, "is 0 in its environment", FLMEM_ROLE_TRAINER, GLIBC,
	 .name = "NVFLARE_CLIENT_MEMORY_GC_ROUNDS", .value = "-1", .client_rounds = KNOWN(1)},
	{"CLI-GC", DONE, "is 1 in the job", CLIENT, GLIBC,
	 .name = "NVFLARE_CLIENT_MEMORY_GC_ROUNDS", .value = "0", .client_rounds = KNOWN(1)},
	{"CLI-INTERVAL", DONE, "is 5", FLMEM_ROLE_TRAINER, GLIBC,
	 .name = "NVFLARE_CLIENT_MEMORY_GC_ROUNDS", .value = "5", .client_rounds = KNOWN(1)},
	{"CLI-INTERVAL", DONE, "is 5", CLIENT, GLIBC, .client_rounds = KNOWN(5)},
	{"CLI-INTERVAL", UNKNOWN, "recording", CLIENT, GLIBC, .client_rounds = KNOWN(1)},
	{"CLI-INTERVAL", UNKNOWN, "3 rounds", CLIENT, .client_rounds = KNOWN(1),
	 RECORDED(TOO_EARLY, 3)},
	{"CLI-INTERVAL", NEEDLESS, "climbing", CLIENT, .client_rounds = KNOWN(1),
	 RECORDED(CLIMBING, 20)},
	{"CLI-INTERVAL", NEEDLESS, "memory was short", CLIENT, .client_rounds = KNOWN(1),
	 RECORDED(FLAT, 20), .max = 1},
	{"CLI-INTERVAL", UNKNOWN, "flat", CLIENT, RECORDED(FLAT, 20)},
	{"CLI-INTERVAL", DONE, "is 5", CLIENT, .client_rounds = KNOWN(5), RECORDED(FLAT, 20)},
	{"CLI-INTERVAL", NOT_DONE, "not stable at memory_gc_rounds 5", CLIENT,
	 .client_rounds = KNOWN(5), RECORDED(CLIMBING, 20)},
	{"CLI-INTERVAL", NOT_DONE, "not stable at memory_gc_rounds 2", CLIENT,
	 .client_rounds = KNOWN(2), RECORDED(FLAT, 20), .max = 1},
	{"CLI-INTERVAL", NOT_DONE, "is 10 now, above", CLIENT, GLIBC, .client_rounds = KNOWN(10)},
	{"CLI-CUDA", DONE, "true", CLIENT, GLIBC, .cuda = KNOWN(1), .gpu = KNOWN(1)},
	{"CLI-CUDA", NOT_DONE, "512 MiB", CLIENT, GLIBC, .cuda = KNOWN(0),
	 .gpu = KNOWN(512 * (int64_t)MIB)},
	{"CLI-CUDA", NEEDLESS, "no GPU", CLIENT, GLIBC, .cuda = KNOWN(0), .gpu = KNOWN(0)},
	{"CLI-CUDA", UNKNOWN, "never trains", FLMEM_ROLE_CLIENT, GLIBC, .cuda = KNOWN(0),
	 .gpu = KNOWN(0)},
	{"CLI-CUDA", DONE, "true", FLMEM_ROLE_CLIENT, GLIBC, .cuda = KNOWN(1), .gpu = KNOWN(0)},
	{"CLI-CUDA", UNKNOWN, "value unknown", CLIENT, GLIBC, .gpu = KNOWN(1)},
	{"CLI-CUDA", UNKNOWN, "value unknown", CLIENT, GLIBC, .cuda = KNOWN(0)},
	{"CLI-JEMALLOC", DONE, "jemalloc", CLIENT, JEMALLOC},
	{"CLI-JEMALLOC", NOT_DONE, "glibc", CLIENT, GLIBC},
	{"OOM-BATCH", UNKNOWN, "limit 1000 MiB", CLIENT, GLIBC},
	{"OOM-BATCH", NEEDLESS, "does not train", SERVER, GLIBC},
	{"OOM-CLEAR-CACHE", DONE, "send()", CLIENT, GLIBC, .clear_cache = KNOWN(1)},
	{"OOM-CLEAR-CACHE", NOT_DONE, "False", CLIENT, GLIBC, .clear_cache = KNOWN(0)},
	{"OOM-GC", DONE, "is 1", CLIENT, GLIBC, .client_rounds = KNOWN(1),
	 .server_rounds = KNOWN(5)},
	{"OOM-GC", NOT_DONE, "5 for the server", SERVER, GLIBC, .client_rounds = KNOWN(1),
	 .server_rounds = KNOWN(5)},
	{"OOM-GC", NOT_DONE, "5 for the server", FLMEM_ROLE_NONE, GLIBC,
	 .client_rounds = KNOWN(1), .server_rounds = KNOWN(5)},
	{"OOM-GC", NOT_DONE, "2 for the clients", FLMEM_ROLE_NONE, GLIBC,
	 .client_rounds = KNOWN(2)},
	{"OOM-GC", UNKNOWN, "client unknown", CLIENT, GLIBC, .server_rounds = KNOWN(1)},
	{"OOM-GC", UNKNOWN, "server unknown", SERVER, GLIBC, .client_rounds = KNOWN(1)},
	{"OOM-GC", UNKNOWN, "client unknown", FLMEM_ROLE_NONE, GLIBC},
	{"OOM-GC", UNKNOWN, "client unknown", FLMEM_ROLE_NONE, GLIBC, .server_rounds = KNOWN(1)},
	{"OOM-GC", UNKNOWN, "server unknown", FLMEM_ROLE_NONE, GLIBC, .client_rounds = KNOWN(1)},
	{"OOM-GC", DONE, "is 1", FLMEM_ROLE_NONE, GLIBC, .client_rounds = KNOWN(1),
	 .server_rounds = KNOWN(1)},
	{"OOM-LEAKS", DONE, "flat", CLIENT, RECORDED(FLAT, 20)},
	{"OOM-LEAKS", NOT_DONE, "climbing", CLIENT, RECORDED(CLIMBING, 20)},
	{"OOM-LEAKS", UNKNOWN, "stepped", CLIENT, RECORDED(STEPPED, 20)},
	{"OOM-LEAKS", UNKNOWN, "3 rounds", CLIENT, RECORDED(TOO_EARLY, 3)},
	{"OOM-LEAKS", UNKNOWN, "recording", CLIENT, GLIBC},
	{"OOM-JEMALLOC", DONE, DECAY, CLIENT, JEMALLOC, CONF(DECAY)},
	{"OOM-JEMALLOC", NOT_DONE, "not set", CLIENT, JEMALLOC},
	{"OOM-JEMALLOC", NOT_DONE, "glibc", CLIENT, GLIBC},
};
/* clang-format on */

static struct flmem_u64 known_or(int64_t value, const char *unknown)
{
	return value ? FLMEM_KNOWN((uint64_t)(value - 1)) : FLMEM_UNKNOWN(unknown);
}

static struct flmem_u64 known_value(int64_t value)
{
	return known_or(value, "value unknown");
}

static size_t index_of(const char *id)
{
	const struct flmem_troubleshoot_step *step;

	for (size_t i = 0; (step = flmem_troubleshoot_step(i)); i++)
		if (strcmp(step->id, id) == 0)
			return i;
	fail_msg("no step %s", id);
	return 0;
}

static void answer(const struct step_case *row, struct flmem_troubleshoot_answer *ret_answer)
{
	static const char none[] = "none";
	struct flmem_allocator_report allocator = {
		.kind = row->allocator, .serves_malloc = true, .heap = FLMEM_HEAP_UNKNOWN(none)};
	struct flmem_setting_report setting = {.name = (char *)row->name,
					       .value = (char *)row->value};
	struct flmem_process_report process = {
		.pid = 4711,
		.framework = row->framework ? row->framework : FLMEM_FRAMEWORK_NVFLARE,
		.role = row->role,
		.allocators = &allocator,
		.allocator_count = 1,
		.heap = FLMEM_HEAP_UNKNOWN(none),
		.cuda = {.used_bytes = known_value(row->gpu)},
		.settings = &setting,
		.setting_count = row->name != NULL,
		.limit.cgroup_max_bytes = FLMEM_KNOWN(1000 * MIB),
		.limit.headroom_bytes = FLMEM_KNOWN(500 * MIB),
	};
	struct flmem_watch_result recorded = {
		.rounds = row->rounds,
		.trend = {.verdict = row->trend, .reason = "of this test"},
		.pressure_rise = {.max = FLMEM_KNOWN(row->max)},
		.gpu_bytes = known_value(row->gpu),
	};
	FLMEM_AUTO(flmem_recommendations_clear)
	struct flmem_recommendations found = {
		.server_gc_rounds = known_or(row->server_rounds, "server unknown"),
		.client_gc_rounds = known_or(row->client_rounds, "client unknown"),
		.clear_cache = known_value(row->clear_cache),
		.cuda_empty_cache = known_value(row->cuda),
	};
	const struct flmem_version_number release = {0};
	struct flmem_troubleshoot_case one = {
		.role = row->role,
		.framework = process.framework,
		.place = "process 4711",
		.pid = 4711,
		.process = row->allocator || !row->rounds ? &process : NULL,
		.recorded = row->rounds ? &recorded : NULL,
		.found = &found,
	};

	if (!row->allocator && strcmp(row->says, "environment") == 0)
		one.process = NULL;
	if (one.process)
		assert_int_equal(flmem_live_rules_run(&process, &release, &found, NULL), 0);
	flmem_troubleshoot_answer(index_of(row->step), &one, ret_answer);
}

static void each_step_has_the_state_that_its_evidence_gives(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++) {
		struct flmem_troubleshoot_answer got;

		answer(&cases[i], &got);
		if (got.state != cases[i].state || !strstr(got.evidence, cases[i].says))
			fail_msg("row %zu, %s: %s: %s", i, cases[i].step,
				 flmem_step_state_name(got.state), got.evidence);
		if (got.state == FLMEM_STEP_NOT_DONE && !*got.next &&
		    !strstr(cases[i].step, "CLEAR-CACHE"))
			fail_msg("row %zu, %s: nothing to do next", i, cases[i].step);
	}
}

static void every_step_is_tried_in_two_states(void **state)
{
	const struct flmem_troubleshoot_step *step;

	(void)state;
	for (size_t s = 0; (step = flmem_troubleshoot_step(s)); s++) {
		unsigned seen = 0;

		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++)
			if (strcmp(cases[i].step, step->id) == 0)
				seen |= 1U << cases[i].state;
		if (!(seen & (seen - 1)))
			fail_msg("%s", step->id);
	}
}

static void the_lists_are_the_guides_and_fit(void **state)
{
	size_t counts[3] = {0};
	const struct flmem_troubleshoot_step *step;

	(void)state;
	for (size_t i = 0; (step = flmem_troubleshoot_step(i)); i++)
		counts[step->list]++;
	assert_int_equal(counts[FLMEM_TROUBLESHOOT_SERVER], 4);
	assert_int_equal(counts[FLMEM_TROUBLESHOOT_CLIENT], 6);
	assert_int_equal(counts[FLMEM_TROUBLESHOOT_OOM], 5);
	assert_true(6 <= FLMEM_TROUBLESHOOT_STEPS_MAX);
}

/* Kills during a recording choose the list; without any the role decides. */
static void kills_while_it_was_recorded_choose_the_list(void **state)
{
	struct flmem_watch_result result = {.process = {.pid = 7, .role = CLIENT}};
	struct flmem_watch_summary summary = {.results = &result, .count = 1};
	struct flmem_checked_recording recording = {.file = (char[]){"r.rec"}, .summary = &summary};
	struct flmem_recommendations found = FLMEM_RECOMMENDATIONS_INIT;
	struct flmem_troubleshoot_report troubles;

	(void)state;
	found.recordings = &recording;
	found.recording_count = 1;
	for (unsigned kills = 0; kills < 3; kills += 2) {
		result.pressure_rise.oom_kill = FLMEM_KNOWN(kills);
		assert_int_equal(flmem_troubleshoot(NULL, &found, FLMEM_ROLE_NONE, &troubles, NULL),
				 0);
		assert_int_equal(troubles.count, 1);
		assert_int_equal(troubles.evaluations[0].list,
				 kills ? FLMEM_TROUBLESHOOT_OOM : FLMEM_TROUBLESHOOT_CLIENT);
		assert_string_equal(
			troubles.evaluations[0].reason,
			kills ? "the kernel has killed 2 processes in its control group while it "
				"was recorded"
			      : "its role is client-job");
		flmem_troubleshoot_report_clear(&troubles);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_step_has_the_state_that_its_evidence_gives),
		cmocka_unit_test(every_step_is_tried_in_two_states),
		cmocka_unit_test(the_lists_are_the_guides_and_fit),
		cmocka_unit_test(kills_while_it_was_recorded_choose_the_list),
	};

	return cmocka_run_group_tests_name("troubles", tests, NULL, NULL);
}
