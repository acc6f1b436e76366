/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the state of a process so far: a kept trend is never an outdated one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ops/watch/forecast_state.h"
#include "ops/watch/watch_snapshot.h"

#define SECOND UINT64_C(1000000)
#define MIB    (UINT64_C(1) << 20)

static const struct flmem_watch_options options = {.stop_fd = -1};
static const struct flmem_watch_callbacks callbacks;

static struct flmem_watched_process *new_one(void)
{
	struct flmem_watch_process id = {.pid = getpid(), .command = strdup("worker")};
	struct flmem_watched_process *f = flmem_watched_process_new(&id, SECOND, NULL);

	assert_non_null(f);
	flmem_round_stats_init(&f->rounds, SECOND, false);
	return f;
}

/* Measures the trend without anything kept. */
static struct flmem_trend fresh(const struct flmem_watched_process *f)
{
	struct flmem_trend_point points[FLMEM_HISTORY_POINTS];
	struct flmem_trend trend;

	if (f->rounds.count)
		flmem_trend_measure(f->rounds.points, f->rounds.count, FLMEM_TREND_BY_ROUND,
				    &trend);
	else
		flmem_trend_measure(points, flmem_history_points(&f->history, points),
				    FLMEM_TREND_BY_HOUR, &trend);
	return trend;
}

static void assert_current(struct flmem_watched_process *f)
{
	struct flmem_trend expected = fresh(f), got;

	for (unsigned again = 0; again < 2; again++) {
		flmem_forecast_trend(f, &got);
		assert_int_equal(got.verdict, expected.verdict);
		assert_int_equal(got.basis, expected.basis);
		assert_int_equal(got.points, expected.points);
		assert_string_equal(got.reason, expected.reason);
		assert_int_equal(got.growth_per_hour_bytes.value,
				 expected.growth_per_hour_bytes.value);
		assert_int_equal(got.growth_per_round_bytes.value,
				 expected.growth_per_round_bytes.value);
		assert_true(got.confidence == expected.confidence);
	}
}

static void sample(struct flmem_watched_process *f, uint64_t now_us, uint64_t bytes)
{
	struct flmem_watch_round round;

	flmem_watched_process_count(f, now_us, bytes);
	flmem_round_stats_sample(&f->rounds, now_us, bytes, &round);
}

/* Samples of a process without rounds, then with some, then with trims after them; it grows. */
static void a_kept_trend_is_the_one_that_would_be_measured(void **state)
{
	FLMEM_AUTO_WATCHED_PROCESS struct flmem_watched_process *f = new_one();
	uint64_t now = 0, bytes = 100 * MIB;

	(void)state;
	assert_current(f);
	for (unsigned i = 0; i < 300; i++, now += SECOND) {
		sample(f, now, bytes += MIB / 4);
		if (i % 7 == 0)
			assert_current(f);
	}
	for (unsigned r = 0; r < 300; r++) {
		struct flmem_watch_round round;

		flmem_round_stats_start(&f->rounds, now, r, &round);
		for (unsigned i = 0; i < 4; i++, now += SECOND)
			sample(f, now, bytes + 10 * MIB);
		flmem_round_stats_finish(&f->rounds, now, &round);
		if (r == 100 || r > 150)
			flmem_round_stats_trimmed(&f->rounds);
		assert_current(f);
		for (unsigned i = 0; i < 3; i++, now += SECOND)
			sample(f, now, bytes += MIB / 8);
		assert_current(f);
	}
	assert_int_equal(f->trend.trend.basis, FLMEM_TREND_BY_ROUND);
	assert_int_equal(f->trend.trend.verdict, FLMEM_TREND_CLIMBING);
}

/* A mark in the kept trend shows whether it was measured again. */
static void it_is_measured_once_between_two_samples(void **state)
{
	static const char mark[] = "kept";
	FLMEM_AUTO_WATCHED_PROCESS struct flmem_watched_process *f = new_one();
	struct flmem_trend trend;

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		sample(f, i * SECOND, 100 * MIB);
	flmem_forecast_trend(f, &trend);
	f->trend.trend.reason = mark;
	flmem_forecast_trend(f, &trend);
	assert_ptr_equal(trend.reason, mark);
	sample(f, 100 * SECOND, 100 * MIB);
	flmem_forecast_trend(f, &trend);
	assert_ptr_not_equal(trend.reason, mark);
}

static void assert_read(struct flmem_watch_snapshot *snapshot, const char *because)
{
	struct flmem_watch_snapshot_data state;

	assert_int_equal(flmem_watch_snapshot_read(snapshot, &state, NULL), 0);
	assert_int_equal(state.summary.count, 1);
	assert_string_equal(state.summary.results[0].trend.reason, because);
	flmem_watch_summary_clear(&state.summary);
}

/* Readers compute on copies; the next one finds what one has measured. */
static void readers_of_a_board_share_what_they_measure(void **state)
{
	struct flmem_watch_snapshot *snapshot;
	struct flmem_watch_state watch_state;
	struct flmem_watched_process *f = new_one();

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &f->process, NULL), 0);
	assert_int_equal(flmem_watch_snapshot_new(&snapshot, NULL), 0);
	flmem_watch_state_init(&watch_state, &options, &callbacks, SECOND);
	assert_int_equal(flmem_watch_state_add(&watch_state, f, false, &f, NULL), 0);
	for (unsigned i = 0; i < 100; i++)
		flmem_watched_process_count(f, i * SECOND, 100 * MIB);
	flmem_watch_snapshot_attach(snapshot, &watch_state);
	assert_read(snapshot, fresh(f).reason);
	assert_int_equal(f->trend.version, 100);
	f->trend.trend.reason = "kept";
	assert_read(snapshot, "kept");
	flmem_watched_process_count(f, 100 * SECOND, 100 * MIB);
	assert_read(snapshot, fresh(f).reason);
	flmem_watch_snapshot_detach(snapshot);
	flmem_watch_state_clear(&watch_state);
	flmem_watch_snapshot_free(snapshot);
}

static void a_board_without_a_watch_is_not_read(void **state)
{
	struct flmem_watch_snapshot_data data;
	struct flmem_watch_snapshot *snapshot;
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_watch_snapshot_new(&snapshot, NULL), 0);
	assert_int_equal(flmem_watch_snapshot_read(snapshot, &data, &err), FLMEM_ENOPROC);
	assert_string_equal(err.message, "no watch is running");
	flmem_watch_snapshot_free(snapshot);
}

static void ends_undecided(bool first_ends, bool others, bool undecided)
{
	static const struct flmem_watch_options limited = {.stop_fd = -1,
							   .fail_growth = {.per_hour_bytes = MIB}};
	struct flmem_watch_state w;
	struct flmem_watch_summary summary;
	struct flmem_watched_process *early = new_one(), *flat = new_one();

	flmem_watch_state_init(&w, &limited, &callbacks, 60 * SECOND);
	assert_int_equal(flmem_watch_state_add(&w, early, false, &early, NULL), 0);
	if (others)
		assert_int_equal(flmem_watch_state_add(&w, flat, false, &flat, NULL), 0);
	for (unsigned i = 0; others && i < 600; i++)
		flmem_watched_process_count(flat, i * 60 * SECOND, 100 * MIB);
	flmem_watched_process_count(early, 0, MIB);
	if (first_ends)
		flmem_watch_state_end(&w, early);
	assert_int_equal(flmem_watch_state_finish(&w, false, &summary, NULL), 0);
	assert_int_equal(summary.limit_undecided, undecided);
	flmem_watch_summary_clear(&summary);
	flmem_watch_state_clear(&w);
	if (!others)
		flmem_watched_process_free(flat);
}

/* A process that has ended is not watched longer, unless there is nothing else to judge. */
static void what_has_ended_leaves_a_limit_undecided_only_alone(void **state)
{
	(void)state;
	ends_undecided(true, true, false);
	ends_undecided(false, true, true);
	ends_undecided(true, false, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_kept_trend_is_the_one_that_would_be_measured),
		cmocka_unit_test(it_is_measured_once_between_two_samples),
		cmocka_unit_test(readers_of_a_board_share_what_they_measure),
		cmocka_unit_test(a_board_without_a_watch_is_not_read),
		cmocka_unit_test(what_has_ended_leaves_a_limit_undecided_only_alone),
	};

	return cmocka_run_group_tests_name("forecast_state", tests, NULL, NULL);
}
