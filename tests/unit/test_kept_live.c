/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares findings about processes and recordings, and the answers of the troubleshooting lists,
 * with kept texts (kept.h). The states look random, are often at the limits, and are the same in
 * every run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/recommend.h>
#include <flmem/watch.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "frameworks/framework.h"
#include "frameworks/troubleshooting.h"
#include "kept.h"
#include "ops/recommend/recommend_recording.h"
#include "rules/rules.h"
#include "series.h"

#define MIB	     (UINT64_C(1) << 20)
#define SETTINGS_MAX 12
#define STATES	     500

/* A process, its recording, and the settings of the jobs beside it. */
struct scene {
	uint64_t state;
	struct flmem_allocator_report allocators[2];
	struct flmem_setting_report settings[SETTINGS_MAX];
	struct flmem_process_report process;
	struct flmem_watch_result recorded;
	const char *version;
};

static size_t pick_index(struct scene *s, size_t count)
{
	return (size_t)(noise_uniform(&s->state) * (double)count);
}

#define PICK(s, type, ...) \
	((const type[]){   \
		__VA_ARGS__}[pick_index((s), sizeof((const type[]){__VA_ARGS__}) / sizeof(type))])

static bool chance(struct scene *s, double share)
{
	return noise_uniform(&s->state) < share;
}

static struct flmem_u64 mebibytes(struct scene *s)
{
	if (chance(s, 0.15))
		return FLMEM_UNKNOWN("none");
	return FLMEM_KNOWN(
		PICK(s, uint64_t, 0, 1, 63, 64, 65, 99, 100, 101, 199, 200, 201, 999, 1000, 1001) *
		MIB);
}

static void add_setting(struct scene *s, const char *name, const char *value)
{
	s->settings[s->process.setting_count++] =
		(struct flmem_setting_report){.name = (char *)(uintptr_t)name,
					      .value = (char *)(uintptr_t)value,
					      .source = "environment"};
}

/* Lists each variable with its values; about a quarter of them is set. */
static void fill_settings(struct scene *s)
{
	s->process.settings = s->settings;
	if (chance(s, 0.5))
		add_setting(s, "MALLOC_ARENA_MAX",
			    PICK(s, char *const, "0", "1", "2", "3", "4", "5", "8", "9", "", "x"));
	if (chance(s, 0.3))
		add_setting(s, "GLIBC_TUNABLES",
			    PICK(s, char *const, "glibc.malloc.arena_max=2",
				 "glibc.malloc.arena_max=0", "glibc.malloc.hugetlb=1",
				 "glibc.malloc.hugetlb=0", "glibc.malloc.tcache_max=1032",
				 "glibc.malloc.tcache_max=1033", "x=1"));
	if (chance(s, 0.3))
		add_setting(s, "LD_PRELOAD",
			    PICK(s, char *const, "/l/libjemalloc.so.2", "/l/libtcmalloc.so", ""));
	if (chance(s, 0.3))
		add_setting(s, "MALLOC_CONF",
			    PICK(s, char *const, "dirty_decay_ms:5000,muzzy_decay_ms:5000",
				 "dirty_decay_ms:5000", "muzzy_decay_ms:5000",
				 "dirty_decay_ms:-1,muzzy_decay_ms:0", "narenas:2"));
	if (chance(s, 0.2))
		add_setting(s, "NVFLARE_ENABLE_JEMALLOC_PRELOAD",
			    PICK(s, char *const, "true", "false", "True"));
	if (chance(s, 0.3))
		add_setting(s, "NVFLARE_CLIENT_MEMORY_GC_ROUNDS",
			    PICK(s, char *const, "0", "1", "2", "5", "6", "-1", "two", ""));
	if (chance(s, 0.1))
		add_setting(s, "NVFLARE_CLIENT_API_BOOTSTRAP", "/b.json");
	if (chance(s, 0.2))
		add_setting(s, "NVFLARE_CLIENT_MEMORY_PROFILE",
			    PICK(s, char *const, "1", "true", "yes", "0"));
	if (chance(s, 0.2))
		add_setting(s, "TMPDIR", "/x\033");
	if (chance(s, 0.1))
		add_setting(s, "PYTHONMALLOC",
			    PICK(s, char *const, "mimalloc", "mimalloc_debug", "malloc"));
	if (chance(s, 0.1))
		s->process.settings_unknown = "denied";
}

static const char *version_of(struct scene *s, enum flmem_allocator_kind kind)
{
	if (kind == FLMEM_ALLOCATOR_JEMALLOC)
		return PICK(s, char *const, "5.3.0-0-g54", "5.0.0-0-g1", "4.5.0-0-g04",
			    "3.6.0-0-g46", NULL);
	return PICK(s, char *const, "2.34", "2.35", "2.36", "2.41", "2.42", "2.43", NULL);
}

/* One statement per number: the compiler chooses the order within an initialiser. */
static void fill_allocators(struct scene *s)
{
	enum flmem_allocator_kind kind =
		PICK(s, enum flmem_allocator_kind, FLMEM_ALLOCATOR_GLIBC, FLMEM_ALLOCATOR_GLIBC,
		     FLMEM_ALLOCATOR_GLIBC, FLMEM_ALLOCATOR_JEMALLOC, FLMEM_ALLOCATOR_JEMALLOC,
		     FLMEM_ALLOCATOR_TCMALLOC, FLMEM_ALLOCATOR_MIMALLOC, FLMEM_ALLOCATOR_MUSL,
		     FLMEM_ALLOCATOR_UNKNOWN);

	s->allocators[0] = (struct flmem_allocator_report){.kind = FLMEM_ALLOCATOR_GLIBC,
							   .heap = FLMEM_HEAP_UNKNOWN("none")};
	s->allocators[1] =
		(struct flmem_allocator_report){.kind = kind, .heap = FLMEM_HEAP_UNKNOWN("none")};
	s->allocators[1].version = (char *)(uintptr_t)version_of(s, kind);
	s->allocators[1].serves_malloc = !chance(s, 0.1);
	s->process.allocators = s->allocators;
	s->process.allocator_count = 2;
	s->process.heap = FLMEM_HEAP_UNKNOWN("none");
	s->process.heap.trimmable_bytes = mebibytes(s);
	if (chance(s, 0.5))
		s->process.heap.arenas = FLMEM_KNOWN(PICK(s, uint64_t, 1, 2, 3, 4, 5, 9));
	s->allocators[0].heap.arenas = s->allocators[1].heap.arenas = s->process.heap.arenas;
}

static void fill_process(struct scene *s)
{
	static const char *const pythons[] = {NULL,	"3.13.9", "3.14.0", "3.14.4",
					      "3.14.5", "3.15.0", "3.14",   ""};
	static const char *const commands[] = {
		NULL, "flower-superlink --insecure",
		"flower-superlink --database :memory:", "flower-superlink --database=a.db",
		"flower-supernode --database"};
	struct flmem_process_report *p = &s->process;

	*p = (struct flmem_process_report){.pid = 4711};
	p->framework = PICK(s, enum flmem_framework, FLMEM_FRAMEWORK_NVFLARE,
			    FLMEM_FRAMEWORK_NVFLARE, FLMEM_FRAMEWORK_FLOWER, FLMEM_FRAMEWORK_APPFL);
	p->role = PICK(s, enum flmem_role, FLMEM_ROLE_NONE, FLMEM_ROLE_SERVER,
		       FLMEM_ROLE_SERVER_JOB, FLMEM_ROLE_CLIENT, FLMEM_ROLE_CLIENT_JOB,
		       FLMEM_ROLE_CLIENT_JOB, FLMEM_ROLE_TRAINER, FLMEM_ROLE_TRAINER,
		       FLMEM_ROLE_SIMULATOR_SERVER, FLMEM_ROLE_SIMULATOR_CLIENT);
	p->command = (char *)(uintptr_t)commands[pick_index(s, FLMEM_ARRAY_SIZE(commands))];
	p->memory.rss_bytes = mebibytes(s);
	p->memory.thp_bytes = mebibytes(s);
	p->python.version = (char *)(uintptr_t)pythons[pick_index(s, FLMEM_ARRAY_SIZE(pythons))];
	p->limit.cgroup_max_bytes = mebibytes(s);
	p->limit.headroom_bytes = mebibytes(s);
	p->cuda.used_bytes = chance(s, 0.3) ? mebibytes(s) : FLMEM_KNOWN(0);
	p->temporary_in_memory =
		chance(s, 0.2) ? FLMEM_UNKNOWN("none") : FLMEM_KNOWN(chance(s, 0.5));
	fill_allocators(s);
	fill_settings(s);
}

static struct flmem_u64 small(struct scene *s)
{
	return chance(s, 0.2) ? FLMEM_UNKNOWN("untold")
			      : FLMEM_KNOWN(PICK(s, uint64_t, 0, 1, 2, 3, 4, 5, 6, 10));
}

static struct flmem_u64 risen(struct scene *s)
{
	return chance(s, 0.8)	? FLMEM_KNOWN(0)
	       : chance(s, 0.5) ? FLMEM_KNOWN(PICK(s, uint64_t, 1, 2))
				: FLMEM_UNKNOWN("none");
}

static void fill_trend(struct scene *s, struct flmem_trend *trend)
{
	trend->verdict = PICK(s, enum flmem_trend_verdict, FLMEM_TREND_FLAT, FLMEM_TREND_FLAT,
			      FLMEM_TREND_FLAT, FLMEM_TREND_CLIMBING, FLMEM_TREND_FALLING,
			      FLMEM_TREND_STEPPED, FLMEM_TREND_TOO_EARLY);
	trend->basis = chance(s, 0.7) ? FLMEM_TREND_BY_ROUND : FLMEM_TREND_BY_HOUR;
	trend->reason = "of this test";
	trend->growth_per_round_bytes.value = PICK(s, int64_t, -1, 0, 1, 3 << 20);
	trend->growth_per_hour_bytes.value = PICK(s, int64_t, -1, 0, 5 << 20);
}

static void fill_recorded(struct scene *s)
{
	struct flmem_watch_result *r = &s->recorded;
	const uint64_t week = UINT64_C(7) * 24 * 3600;

	*r = (struct flmem_watch_result){.process = {.pid = 4711,
						     .framework = s->process.framework,
						     .role = s->process.role}};
	r->rounds = PICK(s, uint64_t, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 20);
	fill_trend(s, &r->trend);
	r->limit_bytes = mebibytes(s);
	r->limit_is_cgroup = chance(s, 0.5);
	r->headroom_bytes = mebibytes(s);
	r->gpu_bytes = mebibytes(s);
	r->pressure_rise.high = risen(s);
	r->pressure_rise.max = risen(s);
	r->pressure_rise.oom = risen(s);
	r->pressure_rise.oom_kill = risen(s);
	r->forecast.exhausted_in_s = r->forecast.exhausted_earliest_s = FLMEM_UNKNOWN("none");
	if (chance(s, 0.5))
		r->forecast.exhausted_in_s =
			FLMEM_KNOWN(PICK(s, uint64_t, 60, week - 1, week, week + 1));
	if (chance(s, 0.5))
		r->forecast.exhausted_earliest_s = FLMEM_KNOWN(PICK(s, uint64_t, 30, 60, week));
}

static void fill_found(struct scene *s, struct flmem_recommendations *found)
{
	found->server_gc_rounds = small(s);
	found->client_gc_rounds = small(s);
	found->clear_cache = chance(s, 0.3) ? FLMEM_UNKNOWN("untold") : FLMEM_KNOWN(chance(s, 0.5));
	found->cuda_empty_cache =
		chance(s, 0.3) ? FLMEM_UNKNOWN("untold") : FLMEM_KNOWN(chance(s, 0.5));
	found->disk_offload = chance(s, 0.5);
	if (!chance(s, 0.3))
		return;
	found->trainers.count = pick_index(s, 3);
	found->trainers.unclear = pick_index(s, 2);
	found->trainers.gc_lowest = pick_index(s, 3);
	found->trainers.gc_highest = 2 + pick_index(s, 2);
	found->trainers.cuda_count = pick_index(s, 3);
}

static void fill_scene(struct scene *s, uint64_t seed)
{
	*s = (struct scene){.state = seed * 2654435761U + 17};
	fill_process(s);
	fill_recorded(s);
	s->version = PICK(s, char *const, NULL, NULL, "2.7.1", "2.7.2", "2.8", "2.9");
}

static void put_found(struct flmem_buf *out, const struct flmem_recommendations *found)
{
	for (size_t i = 0; i < found->finding_count; i++) {
		const struct flmem_finding *f = &found->findings[i];
		size_t own = strlen(f->rule->message);

		flmem_buf_printf(out, " %s %c %s %s -> %s%s\n", f->rule->id,
				 *flmem_severity_name(f->severity), f->path,
				 f->current ? f->current : "-", f->proposed ? f->proposed : "-",
				 strlen(f->message) > own ? f->message + own : "");
	}
}

static void put_process(uint64_t seed, struct flmem_buf *out)
{
	struct flmem_recommendations jobs = {0}, found = {0};
	struct flmem_recommend_options options = {.beside = &jobs};
	struct flmem_detect_report report = {.process_count = 1};
	struct scene s;

	fill_scene(&s, seed);
	fill_found(&s, &jobs);
	options.framework_version = s.version;
	report.processes = &s.process;
	assert_int_equal(flmem_recommend_processes(&report, &options, &found, NULL), 0);
	flmem_buf_printf(out, "%d\n", (int)seed);
	put_found(out, &found);
	for (size_t i = 0; i < found.problem_count; i++)
		flmem_buf_printf(out, " %s\n", found.problems[i].message);
	flmem_recommendations_clear(&found);
}

static void processes_are_as_kept(void **state)
{
	(void)state;
	kept_compare_seeds("live", STATES, 20000, put_process);
}

static void put_recording(uint64_t seed, struct flmem_buf *out)
{
	struct flmem_recommendations found = {0};
	struct flmem_version_number release = {0};
	struct scene s;

	fill_scene(&s, seed);
	fill_found(&s, &found);
	if (s.version)
		assert_int_equal(flmem_version_number_parse(s.version, &release, NULL), 0);
	assert_int_equal(flmem_recommend_recorded(&s.recorded, chance(&s, 0.5) ? &s.process : NULL,
						  "r.rec", &release, &found, NULL),
			 0);
	flmem_buf_printf(out, "%d\n", (int)seed);
	put_found(out, &found);
	flmem_recommendations_clear(&found);
}

static void recordings_are_as_kept(void **state)
{
	(void)state;
	kept_compare_seeds("recorded", STATES, 20000, put_recording);
}

static void put_answer(struct flmem_buf *out, size_t step,
		       const struct flmem_troubleshoot_case *one)
{
	struct flmem_troubleshoot_answer answer;

	flmem_troubleshoot_answer(step, one, &answer);
	flmem_buf_printf(out, " %s %s: %s | %s\n", flmem_troubleshoot_step(step)->id,
			 flmem_step_state_name(answer.state), answer.evidence, answer.next);
}

static void put_answers(uint64_t seed, struct flmem_buf *out)
{
	struct flmem_recommendations found = {0};
	struct flmem_version_number release = {0};
	struct flmem_troubleshoot_case one = {.place = "process 4711", .pid = 4711};
	struct scene s;

	fill_scene(&s, seed);
	fill_found(&s, &found);
	one.role = s.process.role;
	one.framework = s.process.framework;
	one.process = chance(&s, 0.8) ? &s.process : NULL;
	one.recorded = chance(&s, 0.6) ? &s.recorded : NULL;
	one.found = &found;
	assert_int_equal(flmem_live_rules_run(&s.process, &release, &found, NULL), 0);
	flmem_buf_printf(out, "%d\n", (int)seed);
	for (size_t i = seed % 3; flmem_troubleshoot_step(i); i += 3)
		put_answer(out, i, &one);
	flmem_recommendations_clear(&found);
}

static void answers_are_as_kept(void **state)
{
	(void)state;
	kept_compare_seeds("answers", 120, 10000, put_answers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_are_as_kept),
		cmocka_unit_test(recordings_are_as_kept),
		cmocka_unit_test(answers_are_as_kept),
	};

	return cmocka_run_group_tests_name("kept_live", tests, NULL, NULL);
}
