/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ops/watching.h"

#define SECOND UINT64_C(1000000)

/* What is told of pressure, a character per sample: '.' nothing, else the times at the limit. */
static bool note(void *context, const struct flmem_watch_sample *sample)
{
	char *told = context;

	told[strlen(told)] =
		sample->pressure ? (char)('0' + (char)sample->pressure->max.value) : '.';
	return true;
}

static void live(const char *path, char *told)
{
	static const uint64_t max[] = {0, 0, 1, 1, 3};
	const struct flmem_watch_options options = {.stop_fd = -1, .record_path = path};
	const struct flmem_watch_callbacks callbacks = {.context = told, .sample = note};
	struct flmem_watch_process id = {.pid = 7, .start_time = 7, .command = strdup("worker")};
	struct flmem_watching w;
	struct flmem_followed *f;

	flmem_watching_init(&w, &options, &callbacks, SECOND);
	f = flmem_followed_new(&id, SECOND, NULL);
	assert_non_null(f);
	assert_int_equal(flmem_watching_add(&w, f, true, &f, NULL), 0);
	assert_int_equal(flmem_watching_record(&w, NULL), 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(max); i++) {
		flmem_watching_tick(&w, i * SECOND, i * SECOND);
		flmem_followed_count(f, i * SECOND, 1 << 20);
		f->pressure = (struct flmem_pressure){.max = FLMEM_KNOWN(max[i])};
		f->pressure_is_new = true;
		flmem_watching_sample(&w, f, i * SECOND, false);
	}
	flmem_recorder_flush(&w.recorder);
	flmem_watching_clear(&w);
}

/* Also the first, which is all zeros: that nothing is wanting is something known. */
static void pressure_is_told_as_it_changes_live_and_again(void **state)
{
	char path[] = "/tmp/flmem-watching-XXXXXX";
	char told[8] = "", again[8] = "";
	const struct flmem_watch_options options = {.stop_fd = -1};
	const struct flmem_watch_callbacks callbacks = {.context = again, .sample = note};
	struct flmem_watch_summary summary;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	live(path, told);
	assert_string_equal(told, "0.1.3");
	assert_int_equal(flmem_watch_replay(path, &options, &callbacks, &summary, NULL), 0);
	assert_string_equal(again, told);
	flmem_watch_summary_clear(&summary);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pressure_is_told_as_it_changes_live_and_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
