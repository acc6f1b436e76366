/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <flmem/parse.h>
#include <flmem/watch.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "series/downsample.h"
#include "series/downsample_job.h"

#define SECOND UINT64_C(1000000)
#define DAY    (86400 * SECOND)
#define BEGAN  (UINT64_C(1700000000) * SECOND)

static char path[64];

static int setup(void **state)
{
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/flmem-thin-XXXXXX");
	fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
	(void)state;
	return unlink(path);
}

/* Samples of a real process, which are fed again and again. */
struct series {
	uint64_t *bytes;
	size_t count, capacity;
};

static void forget(struct series *series)
{
	free(series->bytes);
}

static void add_file(struct series *s, const char *name)
{
	FLMEM_AUTO(flmem_recording_close) struct flmem_recording r = FLMEM_RECORDING_INIT;
	struct flmem_record record;
	char file[512];

	snprintf(file, sizeof(file), "%s/%s", RECORDINGS, name);
	assert_int_equal(flmem_recording_open(file, &r, NULL), 0);
	while (flmem_recording_next(&r, &record)) {
		if (record.kind != FLMEM_RECORD_SAMPLE)
			continue;
		if (s->count == s->capacity) {
			s->capacity = s->capacity ? s->capacity * 2 : 1024;
			s->bytes = reallocarray(s->bytes, s->capacity, sizeof(*s->bytes));
			assert_non_null(s->bytes);
		}
		s->bytes[s->count++] = record.bytes;
	}
}

static struct series read_series(void)
{
	static const char *const names[] = {"noise-glibc-1.rec", "saw-glibc-1.rec",
					    "leak10-jemalloc-2.rec", "noise-jemalloc-3.rec"};
	struct series series = {0};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		add_file(&series, names[i]);
	assert_true(series.count > 500);
	return series;
}

static void begin(struct flmem_recorder *recorder)
{
	const struct flmem_record session = {
		.kind = FLMEM_RECORD_SESSION, .interval_us = SECOND, .at_us = BEGAN};
	const struct flmem_record process = {.kind = FLMEM_RECORD_PROCESS,
					     .pid = 77,
					     .start_time = 5,
					     .command = "python3 train.py",
					     .site = "site-1"};

	assert_int_equal(flmem_recorder_open(path, recorder, NULL), 0);
	flmem_recorder_add(recorder, &session);
	flmem_recorder_add(recorder, &process);
}

/* Feeds samples as a watch does: one a second, a split every 30th, a block every 10. */
static void feed(struct flmem_recorder *recorder, const struct series *series, uint64_t first,
		 uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++) {
		const uint64_t bytes = series->bytes[i % series->count];
		const struct flmem_record tick = {.kind = FLMEM_RECORD_TICK,
						  .elapsed_us = i * SECOND + i % 7 * 1000,
						  .at_us = BEGAN + i * SECOND + i % 5 * 1000};
		const struct flmem_record sample = {.kind = FLMEM_RECORD_SAMPLE, .bytes = bytes};
		const struct flmem_record split = {.kind = FLMEM_RECORD_SPLIT,
						   .kinds = {bytes - 4096, 4096, 0, UINT64_MAX}};

		if (i % 10 == 0)
			flmem_recorder_flush(recorder);
		flmem_recorder_add(recorder, &tick);
		if (i % 30 == 0)
			flmem_recorder_add(recorder, &split);
		flmem_recorder_add(recorder, &sample);
	}
}

/* Waits for a running thinning, which has hours in practice. */
static void settle(struct flmem_recorder *recorder)
{
	while (recorder->thinning &&
	       flmem_downsample_job_state(recorder->thinning) == FLMEM_DOWNSAMPLE_RUNS)
		flmem_clock_sleep_us(1000);
	flmem_recorder_flush(recorder);
}

struct seen {
	uint64_t samples, lowest, highest, last_us, first_us, ends, rounds, splits, sessions;
	uint64_t widest_us, widest_late_us; /* longest pause between samples; in the second half */
};

static struct seen look(void)
{
	FLMEM_AUTO(flmem_recording_close) struct flmem_recording r = FLMEM_RECORDING_INIT;
	struct seen seen = {.lowest = UINT64_MAX, .first_us = UINT64_MAX};
	struct flmem_record record;
	uint64_t now_us = 0;

	assert_int_equal(flmem_recording_open(path, &r, NULL), 0);
	while (flmem_recording_next(&r, &record)) {
		seen.rounds += record.kind == FLMEM_RECORD_ROUND_START;
		seen.ends += record.kind == FLMEM_RECORD_END;
		seen.splits += record.kind == FLMEM_RECORD_SPLIT;
		seen.sessions += record.kind == FLMEM_RECORD_SESSION;
		if (record.kind == FLMEM_RECORD_TICK) {
			assert_true(record.elapsed_us >= now_us);
			now_us = record.elapsed_us;
		}
		if (record.kind != FLMEM_RECORD_SAMPLE)
			continue;
		if (seen.samples++ && now_us - seen.last_us > seen.widest_us)
			seen.widest_us = now_us - seen.last_us;
		seen.last_us = now_us;
		if (seen.first_us == UINT64_MAX)
			seen.first_us = now_us;
		if (record.bytes < seen.lowest)
			seen.lowest = record.bytes;
		if (record.bytes > seen.highest)
			seen.highest = record.bytes;
	}
	assert_true(r.skipped == 0);
	return seen;
}

/* Counts the samples that can be read, whatever is damaged. */
static uint64_t count(void)
{
	FLMEM_AUTO(flmem_recording_close) struct flmem_recording r = FLMEM_RECORDING_INIT;
	struct flmem_record record;
	uint64_t samples = 0;

	assert_int_equal(flmem_recording_open(path, &r, NULL), 0);
	while (flmem_recording_next(&r, &record))
		samples += record.kind == FLMEM_RECORD_SAMPLE;
	return samples;
}

static void extremes(const struct series *s, uint64_t *ret_lowest, uint64_t *ret_highest)
{
	*ret_lowest = UINT64_MAX;
	*ret_highest = 0;
	for (size_t i = 0; i < s->count; i++) {
		if (s->bytes[i] < *ret_lowest)
			*ret_lowest = s->bytes[i];
		if (s->bytes[i] > *ret_highest)
			*ret_highest = s->bytes[i];
	}
}

/* FLMEM_DAYS=30 feeds a whole month; a day shows as much, and faster. */
static uint64_t days_to_feed(void)
{
	const char *days = getenv("FLMEM_DAYS");
	uint64_t count = 1;

	if (days)
		assert_int_equal(flmem_parse_u64(days, 1, 1000, &count, NULL), 0);
	return count;
}

static void a_month_of_real_samples_stays_whole(void **state)
{
	FLMEM_AUTO(forget) struct series series = read_series();
	const uint64_t days = days_to_feed();
	struct flmem_recorder recorder;
	uint64_t peak = 0;

	(void)state;
	begin(&recorder);
	for (uint64_t day = 0; day < days; day++) {
		feed(&recorder, &series, day * 86400, 86400);
		settle(&recorder);
		if (recorder.size > peak)
			peak = recorder.size;
	}
	flmem_recorder_close(&recorder);
	print_message("%llu days at 1 s: %llu bytes, %.2f per sample\n", (unsigned long long)days,
		      (unsigned long long)peak, (double)peak / (double)(days * 86400));
	assert_true(peak * 30 < days * 50000000);
	assert_true(days > 30 || look().samples == days * 86400);
}

/* Uses a budget of a 400th, with which a day replaces a year. */
static void the_file_is_bounded_and_its_extremes_stay(void **state)
{
	FLMEM_AUTO(forget) struct series series = read_series();
	const uint64_t budget = FLMEM_RECORDING_BUDGET / 400, days = 1;
	uint64_t lowest, highest, peak = 0;
	struct flmem_recorder recorder;
	struct seen seen;

	(void)state;
	begin(&recorder);
	recorder.budget = recorder.thin_at = budget;
	for (uint64_t hour = 0; hour < days * 24; hour++) {
		feed(&recorder, &series, hour * 3600, 3600);
		settle(&recorder);
		if (recorder.size > peak)
			peak = recorder.size;
	}
	flmem_recorder_close(&recorder);
	extremes(&series, &lowest, &highest);
	seen = look();
	print_message("%llu days in %llu: at most %llu bytes, %llu samples, %llu s apart\n",
		      (unsigned long long)days, (unsigned long long)budget,
		      (unsigned long long)peak, (unsigned long long)seen.samples,
		      (unsigned long long)(seen.widest_us / SECOND));
	assert_true(peak < budget * 5 / 4);
	assert_true(seen.samples > 3000 && seen.samples < days * 86400);
	assert_true(seen.lowest == lowest && seen.highest == highest);
	assert_true(seen.first_us == 0 && seen.last_us >= (days * 86400 - 1) * SECOND);
	assert_true(seen.splits > 0);
	assert_true(seen.widest_us > 4 * SECOND);
	assert_int_equal(access(path, F_OK), 0);
}

/* Records added while the thread works are in the new file, which has the same owner and mode. */
static void what_comes_meanwhile_is_kept(void **state)
{
	FLMEM_AUTO(forget) struct series series = read_series();
	struct flmem_downsample_job *job;
	struct flmem_recorder recorder;
	uint64_t size, before;
	struct stat was, is;
	struct seen seen;
	int fd;

	(void)state;
	begin(&recorder);
	recorder.budget = 0;
	feed(&recorder, &series, 0, 40000);
	flmem_recorder_flush(&recorder);
	before = recorder.size;
	/* Only a privileged process changes the owner. */
	if (fchown(recorder.fd, 12, 34) != 0)
		assert_int_equal(errno, EPERM);
	assert_int_equal(fchmod(recorder.fd, 0644), 0);
	assert_int_equal(fstat(recorder.fd, &was), 0);
	job = flmem_downsample_job_start(path, recorder.size, 50000);
	assert_non_null(job);
	feed(&recorder, &series, 40000, 1000);
	flmem_recorder_flush(&recorder);
	while (flmem_downsample_job_state(job) == FLMEM_DOWNSAMPLE_RUNS)
		flmem_clock_sleep_us(1000);
	assert_int_equal(flmem_downsample_job_state(job), FLMEM_DOWNSAMPLE_DONE);
	/* a block that was not completely written */
	assert_int_equal(pwrite(recorder.fd, "torn", 4, (off_t)recorder.size), 4);
	fd = flmem_downsample_job_replace(job, recorder.fd, recorder.size, &size);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &is), 0);
	assert_true(is.st_size == (off_t)size);
	assert_int_equal(is.st_mode, was.st_mode);
	assert_true(is.st_uid == was.st_uid && is.st_gid == was.st_gid);
	flmem_downsample_job_free(job);
	close(recorder.fd);
	recorder.fd = fd;
	recorder.size = size;
	assert_true(size < before / 2);
	feed(&recorder, &series, 41000, 1000);
	flmem_recorder_close(&recorder);
	seen = look();
	assert_true(seen.last_us / SECOND == 41999);
	/* The newest samples are all kept. */
	assert_true(seen.samples > 2000 && seen.samples < 42000);
}

/* A thinning that is truncated leaves the recording as it was, and nothing beside it. */
static void a_cancelled_thinning_changes_nothing(void **state)
{
	FLMEM_AUTO(forget) struct series series = read_series();
	struct flmem_recorder recorder;
	char beside[80];

	(void)state;
	begin(&recorder);
	recorder.budget = 0;
	feed(&recorder, &series, 0, 50000);
	flmem_recorder_flush(&recorder);
	flmem_downsample_job_free(flmem_downsample_job_start(path, recorder.size, 1000));
	flmem_recorder_close(&recorder);
	assert_true(look().samples == 50000);
	snprintf(beside, sizeof(beside), "%s.downsampler", path);
	assert_int_equal(access(beside, F_OK), -1);
}

static void a_folder_that_may_not_be_written_to_stops_nothing(void **state)
{
	FLMEM_AUTO(forget) struct series series = read_series();
	struct flmem_recorder recorder;
	char beside[80];

	(void)state;
	/* A folder takes the place of the new file: it can be neither removed nor written. */
	snprintf(beside, sizeof(beside), "%s.downsampler", path);
	assert_int_equal(mkdir(beside, 0700), 0);
	begin(&recorder);
	recorder.budget = recorder.thin_at = 20000;
	feed(&recorder, &series, 0, 20000);
	settle(&recorder);
	feed(&recorder, &series, 20000, 20000);
	flmem_recorder_close(&recorder);
	assert_int_equal(rmdir(beside), 0);
	assert_true(look().samples == 40000);
}

static void write_text(const char *name, const char *text)
{
	FILE *file = fopen(name, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void expect_text(const char *name, const char *text)
{
	FILE *file = fopen(name, "r");
	char found[32] = "";

	assert_non_null(file);
	assert_non_null(fgets(found, sizeof(found), file));
	fclose(file);
	assert_string_equal(found, text);
	unlink(name);
}

/* Records more than the budget, and lets it be thinned if possible. */
static void outgrow(struct flmem_recorder *recorder, const struct series *series)
{
	recorder->budget = recorder->thin_at = 20000;
	feed(recorder, series, 0, 20000);
	settle(recorder);
	feed(recorder, series, 20000, 20000);
	flmem_recorder_close(recorder);
}

static void a_file_of_the_user_beside_it_is_left_alone(void **state)
{
	FLMEM_AUTO(forget) struct series series = read_series();
	struct flmem_recorder recorder;
	char beside[80];

	(void)state;
	snprintf(beside, sizeof(beside), "%s.downsampler", path);
	write_text(beside, "the user's own");
	begin(&recorder);
	outgrow(&recorder, &series);
	expect_text(beside, "the user's own");
	assert_true(look().samples == 40000);
}

/* A foreign file with the name that a thinning uses would be emptied, and given away with it. */
static void a_file_that_is_only_linked_beside_it_is_left_alone(void **state)
{
	FLMEM_AUTO(forget) struct series series = read_series();
	struct flmem_recorder recorder;
	char beside[80], other[80];
	struct stat status;

	(void)state;
	snprintf(beside, sizeof(beside), "%s.downsampler", path);
	snprintf(other, sizeof(other), "%s.other", path);
	for (int symbolic = 0; symbolic < 2; symbolic++) {
		unlink(path);
		write_text(other, "FLMB");
		assert_int_equal(symbolic ? symlink(other, beside) : link(other, beside), 0);
		begin(&recorder);
		outgrow(&recorder, &series);
		assert_int_equal(unlink(beside), 0);
		assert_int_equal(stat(other, &status), 0);
		assert_int_equal(status.st_nlink, 1);
		expect_text(other, "FLMB");
		assert_true(look().samples == 40000);
	}
}

static void a_recording_is_begun_in_no_file_of_others(void **state)
{
	struct flmem_recorder recorder;
	struct flmem_error err = {0};
	char other[80];

	(void)state;
	snprintf(other, sizeof(other), "%s.other", path);
	unlink(path);
	assert_int_equal(symlink(other, path), 0);
	assert_int_equal(flmem_recorder_open(path, &recorder, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "is a symbolic link"));
	assert_int_equal(access(other, F_OK), -1);
	unlink(path);
	write_text(other, "");
	assert_int_equal(link(other, path), 0);
	assert_int_equal(flmem_recorder_open(path, &recorder, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "hard links"));
	unlink(other);
	if (chown(path, 65534, 65534) < 0) {
		print_message("SKIP: needs root to have a file of another user\n");
		skip();
	}
	assert_int_equal(flmem_recorder_open(path, &recorder, &err), FLMEM_EPERM);
	assert_non_null(strstr(err.message, "another user"));
}

static void what_took_the_name_of_a_moved_one_is_left_alone(void **state)
{
	FLMEM_AUTO(forget) struct series series = read_series();
	struct flmem_recorder recorder;
	char moved[80];

	(void)state;
	snprintf(moved, sizeof(moved), "%s.moved", path);
	begin(&recorder);
	assert_int_equal(rename(path, moved), 0);
	write_text(path, "the user's own");
	outgrow(&recorder, &series);
	expect_text(path, "the user's own");
	assert_int_equal(rename(moved, path), 0);
	assert_true(look().samples == 40000);
}

/* Repeated introductions are dropped, new ones stay. */
static void a_process_keeps_the_name_that_it_took(void **state)
{
	FLMEM_AUTO(forget) struct series series = read_series();
	const struct flmem_watch_options options = {.stop_fd = -1};
	const struct flmem_watch_callbacks callbacks = {0};
	struct flmem_watch_summary summary;
	struct flmem_recorder recorder;
	struct flmem_record renamed = {.kind = FLMEM_RECORD_PROCESS,
				       .pid = 77,
				       .start_time = 5,
				       .command = "python3 other.py",
				       .site = "site-2"};

	(void)state;
	begin(&recorder);
	recorder.budget = 0;
	feed(&recorder, &series, 0, 10000);
	flmem_recorder_add(&recorder, &renamed);
	feed(&recorder, &series, 10000, 10000);
	recorder.budget = recorder.thin_at = 10000;
	flmem_recorder_flush(&recorder);
	settle(&recorder);
	flmem_recorder_close(&recorder);
	assert_int_equal(flmem_watch_replay(path, &options, &callbacks, &summary, NULL), 0);
	assert_int_equal(summary.count, 1);
	assert_true(summary.results[0].samples < 15000);
	assert_string_equal(summary.results[0].process.command, "python3 other.py");
	assert_string_equal(summary.results[0].process.site, "site-2");
	flmem_watch_summary_clear(&summary);
}

/* Marks of rounds keep their places and times. */
static void rounds_and_ends_stay(void **state)
{
	FLMEM_AUTO(forget) struct series series = read_series();
	const struct flmem_watch_options options = {.stop_fd = -1};
	const struct flmem_watch_callbacks callbacks = {0};
	struct flmem_watch_summary was, is;
	struct flmem_recorder recorder;

	(void)state;
	begin(&recorder);
	recorder.budget = 0;
	for (uint64_t round = 0; round < 200; round++) {
		struct flmem_record mark = {.kind = FLMEM_RECORD_ROUND_START, .round = round};

		flmem_recorder_add(&recorder, &mark);
		feed(&recorder, &series, round * 600, 550);
		mark.kind = FLMEM_RECORD_ROUND_END;
		flmem_recorder_add(&recorder, &mark);
		feed(&recorder, &series, round * 600 + 550, 50);
	}
	flmem_recorder_add(&recorder, &(struct flmem_record){.kind = FLMEM_RECORD_END});
	flmem_recorder_close(&recorder);
	assert_int_equal(flmem_watch_replay(path, &options, &callbacks, &was, NULL), 0);
	begin(&recorder);
	recorder.budget = recorder.thin_at = 10000;
	flmem_recorder_flush(&recorder);
	settle(&recorder);
	flmem_recorder_close(&recorder);
	assert_int_equal(flmem_watch_replay(path, &options, &callbacks, &is, NULL), 0);
	assert_int_equal(is.count, 1);
	assert_true(is.rounds == was.rounds && is.rounds == 200);
	assert_true(is.results[0].ended);
	assert_true(is.results[0].samples < was.results[0].samples / 2);
	assert_true(is.results[0].peak_bytes.value == was.results[0].peak_bytes.value);
	assert_true(is.results[0].lowest_bytes.value == was.results[0].lowest_bytes.value);
	assert_true(is.results[0].first_bytes.value == was.results[0].first_bytes.value);
	assert_int_equal(is.results[0].trend.verdict, was.results[0].trend.verdict);
	flmem_watch_summary_clear(&was);
	flmem_watch_summary_clear(&is);
}

/* Whenever the writer is killed, thinning or not, there is a recording that can be continued. */
static void a_killed_writer_leaves_a_recording(void **state)
{
	FLMEM_AUTO(forget) struct series series = read_series();
	struct flmem_recorder recorder;
	char beside[80];

	(void)state;
	for (uint64_t i = 1; i <= 12; i++) {
		struct flmem_recording r;
		pid_t child = fork();

		assert_true(child >= 0);
		if (!child) {
			begin(&recorder);
			recorder.budget = recorder.thin_at = 30000;
			for (uint64_t at = 0;; at += 600)
				feed(&recorder, &series, at, 600);
		}
		flmem_clock_sleep_us(i * 7000);
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(waitpid(child, NULL, 0), child);
		assert_int_equal(flmem_recording_open(path, &r, NULL), 0);
		flmem_recording_close(&r);
		begin(&recorder);
		feed(&recorder, &series, 0, 20);
		flmem_recorder_close(&recorder);
		assert_true(count() >= 20);
	}
	snprintf(beside, sizeof(beside), "%s.downsampler", path);
	unlink(beside);
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILE_TEST(a_month_of_real_samples_stays_whole),
		FILE_TEST(the_file_is_bounded_and_its_extremes_stay),
		FILE_TEST(what_comes_meanwhile_is_kept),
		FILE_TEST(a_cancelled_thinning_changes_nothing),
		FILE_TEST(a_folder_that_may_not_be_written_to_stops_nothing),
		FILE_TEST(a_file_of_the_user_beside_it_is_left_alone),
		FILE_TEST(a_file_that_is_only_linked_beside_it_is_left_alone),
		FILE_TEST(a_recording_is_begun_in_no_file_of_others),
		FILE_TEST(what_took_the_name_of_a_moved_one_is_left_alone),
		FILE_TEST(a_process_keeps_the_name_that_it_took),
		FILE_TEST(rounds_and_ends_stay),
		FILE_TEST(a_killed_writer_leaves_a_recording),
	};

	return cmocka_run_group_tests_name("thin", tests, NULL, NULL);
}
