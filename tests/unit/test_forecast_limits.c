/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the memory that a process has left, and growth that exceeds a limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/watch/forecast_state.h"
#include "proc/limits/cgroup.h"
#include "proc/process.h"
#include "tree.h"

#define PID    77
#define SECOND UINT64_C(1000000)
#define HOUR   (UINT64_C(3600) * SECOND)
#define MIB    (UINT64_C(1) << 20)
#define MOUNT  "41 31 0:38 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"

static struct flmem_watched_process *new_process(void)
{
	struct flmem_watch_process id = {.pid = PID, .command = strdup("worker")};
	struct flmem_watched_process *f = flmem_watched_process_new(&id, SECOND, NULL);

	assert_non_null(f);
	flmem_round_stats_init(&f->rounds, SECOND, false);
	return f;
}

static void clear_result(struct flmem_watch_result *result)
{
	free((char *)result->process.command);
	result->process.command = NULL;
}

static void put_group(const struct tree *tree, const char *limit)
{
	tree_process(tree, PID, 1);
	tree_puts(tree, "proc/self/mountinfo", MOUNT);
	tree_puts(tree, "proc/77/cgroup", "0::/a\n");
	tree_puts(tree, "sys/fs/cgroup/a/cgroup.procs", "77\n");
	tree_puts(tree, "sys/fs/cgroup/a/memory.max", limit);
	tree_puts(tree, "sys/fs/cgroup/a/memory.current", "600\n");
}

/* Returns the result of a process in a group of 1000 bytes, of which 600 are used. */
static struct flmem_watch_result in_group(const struct tree *tree, struct flmem_u64 host_left,
					  bool ended)
{
	FLMEM_AUTO_WATCHED_PROCESS struct flmem_watched_process *f = new_process();
	FLMEM_AUTO(flmem_forecast_limits_close)
	struct flmem_forecast_limits limits = {.host_total = FLMEM_KNOWN(5000),
					       .host_left = host_left};
	FLMEM_AUTO_CLOSE int proc = openat(tree->fd, "proc", O_RDONLY | O_DIRECTORY);
	struct flmem_watch_result result;

	assert_int_equal(flmem_process_open_at(proc, PID, &f->process, NULL), 0);
	assert_int_equal(flmem_cgroups_open_at(tree->fd, &limits.cgroups, NULL), 0);
	f->ended = ended;
	flmem_forecast_of(&limits, NULL, f, &result);
	clear_result(&result);
	return result;
}

static void assert_left(const struct flmem_watch_result *result, bool group, uint64_t limit,
			uint64_t left)
{
	assert_int_equal(result->limit_is_cgroup, group);
	assert_null(result->limit_bytes.unknown);
	assert_int_equal(result->limit_bytes.value, limit);
	assert_null(result->headroom_bytes.unknown);
	assert_int_equal(result->headroom_bytes.value, left);
}

/* The lower one counts; if equal, the group's, as that kills. */
static void the_nearest_of_group_and_host_is_the_limit(void **state)
{
	const struct tree *tree = *state;
	struct flmem_watch_result result;

	put_group(tree, "1000\n");
	result = in_group(tree, FLMEM_KNOWN(399), false);
	assert_left(&result, false, 5000, 399);
	result = in_group(tree, FLMEM_KNOWN(400), false);
	assert_left(&result, true, 1000, 400);
	result = in_group(tree, FLMEM_KNOWN(3000), false);
	assert_left(&result, true, 1000, 400);
	result = in_group(tree, FLMEM_UNKNOWN("x"), false);
	assert_left(&result, true, 1000, 400);
	put_group(tree, "max\n");
	result = in_group(tree, FLMEM_KNOWN(3000), false);
	assert_left(&result, false, 5000, 3000);
}

static void what_has_ended_or_is_recorded_has_no_limit(void **state)
{
	const struct tree *tree = *state;
	struct flmem_watch_result result;
	FLMEM_AUTO_WATCHED_PROCESS struct flmem_watched_process *f = new_process();
	struct flmem_forecast_limits none = {0};

	put_group(tree, "1000\n");
	result = in_group(tree, FLMEM_KNOWN(399), true);
	assert_false(result.limit_is_cgroup);
	assert_string_equal(result.limit_bytes.unknown, "the process has ended");
	assert_string_equal(result.headroom_bytes.unknown, "the process has ended");
	flmem_forecast_of(&none, NULL, f, &result);
	clear_result(&result);
	assert_string_equal(result.headroom_bytes.unknown, "recordings do not contain it");
}

/*
 * Returns a process that grows by 1 MiB a second for 1000, with one sample that is `above` the last
 * one.
 */
static struct flmem_watch_result growing(const struct tree *tree, uint64_t above, uint64_t at)
{
	FLMEM_AUTO_WATCHED_PROCESS struct flmem_watched_process *f = new_process();
	FLMEM_AUTO(flmem_forecast_limits_close)
	struct flmem_forecast_limits limits = {.host_total = FLMEM_KNOWN(5000 * MIB),
					       .host_left = FLMEM_KNOWN(1000 * MIB)};
	FLMEM_AUTO_CLOSE int proc = openat(tree->fd, "proc", O_RDONLY | O_DIRECTORY);
	struct flmem_watch_result result;

	for (uint64_t i = 0; i <= 1000; i++)
		flmem_watched_process_count(f, i * SECOND,
					    i == at ? 1100 * MIB + above : (100 + i) * MIB);
	assert_int_equal(flmem_process_open_at(proc, PID, &f->process, NULL), 0);
	assert_int_equal(flmem_cgroups_open_at(tree->fd, &limits.cgroups, NULL), 0);
	flmem_forecast_of(&limits, NULL, f, &result);
	clear_result(&result);
	assert_int_equal(result.trend.verdict, FLMEM_TREND_CLIMBING);
	return result;
}

/* Checks that its forecast is the one for the rest at the highest recent sample. */
static void assert_forecast_of(const struct flmem_watch_result *result, uint64_t left)
{
	struct flmem_forecast expected;

	flmem_trend_forecast(&result->trend, FLMEM_KNOWN(left), &expected);
	assert_null(result->forecast.exhausted_in_s.unknown);
	assert_int_equal(result->forecast.exhausted_in_s.value, expected.exhausted_in_s.value);
	assert_int_equal(result->forecast.exhausted_earliest_s.value,
			 expected.exhausted_earliest_s.value);
	assert_int_equal(result->headroom_bytes.value, 1000 * MIB);
}

/*
 * Samples of the last quarter of the watch count, as far as they are kept; the rest is never below
 * 0.
 */
static void the_highest_recent_sample_is_subtracted(void **state)
{
	const struct tree *tree = *state;
	struct flmem_watch_result result;

	tree_process(tree, PID, 1);
	tree_puts(tree, "proc/self/mountinfo", "");
	tree_puts(tree, "proc/77/cgroup", "");
	result = growing(tree, 0, 1000);
	assert_forecast_of(&result, 1000 * MIB);
	result = growing(tree, 300 * MIB, 950);
	assert_forecast_of(&result, 700 * MIB);
	result = growing(tree, 300 * MIB, 800);
	assert_forecast_of(&result, 700 * MIB);
	result = growing(tree, 300 * MIB, 100);
	assert_forecast_of(&result, 1000 * MIB);
	result = growing(tree, 2000 * MIB, 950);
	assert_forecast_of(&result, 0);
}

/*
 * Makes a process that grew once by 64 MiB, in the middle of so many hours, or of so many rounds.
 */
static const char *undecided_after_step(uint64_t hours, unsigned rounds,
					struct flmem_growth_limit limit)
{
	FLMEM_AUTO_WATCHED_PROCESS struct flmem_watched_process *f = new_process();
	const struct flmem_watch_options options = {.stop_fd = -1, .fail_growth = limit};
	struct flmem_forecast_limits none = {0};
	struct flmem_watch_result result;
	const unsigned samples = 600;

	for (unsigned i = 0; i <= samples; i++) {
		uint64_t now = i * (hours * HOUR / samples);
		uint64_t bytes = (i < samples / 2 ? 100 : 164) * MIB;
		struct flmem_watch_round round;

		if (rounds && i % (samples / rounds) == 0) {
			flmem_round_stats_finish(&f->rounds, now, &round);
			flmem_round_stats_start(&f->rounds, now, i / (samples / rounds), &round);
		}
		flmem_watched_process_count(f, now, bytes);
		flmem_round_stats_sample(&f->rounds, now, bytes, &round);
	}
	flmem_forecast_of(&none, &options, f, &result);
	clear_result(&result);
	assert_int_equal(result.trend.verdict, FLMEM_TREND_STEPPED);
	assert_int_equal(result.trend.basis, rounds ? FLMEM_TREND_BY_ROUND : FLMEM_TREND_BY_HOUR);
	return result.undecided;
}

static bool is_of_steps(const char *undecided)
{
	return undecided && strstr(undecided, "in steps");
}

/* 64 MiB in 8 hours are 8 MiB an hour; without rounds a limit for each is not decided. */
static void a_step_above_the_limit_is_undecided(void **state)
{
	const struct flmem_growth_limit none = {0}, below = {.per_hour_bytes = 7 * MIB},
					above = {.per_hour_bytes = 9 * MIB},
					little = {.per_round_bytes = MIB},
					much = {.per_round_bytes = 3 * MIB};

	(void)state;
	assert_null(undecided_after_step(8, 0, none));
	assert_true(is_of_steps(undecided_after_step(8, 0, below)));
	assert_false(is_of_steps(undecided_after_step(8, 0, above)));
	assert_true(is_of_steps(undecided_after_step(8, 0, much)));
	/* 64 MiB in some 30 rounds are about 2 MiB for each. */
	assert_true(is_of_steps(undecided_after_step(8, 30, little)));
	assert_false(is_of_steps(undecided_after_step(8, 30, much)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_nearest_of_group_and_host_is_the_limit,
						tree_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(what_has_ended_or_is_recorded_has_no_limit,
						tree_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(the_highest_recent_sample_is_subtracted, tree_setup,
						tree_teardown),
		cmocka_unit_test(a_step_above_the_limit_is_undecided),
	};

	return cmocka_run_group_tests_name("forecast_limits", tests, NULL, NULL);
}
