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

#include "ops/watch/watch_state.h"

#define SECOND UINT64_C(1000000)

/* Notes the reported pressure, a character per sample: '.' nothing, else the times at the limit. */
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
	struct flmem_watch_state w;
	struct flmem_watched_process *f;

	flmem_watch_state_init(&w, &options, &callbacks, SECOND);
	f = flmem_watched_process_new(&id, SECOND, NULL);
	assert_non_null(f);
	assert_int_equal(flmem_watch_state_add(&w, f, true, &f, NULL), 0);
	assert_int_equal(flmem_watch_state_record(&w, NULL), 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(max); i++) {
		flmem_watch_state_tick(&w, i * SECOND, i * SECOND);
		flmem_watched_process_count(f, i * SECOND, 1 << 20);
		f->pressure = (struct flmem_pressure){.max = FLMEM_KNOWN(max[i])};
		f->pressure_is_new = true;
		flmem_watch_state_sample(&w, f, i * SECOND, false);
	}
	flmem_recorder_flush(&w.recorder);
	flmem_watch_state_clear(&w);
}

/* The first report counts, which is all zeros: it is known that there was no pressure. */
static void pressure_is_reported_as_it_changes_live_and_again(void **state)
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

#define DAY (86400 * SECOND)

/* Records samples of one second each while the clock on the wall shows these times. */
static void record_at(const char *path, const uint64_t *at_us, size_t count)
{
	const struct flmem_record process = {.kind = FLMEM_RECORD_PROCESS,
					     .pid = 7,
					     .start_time = 7,
					     .command = "worker",
					     .site = ""};
	const struct flmem_record session = {
		.kind = FLMEM_RECORD_SESSION, .interval_us = SECOND, .at_us = at_us[0]};
	FLMEM_AUTO(flmem_recorder_close)
	struct flmem_recorder recorder = {
		.fd = -1, .block = FLMEM_BUF_INIT, .intro = FLMEM_BUF_INIT};

	assert_int_equal(flmem_recorder_open(path, &recorder, NULL), 0);
	flmem_recorder_add(&recorder, &session);
	flmem_recorder_add(&recorder, &process);
	for (size_t i = 0; i < count; i++) {
		const struct flmem_record tick = {
			.kind = FLMEM_RECORD_TICK, .elapsed_us = i * SECOND, .at_us = at_us[i]};
		const struct flmem_record sample = {.kind = FLMEM_RECORD_SAMPLE, .bytes = 4096};

		flmem_recorder_add(&recorder, &tick);
		flmem_recorder_add(&recorder, &sample);
	}
}

struct times {
	uint64_t elapsed_s[8], at_us[8];
	size_t count;
};

static bool note_time(void *context, const struct flmem_watch_sample *sample)
{
	struct times *times = context;

	assert_true(times->count < FLMEM_ARRAY_SIZE(times->at_us));
	times->elapsed_s[times->count] = sample->elapsed_us / SECOND;
	times->at_us[times->count++] = sample->at_us;
	return true;
}

/*
 * Within a session time is that of a clock which does not jump. A session that began before the end
 * of the last, by the clock on the wall, continues at that end.
 */
static void jumps_of_the_clock_move_no_sample(void **state)
{
	static const uint64_t first[] = {100 * DAY, 100 * DAY + SECOND, 99 * DAY, 300 * DAY};
	static const uint64_t second[] = {98 * DAY, 98 * DAY + SECOND};
	static const uint64_t elapsed_s[] = {0, 1, 2, 3, 3, 4};
	char path[] = "/tmp/flmem-watching-XXXXXX";
	struct times times = {0};
	const struct flmem_watch_options options = {.stop_fd = -1};
	const struct flmem_watch_callbacks callbacks = {.context = &times, .sample = note_time};
	struct flmem_watch_summary summary;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	record_at(path, first, FLMEM_ARRAY_SIZE(first));
	record_at(path, second, FLMEM_ARRAY_SIZE(second));
	assert_int_equal(flmem_watch_replay(path, &options, &callbacks, &summary, NULL), 0);
	assert_int_equal(times.count, 6);
	assert_memory_equal(times.elapsed_s, elapsed_s, sizeof(elapsed_s));
	assert_memory_equal(times.at_us, first, sizeof(first));
	assert_memory_equal(&times.at_us[4], second, sizeof(second));
	assert_int_equal(summary.count, 1);
	flmem_watch_summary_clear(&summary);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pressure_is_reported_as_it_changes_live_and_again),
		cmocka_unit_test(jumps_of_the_clock_move_no_sample),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
