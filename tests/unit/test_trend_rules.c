/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the rules about recordings, with recordings of real processes (tests/recordings) whose role
 * and interval of cleanups differ between the rows: for each rule, what triggers it and near
 * misses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include <flmem/recommend.h>
#include <flmem/watch.h>

#include "base/cleanup.h"
#include "findings.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"
#include "ops/recommend/recommend_recording.h"
#include "rules/trend_rules.h"

#define NOT_KNOWN (-1)

struct trend_case {
	const char *rule; /* the rule that the row is about */
	bool triggers;
	const char *recording;
	enum flmem_role role;
	enum flmem_severity severity; /* checked when triggered */
	int64_t gc_rounds;
	uint64_t rounds;    /* complete rounds, if not those of the recording */
	uint64_t max, kill; /* rise of the control group's counters */
	const char *version;
	const char *proposed;  /* checked when triggered */
	uint64_t headroom_mib; /* memory below the limit; 0: unknown */
	const char *says;      /* the end of the message; NULL: any */
	size_t points;	       /* the trend has only so many points; 0: all of the recording */
};

#define SERVER	FLMEM_ROLE_SERVER_JOB
#define CLIENT	FLMEM_ROLE_CLIENT_JOB
#define NO_ROLE FLMEM_ROLE_NONE
#define FLAT	"flat-glibc-1.rec"
#define LEAK	"leak20-glibc-1.rec"
#define STEP	"step-glibc-1.rec"
#define WARNING .severity = FLMEM_SEVERITY_WARNING
#define INFO	.severity = FLMEM_SEVERITY_INFO

static const struct trend_case cases[] = {
	{"NVF-CLI-GC-TUNE", true, FLAT, CLIENT, .gc_rounds = 1, .proposed = "2", INFO},
	{"NVF-CLI-GC-TUNE", true, FLAT, FLMEM_ROLE_TRAINER, .gc_rounds = 2, .proposed = "5", INFO},
	{"NVF-CLI-GC-TUNE", true, FLAT, CLIENT, .gc_rounds = 3, .proposed = "5", INFO},
	{"NVF-CLI-GC-TUNE", true, FLAT, CLIENT, .gc_rounds = 1, .rounds = 6, .proposed = "2", INFO},
	{"NVF-CLI-GC-TUNE", false, FLAT, CLIENT, .gc_rounds = 1, .rounds = 5},
	{"NVF-CLI-GC-TUNE", false, FLAT, CLIENT, .gc_rounds = 2, .rounds = 7},
	{"NVF-CLI-GC-TUNE", true, LEAK, CLIENT, .gc_rounds = 2, .proposed = "1", WARNING},
	{"NVF-CLI-GC-TUNE", true, LEAK, CLIENT, .gc_rounds = 50, .proposed = "1", WARNING},
	{"NVF-CLI-GC-TUNE", true, FLAT, CLIENT, .gc_rounds = 5, .max = 1, .proposed = "1", WARNING},
	{"NVF-CLI-GC-TUNE", false, FLAT, CLIENT, .gc_rounds = 1, .max = 1},
	{"NVF-CLI-GC-TUNE", false, FLAT, CLIENT, .gc_rounds = 5},
	{"NVF-CLI-GC-TUNE", false, FLAT, CLIENT, .gc_rounds = 0},
	{"NVF-CLI-GC-TUNE", false, FLAT, CLIENT, .gc_rounds = NOT_KNOWN},
	{"NVF-CLI-GC-TUNE", false, LEAK, CLIENT, .gc_rounds = 1},
	{"NVF-CLI-GC-TUNE", false, STEP, CLIENT, .gc_rounds = 1},
	{"NVF-CLI-GC-TUNE", false, FLAT, NO_ROLE, .gc_rounds = 1},
	{"NVF-CLI-GC-TUNE", false, LEAK, SERVER, .gc_rounds = 2},
	{"NVF-CLI-GC-TUNE", false, FLAT, CLIENT, .gc_rounds = 1, .version = "2.7.1"},
	{"NVF-SRV-GC-EVERY-ROUND", true, FLAT, SERVER, .gc_rounds = 1, .proposed = "5", INFO},
	{"NVF-SRV-GC-EVERY-ROUND", false, FLAT, SERVER, .gc_rounds = 2},
	{"NVF-SRV-GC-EVERY-ROUND", false, FLAT, SERVER, .gc_rounds = NOT_KNOWN},
	{"NVF-SRV-GC-EVERY-ROUND", false, FLAT, SERVER, .gc_rounds = 1, .max = 1},
	{"NVF-SRV-GC-EVERY-ROUND", false, LEAK, SERVER, .gc_rounds = 1},
	{"NVF-SRV-GC-EVERY-ROUND", false, FLAT, CLIENT, .gc_rounds = 1},
	{"TREND-CLIMBING", true, LEAK, NO_ROLE, .gc_rounds = NOT_KNOWN, WARNING,
	 .says = " KiB each round)"},
	{"TREND-CLIMBING", true, LEAK, CLIENT, .gc_rounds = 2, WARNING, .says = " KiB each round)"},
	{"TREND-CLIMBING", true, LEAK, SERVER, .gc_rounds = 1, WARNING, .says = " KiB each round)"},
	{"TREND-CLIMBING", true, "leak20-jemalloc-2.rec", CLIENT, .gc_rounds = 1, WARNING,
	 .says = " each round; memory_gc_rounds is 1, so the interval is not the cause)"},
	{"TREND-CLIMBING", false, FLAT, NO_ROLE, .gc_rounds = NOT_KNOWN},
	{"TREND-CLIMBING", false, STEP, NO_ROLE, .gc_rounds = NOT_KNOWN},
	{"TREND-CLIMBING", false, "cache-jemalloc-3.rec", NO_ROLE, .gc_rounds = NOT_KNOWN},
	{"TREND-TOO-EARLY", true, LEAK, NO_ROLE, .gc_rounds = NOT_KNOWN, .points = 5, INFO,
	 .says = "(not enough rounds or samples yet)"},
	{"TREND-TOO-EARLY", false, LEAK, NO_ROLE, .gc_rounds = NOT_KNOWN},
	{"TREND-TOO-EARLY", false, FLAT, CLIENT, .gc_rounds = 1},
	{"TREND-EXHAUSTED", true, LEAK, NO_ROLE, .gc_rounds = NOT_KNOWN, .headroom_mib = 100,
	 WARNING, .says = "; the limit of the host is 1 GiB)"},
	{"TREND-EXHAUSTED", true, "leak20-jemalloc-2.rec", CLIENT, .gc_rounds = 1,
	 .headroom_mib = 1000, WARNING},
	{"TREND-EXHAUSTED", true, LEAK, NO_ROLE, .gc_rounds = NOT_KNOWN,
	 .headroom_mib = UINT64_C(1) << 30, INFO},
	{"TREND-EXHAUSTED", false, LEAK, NO_ROLE, .gc_rounds = NOT_KNOWN},
	{"TREND-EXHAUSTED", false, FLAT, NO_ROLE, .gc_rounds = NOT_KNOWN, .headroom_mib = 100},
	{"TREND-EXHAUSTED", false, STEP, NO_ROLE, .gc_rounds = NOT_KNOWN, .headroom_mib = 1},
	{"TREND-LIMIT-MET", true, FLAT, NO_ROLE, .gc_rounds = NOT_KNOWN, .max = 3, WARNING,
	 .says = "(the limit was reached 3 times, 0 processes were killed)"},
	{"TREND-LIMIT-MET", true, FLAT, NO_ROLE, .gc_rounds = NOT_KNOWN, .kill = 1, WARNING,
	 .says = "(the limit was reached 0 times, 1 process was killed)"},
	{"TREND-LIMIT-MET", false, FLAT, NO_ROLE, .gc_rounds = NOT_KNOWN},
};

static void replay(const char *name, struct flmem_watch_summary *ret_summary)
{
	const struct flmem_watch_options options = {.stop_fd = -1};
	const struct flmem_watch_callbacks callbacks = {0};
	struct flmem_error err = {0};
	char path[512];

	snprintf(path, sizeof(path), RECORDINGS "/%s", name);
	if (flmem_watch_replay(path, &options, &callbacks, ret_summary, &err))
		fail_msg("%s: %s", name, err.message);
	assert_int_equal(ret_summary->count, 1);
}

static void run(const struct trend_case *row, struct flmem_recommendations *found)
{
	FLMEM_AUTO(flmem_watch_summary_clear) struct flmem_watch_summary summary = {0};
	struct flmem_u64 interval = row->gc_rounds == NOT_KNOWN
					    ? FLMEM_UNKNOWN("not reported")
					    : FLMEM_KNOWN((uint64_t)row->gc_rounds);
	const struct flmem_trend_point few[FLMEM_TREND_POINTS_MIN] = {0};
	struct flmem_version_number release = {0};
	struct flmem_watch_result *result;
	struct flmem_error err = {0};

	replay(row->recording, &summary);
	result = &summary.results[0];
	result->process.role = row->role;
	result->process.framework = row->role ? FLMEM_FRAMEWORK_NVFLARE : FLMEM_FRAMEWORK_NONE;
	if (row->rounds)
		result->rounds = row->rounds;
	if (row->points)
		flmem_trend_measure(few, row->points, FLMEM_TREND_BY_ROUND, &result->trend);
	result->headroom_bytes = row->headroom_mib ? FLMEM_KNOWN(row->headroom_mib << 20)
						   : FLMEM_UNKNOWN("no limit");
	result->limit_bytes =
		row->headroom_mib ? FLMEM_KNOWN(UINT64_C(1) << 30) : FLMEM_UNKNOWN("no limit");
	flmem_trend_forecast(&result->trend, result->headroom_bytes, &result->forecast);
	result->pressure_rise.max = FLMEM_KNOWN(row->max);
	result->pressure_rise.oom_kill = FLMEM_KNOWN(row->kill);
	found->server_gc_rounds = found->client_gc_rounds = interval;
	if (row->version)
		assert_int_equal(flmem_version_number_parse(row->version, &release, &err), 0);
	assert_int_equal(flmem_recommend_recorded(result, NULL, "r.rec", &release, found, &err), 0);
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), wanted = strlen(end);

	return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

static void check_case(const struct trend_case *row)
{
	FLMEM_AUTO(flmem_recommendations_clear) struct flmem_recommendations found = {0};
	const struct flmem_finding *last;
	size_t count;

	run(row, &found);
	count = findings_of(&found, row->rule, &last);
	if (count != row->triggers)
		fail_msg("%s on %s as %d, interval %d: %zu findings", row->rule, row->recording,
			 row->role, (int)row->gc_rounds, count);
	if (!row->triggers)
		return;
	if (row->says && !ends_with(last->message, row->says))
		fail_msg("%s: %s", row->rule, last->message);
	assert_int_equal(last->severity, row->severity);
	assert_string_equal(last->file, "r.rec");
	assert_ptr_equal(strstr(last->path, "process "), last->path);
	if (row->proposed)
		assert_string_equal(last->proposed, row->proposed);
	else
		assert_null(last->proposed);
}

static void each_rule_has_what_triggers_it_and_near_misses(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++)
		check_case(&cases[i]);
}

static void check_both_ways(const struct flmem_trend_table *table)
{
	for (size_t r = 0; r < table->count; r++) {
		bool triggered = false, missed = false;

		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++) {
			if (strcmp(cases[i].rule, table->rows[r].rule.id) != 0)
				continue;
			triggered |= cases[i].triggers;
			missed |= !cases[i].triggers;
		}
		assert_true(triggered && missed);
	}
}

static void every_rule_is_tried_both_ways(void **state)
{
	(void)state;
	check_both_ways(&flmem_trend_rules);
	check_both_ways(&flmem_nvflare_trend_rules);
}

static void a_client_that_climbs_at_1_has_another_cause(void **state)
{
	static const struct trend_case row = {"", false, LEAK, CLIENT, .gc_rounds = 1};
	FLMEM_AUTO(flmem_recommendations_clear) struct flmem_recommendations found = {0};
	const struct flmem_finding *last = NULL;

	(void)state;
	run(&row, &found);
	assert_int_equal(findings_of(&found, "TREND-CLIMBING", &last), 1);
	assert_true(last && strstr(last->message, "the interval is not the cause"));
}

/*
 * The trainer's environment overrides the job up to NVFlare 2.8; a later one has a bootstrap file.
 */
static void a_live_trainer_has_the_interval_of_its_environment(void **state)
{
	static const struct {
		const char *rounds, *other; /* other: the name of a second setting */
		enum flmem_role role;
		const char *proposed; /* the proposed correction; NULL: no finding */
	} rows[] = {
		{"5", NULL, FLMEM_ROLE_TRAINER, NULL},
		{"2", NULL, FLMEM_ROLE_TRAINER, "5"},
		{"0", NULL, FLMEM_ROLE_TRAINER, NULL},
		{"two", NULL, FLMEM_ROLE_TRAINER, "2"},
		{"5", "NVFLARE_CLIENT_API_BOOTSTRAP", FLMEM_ROLE_TRAINER, "2"},
		{"5", NULL, CLIENT, "2"},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		FLMEM_AUTO(flmem_recommendations_clear)
		struct flmem_recommendations found = {.client_gc_rounds = FLMEM_KNOWN(1)};
		FLMEM_AUTO(flmem_watch_summary_clear) struct flmem_watch_summary summary = {0};
		struct flmem_setting_report settings[] = {
			{.name = (char *)(uintptr_t) "NVFLARE_CLIENT_MEMORY_GC_ROUNDS",
			 .value = (char *)(uintptr_t)rows[i].rounds},
			{.name = (char *)(uintptr_t)rows[i].other,
			 .value = (char *)(uintptr_t) "/b"},
		};
		struct flmem_process_report live = {.framework = FLMEM_FRAMEWORK_NVFLARE,
						    .role = rows[i].role,
						    .settings = settings,
						    .setting_count = rows[i].other ? 2 : 1};
		const struct flmem_version_number any = {0};
		const struct flmem_finding *last = NULL;

		replay(FLAT, &summary);
		summary.results[0].process.framework = FLMEM_FRAMEWORK_NVFLARE;
		summary.results[0].process.role = rows[i].role;
		assert_int_equal(flmem_recommend_recorded(&summary.results[0], &live, "r.rec", &any,
							  &found, NULL),
				 0);
		if (findings_of(&found, "NVF-CLI-GC-TUNE", &last) != (rows[i].proposed ? 1U : 0U) ||
		    (last && rows[i].proposed && strcmp(last->proposed, rows[i].proposed) != 0))
			fail_msg("row %zu: %s", i, last ? last->proposed : "no finding");
	}
}

static int replay_for_recommend(const char *path, struct flmem_watch_summary *ret_summary,
				struct flmem_error *err)
{
	const struct flmem_watch_options options = {.stop_fd = -1};
	const struct flmem_watch_callbacks callbacks = {0};

	return flmem_watch_replay(path, &options, &callbacks, ret_summary, err);
}

/* The library's recommend does not know watch: its caller passes the function that replays. */
static void a_recording_is_read_by_the_function_of_the_caller(void **state)
{
	static const char path[] = RECORDINGS "/" LEAK;
	const char *const paths[] = {path};
	const struct flmem_recommend_options options = {.replay = replay_for_recommend};
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last = NULL;

	(void)state;
	assert_int_equal(flmem_recommend(paths, 1, &options, &found, NULL), 0);
	assert_int_equal(found.problem_count, 0);
	assert_int_equal(found.recording_count, 1);
	assert_int_equal(found.recordings[0].summary->count, 1);
	assert_int_equal(findings_of(&found, "TREND-CLIMBING", &last), 1);
	flmem_recommendations_clear(&found);
	assert_int_equal(flmem_recommend(paths, 1, NULL, &found, NULL), 0);
	assert_int_equal(found.recording_count, 0);
	assert_int_equal(found.problem_count, 1);
	assert_string_equal(found.problems[0].file, path);
	assert_int_equal(found.problems[0].code, FLMEM_EUNSUPPORTED);
	flmem_recommendations_clear(&found);
}

/* One process climbs, the one before it is flat: each has its own findings. */
static void advice_on_a_watch_is_by_process(void **state)
{
	struct flmem_watch_result results[2] = {{.process = {.pid = 1}}, {.process = {.pid = 2}}};
	const struct flmem_watch_summary summary = {.results = results, .count = 2};
	struct flmem_watch_advice advice = {0};

	(void)state;
	results[0].trend.verdict = FLMEM_TREND_FLAT;
	results[1].trend.verdict = FLMEM_TREND_CLIMBING;
	for (size_t i = 0; i < 2; i++) {
		results[i].limit_bytes = FLMEM_UNKNOWN("none");
		results[i].forecast.exhausted_in_s = FLMEM_UNKNOWN("none");
	}
	assert_int_equal(flmem_recommend_watch(&summary, FLMEM_WATCH_RULES_TRENDS, &advice, NULL),
			 0);
	assert_int_equal(advice.rules, FLMEM_WATCH_RULES_TRENDS);
	assert_int_equal(advice.found.finding_count, 1);
	assert_int_equal(advice.spans[0].count, 0);
	assert_int_equal(advice.spans[1].first, 0);
	assert_int_equal(advice.spans[1].count, 1);
	assert_string_equal(advice.found.findings[0].file, "process 2");
	flmem_watch_advice_clear(&advice);
	assert_int_equal(flmem_recommend_watch(&summary, FLMEM_WATCH_RULES_NONE, &advice, NULL), 0);
	assert_int_equal(advice.found.finding_count, 0);
	flmem_watch_advice_clear(&advice);
}

/* A climbing process whose growth is unknown or negative has no amount in its message. */
static void growth_that_is_not_known_is_not_printed(void **state)
{
	static const struct {
		struct flmem_i64 growth;
		const char *says;
	} rows[] = {
		{{.value = 3 << 20}, "3 MiB each hour"},
		{{.value = 0}, "0 B each hour"},
		{{.value = -1}, "an unknown amount each hour"},
		{{.value = 3 << 20, .unknown = "none"}, "an unknown amount each hour"},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_watch_result result = {
			.trend.verdict = FLMEM_TREND_CLIMBING,
			.trend.basis = FLMEM_TREND_BY_HOUR,
			.trend.growth_per_hour_bytes = rows[i].growth,
			.limit_bytes = FLMEM_UNKNOWN("none"),
			.forecast.exhausted_in_s = FLMEM_UNKNOWN("none"),
		};
		const struct flmem_watch_summary summary = {.results = &result, .count = 1};
		struct flmem_watch_advice advice = {0};

		assert_int_equal(
			flmem_recommend_watch(&summary, FLMEM_WATCH_RULES_TRENDS, &advice, NULL),
			0);
		assert_int_equal(advice.found.finding_count, 1);
		if (!strstr(advice.found.findings[0].message, rows[i].says))
			fail_msg("%s", advice.found.findings[0].message);
		flmem_watch_advice_clear(&advice);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_rule_has_what_triggers_it_and_near_misses),
		cmocka_unit_test(every_rule_is_tried_both_ways),
		cmocka_unit_test(a_live_trainer_has_the_interval_of_its_environment),
		cmocka_unit_test(a_client_that_climbs_at_1_has_another_cause),
		cmocka_unit_test(a_recording_is_read_by_the_function_of_the_caller),
		cmocka_unit_test(advice_on_a_watch_is_by_process),
		cmocka_unit_test(growth_that_is_not_known_is_not_printed),
	};

	return cmocka_run_group_tests_name("trend_rules", tests, NULL, NULL);
}
