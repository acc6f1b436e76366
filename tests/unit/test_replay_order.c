/* SPDX-License-Identifier: Apache-2.0 */
/* What a replay makes of recordings that were joined, repeated, cut or put in another order. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "ops/watch/watch_state.h"
#include "series/recording_format.h"

#define SECOND	UINT64_C(1000000)
#define AT	(UINT64_C(1700000000) * SECOND)
#define MIB	(UINT64_C(1) << 20)
#define SAMPLES 40U
#define BLOCK	10U /* samples */
#define PARTS	(SAMPLES / BLOCK)

static char path[64];

static int setup(void **state)
{
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/flmem-order-XXXXXX");
	fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
	(void)state;
	return unlink(path);
}

/* A watch of one process, a sample of another MiB each second, in blocks of some samples. */
struct made_watch {
	struct flmem_buf bytes;
	size_t ends[PARTS]; /* of the blocks */
};

static void forget(struct made_watch *made)
{
	flmem_buf_clear(&made->bytes);
}

static void add_sample(struct flmem_recorder *recorder, uint64_t i, uint64_t begin_s)
{
	const struct flmem_record tick = {.kind = FLMEM_RECORD_TICK,
					  .elapsed_us = i * SECOND,
					  .at_us = AT + (begin_s + i) * SECOND};
	const struct flmem_record sample = {.kind = FLMEM_RECORD_SAMPLE, .bytes = (100 + i) * MIB};
	const struct flmem_record begin = {.kind = FLMEM_RECORD_ROUND_START, .round = i / 2};
	const struct flmem_record end = {.kind = FLMEM_RECORD_ROUND_END, .round = i / 2};

	flmem_recorder_add(recorder, &tick);
	flmem_recorder_add(recorder, i % 2 ? &end : &begin);
	flmem_recorder_add(recorder, &sample);
}

static struct made_watch make(uint64_t pid, uint64_t begin_s)
{
	const struct flmem_record session = {.kind = FLMEM_RECORD_SESSION,
					     .interval_us = SECOND,
					     .at_us = AT + begin_s * SECOND};
	const struct flmem_record process = {.kind = FLMEM_RECORD_PROCESS,
					     .pid = pid,
					     .start_time = pid,
					     .command = "worker",
					     .site = ""};
	struct made_watch made = {.bytes = FLMEM_BUF_INIT};
	struct flmem_recorder recorder;

	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(flmem_recorder_open(path, &recorder, NULL), 0);
	flmem_recorder_add(&recorder, &session);
	flmem_recorder_add(&recorder, &process);
	for (uint64_t i = 0; i < SAMPLES; i++) {
		add_sample(&recorder, i, begin_s);
		if (i % BLOCK != BLOCK - 1)
			continue;
		flmem_recorder_flush(&recorder);
		made.ends[i / BLOCK] = (size_t)recorder.size;
	}
	flmem_recorder_close(&recorder);
	assert_int_equal(flmem_io_read_file_at(AT_FDCWD, path, 1 << 20, &made.bytes), 0);
	return made;
}

/* Appends blocks of a watch, from one up to another. */
static void join(struct flmem_buf *file, const struct made_watch *made, size_t from, size_t to)
{
	size_t begin = from ? made->ends[from - 1] : 0;

	flmem_buf_append(file, made->bytes.data + begin, made->ends[to - 1] - begin);
}

/* The time of the first sample in the replay. */
static bool note_first(void *context, const struct flmem_watch_sample *sample)
{
	uint64_t *first_us = context;

	if (*first_us == UINT64_MAX)
		*first_us = sample->elapsed_us;
	return true;
}

static uint64_t first_us;

static int replay(const struct flmem_buf *file, struct flmem_watch_summary *ret_summary,
		  struct flmem_error *err)
{
	const struct flmem_watch_options options = {.stop_fd = -1};
	const struct flmem_watch_callbacks callbacks = {.context = &first_us, .sample = note_first};

	first_us = UINT64_MAX;
	assert_int_equal(flmem_io_write_file(path, file->data, file->length, 0600, true, NULL), 0);
	return flmem_watch_replay(path, &options, &callbacks, ret_summary, err);
}

/* Replays two watches that were written one after the other. */
static void replay_joined(const struct made_watch *first, const struct made_watch *second,
			  struct flmem_watch_summary *ret_summary)
{
	FLMEM_AUTO_BUF struct flmem_buf file = FLMEM_BUF_INIT;

	join(&file, first, 0, PARTS);
	join(&file, second, 0, PARTS);
	assert_int_equal(replay(&file, ret_summary, NULL), 0);
}

/* The samples of the process and the seconds between the first and the last. */
static void assert_watched(const struct flmem_watch_result *result, uint64_t samples,
			   uint64_t seconds)
{
	assert_int_equal(result->samples, samples);
	assert_int_equal(result->watched_us, seconds * SECOND);
}

static void a_copy_behind_itself_adds_nothing(void **state)
{
	FLMEM_AUTO(forget) struct made_watch made = make(7, 0);
	FLMEM_AUTO_BUF struct flmem_buf file = FLMEM_BUF_INIT;
	FLMEM_AUTO(flmem_watch_summary_clear) struct flmem_watch_summary summary = {0};

	(void)state;
	join(&file, &made, 0, 2);
	join(&file, &made, 0, PARTS);
	assert_int_equal(replay(&file, &summary, NULL), 0);
	assert_int_equal(summary.count, 1);
	assert_watched(&summary.results[0], SAMPLES, SAMPLES - 1);
	assert_int_equal(summary.results[0].rounds, SAMPLES / 2);
	assert_in_range(summary.record_skipped_bytes, made.ends[1] - 64, made.ends[1]);
	assert_non_null(strstr(summary.record_skipped_why, "older than what precedes them"));
	assert_int_equal(summary.record_overlaps, 0);
}

static void blocks_in_another_order_are_left_out(void **state)
{
	FLMEM_AUTO(forget) struct made_watch made = make(7, 0);
	FLMEM_AUTO_BUF struct flmem_buf file = FLMEM_BUF_INIT;
	FLMEM_AUTO(flmem_watch_summary_clear) struct flmem_watch_summary summary = {0};

	(void)state;
	join(&file, &made, 0, 1);
	join(&file, &made, 2, 3);
	join(&file, &made, 1, 2);
	join(&file, &made, 3, PARTS);
	assert_int_equal(replay(&file, &summary, NULL), 0);
	assert_watched(&summary.results[0], SAMPLES - BLOCK, SAMPLES - 1);
	assert_true(summary.record_skipped_bytes > 0);
}

static void watches_one_after_the_other_are_joined(void **state)
{
	FLMEM_AUTO(forget) struct made_watch first = make(7, 0), second = make(7, 60);
	FLMEM_AUTO(flmem_watch_summary_clear) struct flmem_watch_summary summary = {0};

	(void)state;
	replay_joined(&first, &second, &summary);
	assert_int_equal(summary.count, 1);
	assert_watched(&summary.results[0], 2 * SAMPLES, 60 + SAMPLES - 1);
	assert_int_equal(summary.record_skipped_bytes, 0);
	assert_null(summary.record_skipped_why);
	assert_int_equal(summary.record_overlaps, 0);
}

/* Of a process in both, samples of one time would count one after the other. */
static void watches_that_overlap_are_not_added_up(void **state)
{
	FLMEM_AUTO(forget) struct made_watch first = make(7, 0), second = make(7, 20);
	FLMEM_AUTO(flmem_watch_summary_clear) struct flmem_watch_summary summary = {0};

	(void)state;
	replay_joined(&first, &second, &summary);
	assert_int_equal(summary.count, 1);
	assert_watched(&summary.results[0], SAMPLES, SAMPLES - 1);
	assert_int_equal(summary.results[0].rounds, SAMPLES / 2);
	assert_int_equal(summary.record_overlaps, 1);
}

/* The rounds of a job are not those of a process of another one. */
static void rounds_are_of_the_processes_of_their_watch(void **state)
{
	FLMEM_AUTO(forget) struct made_watch first = make(7, 0), second = make(8, 60);
	FLMEM_AUTO(flmem_watch_summary_clear) struct flmem_watch_summary summary = {0};

	(void)state;
	replay_joined(&first, &second, &summary);
	assert_int_equal(summary.count, 2);
	for (size_t i = 0; i < summary.count; i++) {
		assert_watched(&summary.results[i], SAMPLES, SAMPLES - 1);
		assert_int_equal(summary.results[i].rounds, SAMPLES / 2);
	}
	assert_int_equal(summary.record_overlaps, 0);
}

static void a_recording_without_its_beginning_is_damaged(void **state)
{
	FLMEM_AUTO(forget) struct made_watch made = make(7, 0);
	FLMEM_AUTO_BUF struct flmem_buf file = FLMEM_BUF_INIT;
	struct flmem_watch_summary summary;
	struct flmem_error err = {0};

	(void)state;
	join(&file, &made, 1, PARTS);
	assert_int_equal(replay(&file, &summary, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "is damaged"));
}

/* Its samples belong to no process, and its time is not that of the next watch. */
static void a_watch_behind_a_rest_is_whole(void **state)
{
	FLMEM_AUTO(forget) struct made_watch made = make(7, 0), later = make(7, 60);
	FLMEM_AUTO_BUF struct flmem_buf file = FLMEM_BUF_INIT;
	FLMEM_AUTO(flmem_watch_summary_clear) struct flmem_watch_summary summary = {0};

	(void)state;
	join(&file, &made, 1, PARTS);
	join(&file, &later, 0, PARTS);
	assert_int_equal(replay(&file, &summary, NULL), 0);
	assert_watched(&summary.results[0], SAMPLES, SAMPLES - 1);
	assert_int_equal(first_us, 0);
	assert_true(summary.record_skipped_bytes > 0);
	assert_int_equal(summary.record_overlaps, 0);
}

/* A block of a session and a process: version and number are below 128. */
static void patch(struct flmem_buf *file, size_t at, char was, char is)
{
	uint32_t length = flmem_block_u32(file->data + 4);

	assert_int_equal(file->data[FLMEM_BLOCK_HEADER + at], was);
	file->data[FLMEM_BLOCK_HEADER + at] = is;
	flmem_block_put_u32(file->data + 8,
			    flmem_block_sum(file->data + FLMEM_BLOCK_HEADER, length));
}

/* Nothing of a newer session is read as if it were of this version. */
static void a_newer_watch_is_skipped_to_its_end(void **state)
{
	FLMEM_AUTO(forget) struct made_watch first = make(7, 0), newer = make(7, 60);
	FLMEM_AUTO_BUF struct flmem_buf file = FLMEM_BUF_INIT;
	FLMEM_AUTO(flmem_watch_summary_clear) struct flmem_watch_summary summary = {0};

	(void)state;
	patch(&newer.bytes, 1, FLMEM_BLOCK_VERSION, FLMEM_BLOCK_VERSION + 1);
	join(&file, &first, 0, 1);
	join(&file, &newer, 0, PARTS);
	assert_int_equal(replay(&file, &summary, NULL), 0);
	assert_watched(&summary.results[0], BLOCK, BLOCK - 1);
	assert_non_null(strstr(summary.record_skipped_why, "newer flmem"));
}

/* The record that names it was in a part that is missing. */
static void samples_of_an_unnamed_process_are_counted(void **state)
{
	const struct flmem_record other = {.kind = FLMEM_RECORD_SAMPLE, .process = 3, .bytes = MIB};
	FLMEM_AUTO(forget) struct made_watch made = make(7, 0);
	FLMEM_AUTO_BUF struct flmem_buf file = FLMEM_BUF_INIT;
	FLMEM_AUTO(flmem_watch_summary_clear) struct flmem_watch_summary summary = {0};
	struct flmem_recorder recorder;

	(void)state;
	assert_int_equal(made.ends[PARTS - 1], made.bytes.length);
	assert_int_equal(flmem_recorder_open(path, &recorder, NULL), 0);
	add_sample(&recorder, SAMPLES, 0);
	flmem_recorder_add(&recorder, &other);
	flmem_recorder_close(&recorder);
	assert_int_equal(flmem_io_read_file_at(AT_FDCWD, path, 1 << 20, &file), 0);
	assert_int_equal(replay(&file, &summary, NULL), 0);
	assert_watched(&summary.results[0], SAMPLES + 1, SAMPLES);
	assert_in_range(summary.record_skipped_bytes, 3, 8);
	assert_string_equal(summary.record_skipped_why, "damaged");
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILE_TEST(a_copy_behind_itself_adds_nothing),
		FILE_TEST(blocks_in_another_order_are_left_out),
		FILE_TEST(watches_one_after_the_other_are_joined),
		FILE_TEST(watches_that_overlap_are_not_added_up),
		FILE_TEST(rounds_are_of_the_processes_of_their_watch),
		FILE_TEST(a_recording_without_its_beginning_is_damaged),
		FILE_TEST(a_watch_behind_a_rest_is_whole),
		FILE_TEST(a_newer_watch_is_skipped_to_its_end),
		FILE_TEST(samples_of_an_unnamed_process_are_counted),
	};

	return cmocka_run_group_tests_name("replay_order", tests, NULL, NULL);
}
