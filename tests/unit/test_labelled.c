/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what is reported of recordings of real processes whose behaviour is known;
 * tests/recordings/make makes them.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/watch.h>

#include "base/cleanup.h"

#define BASE_KIB 32768U

static struct flmem_trend trend_of(const char *name)
{
	const struct flmem_watch_options options = {.stop_fd = -1};
	const struct flmem_watch_callbacks callbacks = {0};
	struct flmem_watch_summary summary;
	struct flmem_error err = {0};
	struct flmem_trend trend;
	char path[512];

	snprintf(path, sizeof(path), RECORDINGS "/%s", name);
	if (flmem_watch_replay(path, &options, &callbacks, &summary, &err))
		fail_msg("%s: %s", name, err.message);
	assert_int_equal(summary.count, 1);
	trend = summary.results[0].trend;
	flmem_watch_summary_clear(&summary);
	return trend;
}

/* Returns the tenths of a percent that a leak keeps in each round; 0: no leak. */
static unsigned long leak_of(const char *name)
{
	if (strncmp(name, "stairs", 6) == 0)
		return strtoul(name + 6, NULL, 10);
	return strncmp(name, "leak", 4) == 0 ? strtoul(name + 4, NULL, 10) : 0;
}

/*
 * Reports a leak in steps that was watched for less than its period. It looks flat, but not surely.
 */
static bool is_begun(const char *name)
{
	return strncmp(name, "begun", 5) == 0;
}

static bool is_right(const char *name, const struct flmem_trend *trend)
{
	unsigned long leak = leak_of(name);
	double expected = (double)leak * BASE_KIB * 1024 / 1000, found;

	if (is_begun(name) && trend->confidence > 0.93)
		return false;
	if (!leak)
		return trend->verdict != FLMEM_TREND_CLIMBING;
	found = (double)trend->growth_per_round_bytes.value;
	return trend->verdict == FLMEM_TREND_CLIMBING && found > expected * 0.85 &&
	       found < expected * 1.15;
}

static void every_label_is_recognised(void **state)
{
	FLMEM_AUTO_DIR DIR *directory = opendir(RECORDINGS);
	size_t count = 0, wrong = 0;

	(void)state;
	assert_non_null(directory);
	for (struct dirent *entry; (entry = readdir(directory));) {
		struct flmem_trend trend;

		if (!strstr(entry->d_name, ".rec"))
			continue;
		trend = trend_of(entry->d_name);
		count++;
		if (is_right(entry->d_name, &trend))
			continue;
		wrong++;
		print_message("%s: %s, %lld bytes a round: %s\n", entry->d_name,
			      flmem_trend_verdict_name(trend.verdict),
			      (long long)trend.growth_per_round_bytes.value, trend.reason);
	}
	assert_true(count >= 84);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_label_is_recognised),
	};

	return cmocka_run_group_tests_name("labelled", tests, NULL, NULL);
}
