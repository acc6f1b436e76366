/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes/varint.h"
#include "base/cleanup.h"
#include "base/files/io.h"
#include "series/recording.h"

#define SECOND UINT64_C(1000000)

static char path[64];

static int setup(void **state)
{
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/flmem-rec-XXXXXX");
	fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
	(void)state;
	return unlink(path);
}

static void varints_come_back(void **state)
{
	static const uint64_t numbers[] = {
		0, 1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX, UINT64_MAX - 1, 1ULL << 63};
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	uint64_t number;
	size_t at = 0;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(numbers); i++)
		flmem_varint_put(&buf, numbers[i]);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(numbers); i++) {
		assert_true(flmem_varint_take(buf.data, buf.length, &at, &number));
		assert_true(number == numbers[i]);
		for (size_t k = 0; k < FLMEM_ARRAY_SIZE(numbers); k++)
			assert_true(
				flmem_varint_unfold(numbers[k],
						    flmem_varint_fold(numbers[k], numbers[i])) ==
				numbers[i]);
	}
	assert_false(flmem_varint_take(buf.data, buf.length, &at, &number));
	at = 0;
	assert_false(flmem_varint_take("\x80\x80", 2, &at, &number));
	at = 0;
	assert_false(
		flmem_varint_take("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, &at, &number));
}

static struct flmem_recorder begin(uint64_t at_us)
{
	const struct flmem_record session = {
		.kind = FLMEM_RECORD_SESSION, .interval_us = SECOND, .at_us = at_us};
	const struct flmem_record process = {.kind = FLMEM_RECORD_PROCESS,
					     .pid = 77,
					     .start_time = 5,
					     .role = 2,
					     .command = "python3 train.py",
					     .site = "site-1"};
	struct flmem_recorder recorder;

	assert_int_equal(flmem_recorder_open(path, &recorder, NULL), 0);
	flmem_recorder_add(&recorder, &session);
	flmem_recorder_add(&recorder, &process);
	return recorder;
}

static void add_samples(struct flmem_recorder *recorder, uint64_t first, uint64_t count)
{
	for (uint64_t i = first; i < first + count; i++) {
		const struct flmem_record tick = {.kind = FLMEM_RECORD_TICK,
						  .elapsed_us = i * SECOND,
						  .at_us = (1000000 + i) * SECOND};
		const struct flmem_record sample = {.kind = FLMEM_RECORD_SAMPLE,
						    .bytes = (100000 + i * 4) * 1024};

		flmem_recorder_add(recorder, &tick);
		flmem_recorder_add(recorder, &sample);
		if (i % 10 == 9)
			flmem_recorder_flush(recorder);
	}
}

/* Counts the samples that a reader finds. Each must be as it was added. */
static uint64_t count_samples(uint64_t *ret_skipped)
{
	FLMEM_AUTO(flmem_recording_close) struct flmem_recording r;
	struct flmem_record record;
	uint64_t count = 0, now_us = UINT64_MAX;

	assert_int_equal(flmem_recording_open(path, &r, NULL), 0);
	while (flmem_recording_next(&r, &record)) {
		if (record.kind == FLMEM_RECORD_TICK) {
			now_us = record.elapsed_us;
			assert_true(record.at_us == 1000000 * SECOND + now_us);
		} else if (record.kind == FLMEM_RECORD_SAMPLE) {
			assert_int_equal(record.process, 0);
			assert_true(record.bytes == (100000 + now_us / SECOND * 4) * 1024);
			count++;
		} else if (record.kind == FLMEM_RECORD_PROCESS) {
			assert_int_equal(record.pid, 77);
			assert_string_equal(record.command, "python3 train.py");
			assert_string_equal(record.site, "site-1");
		}
	}
	*ret_skipped = r.skipped;
	return count;
}

static void what_is_written_comes_back(void **state)
{
	struct flmem_recorder recorder = begin(1000000 * SECOND);
	uint64_t skipped;

	(void)state;
	add_samples(&recorder, 0, 995);
	flmem_recorder_close(&recorder);
	assert_true(count_samples(&skipped) == 995);
	assert_true(skipped == 0);
}

static void a_month_stays_below_50_megabytes(void **state)
{
	struct flmem_recorder recorder = begin(1000000 * SECOND);
	struct stat status;

	(void)state;
	/* Records a day with jumps of memory at every second. */
	for (uint64_t i = 0; i < 86400; i++) {
		const struct flmem_record tick = {.kind = FLMEM_RECORD_TICK,
						  .elapsed_us = i * SECOND + i % 7 * 1000,
						  .at_us = (1000000 + i) * SECOND + i % 3 * 1000};
		const struct flmem_record sample = {.kind = FLMEM_RECORD_SAMPLE,
						    .bytes = (UINT64_C(8) << 30) +
							     i * 7919 % 300000 * 4096};
		struct flmem_record split = {.kind = FLMEM_RECORD_SPLIT,
					     .kinds = {sample.bytes, 1 << 20, 0, UINT64_MAX}};

		flmem_recorder_add(&recorder, &tick);
		if (i % 30 == 0)
			flmem_recorder_add(&recorder, &split);
		flmem_recorder_add(&recorder, &sample);
		if (i % 10 == 9)
			flmem_recorder_flush(&recorder);
	}
	flmem_recorder_close(&recorder);
	assert_int_equal(stat(path, &status), 0);
	assert_true(status.st_size * 30 < 50000000);
}

static void sessions_are_appended(void **state)
{
	struct flmem_recorder recorder = begin(1000000 * SECOND);
	uint64_t skipped;

	(void)state;
	add_samples(&recorder, 0, 5);
	flmem_recorder_close(&recorder);
	recorder = begin(1000005 * SECOND);
	add_samples(&recorder, 5, 5);
	flmem_recorder_close(&recorder);
	assert_true(count_samples(&skipped) == 10);
}

/*
 * Whatever a kill has left of the last block, the others can be read, and the recording continues.
 */
static void a_torn_end_costs_one_block(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf bytes = FLMEM_BUF_INIT;
	struct flmem_recorder recorder = begin(1000000 * SECOND);
	uint64_t skipped, whole;

	(void)state;
	add_samples(&recorder, 0, 20);
	whole = recorder.size;
	add_samples(&recorder, 20, 10);
	flmem_recorder_close(&recorder);
	assert_int_equal(flmem_io_read_file_at(AT_FDCWD, path, 1 << 20, &bytes), 0);
	for (uint64_t size = whole; size < bytes.length; size++) {
		assert_int_equal(truncate(path, (off_t)size), 0);
		assert_true(count_samples(&skipped) == 20);
		assert_true(skipped == size - whole);
		recorder = begin(1000020 * SECOND);
		add_samples(&recorder, 20, 7);
		flmem_recorder_close(&recorder);
		assert_true(count_samples(&skipped) == 27);
		assert_int_equal(
			flmem_io_write_file(path, bytes.data, bytes.length, 0600, true, NULL), 0);
	}
}

static void a_torn_beginning_is_gone_on_with(void **state)
{
	struct flmem_recorder recorder;
	uint64_t skipped;

	(void)state;
	for (size_t length = 0; length < 4; length++) {
		assert_int_equal(flmem_io_write_file(path, "FLMB", length, 0600, true, NULL), 0);
		recorder = begin(1000000 * SECOND);
		add_samples(&recorder, 0, 3);
		flmem_recorder_close(&recorder);
		assert_true(count_samples(&skipped) == 3);
		assert_true(skipped == 0);
	}
}

static void damage_in_the_middle_costs_what_is_damaged(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf bytes = FLMEM_BUF_INIT;
	struct flmem_recorder recorder = begin(1000000 * SECOND);
	uint64_t skipped;

	(void)state;
	add_samples(&recorder, 0, 100);
	flmem_recorder_close(&recorder);
	assert_int_equal(flmem_io_read_file_at(AT_FDCWD, path, 1 << 20, &bytes), 0);
	for (size_t at = 4; at < bytes.length; at += 3) {
		uint64_t count;

		bytes.data[at] ^= 0x55;
		assert_int_equal(
			flmem_io_write_file(path, bytes.data, bytes.length, 0600, true, NULL), 0);
		count = count_samples(&skipped);
		assert_true(count == 90 && skipped > 0);
		bytes.data[at] ^= 0x55;
	}
}

static void a_full_disk_loses_blocks_and_goes_on(void **state)
{
	struct flmem_recorder recorder = begin(1000000 * SECOND);
	struct rlimit was, limit;
	uint64_t skipped;

	(void)state;
	add_samples(&recorder, 0, 20);
	/* The limit on the size of files is so low that the next block does not fit. */
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	limit = was;
	limit.rlim_cur = recorder.size + 20;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	add_samples(&recorder, 20, 20);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_true(recorder.lost == 2);
	assert_int_equal(recorder.error, EFBIG);
	add_samples(&recorder, 40, 20);
	flmem_recorder_close(&recorder);
	assert_true(count_samples(&skipped) == 40);
	assert_true(skipped == 0);
}

/* The name is right from its first record on, and however often it is introduced again. */
static void a_process_is_introduced_as_the_program_that_it_is_by_now(void **state)
{
	const struct flmem_record other = {
		.kind = FLMEM_RECORD_PROCESS, .process = 1, .pid = 78, .command = "b", .site = ""};
	const struct flmem_record renamed = {.kind = FLMEM_RECORD_PROCESS,
					     .pid = 77,
					     .start_time = 5,
					     .command = "python3 other.py",
					     .site = ""};
	struct flmem_recorder recorder = begin(1000000 * SECOND);
	FLMEM_AUTO(flmem_recording_close) struct flmem_recording r;
	struct flmem_record record;
	size_t sessions = 0, told[2] = {0};
	bool is_renamed = false;

	(void)state;
	flmem_recorder_add(&recorder, &other);
	add_samples(&recorder, 0, 10);
	flmem_recorder_add(&recorder, &renamed);
	add_samples(&recorder, 10, 6000);
	flmem_recorder_close(&recorder);
	assert_int_equal(flmem_recording_open(path, &r, NULL), 0);
	while (flmem_recording_next(&r, &record)) {
		sessions += record.kind == FLMEM_RECORD_SESSION;
		if (record.kind != FLMEM_RECORD_PROCESS)
			continue;
		told[record.process]++;
		if (record.process == 1) {
			assert_string_equal(record.command, "b");
			continue;
		}
		is_renamed |= strcmp(record.command, "python3 other.py") == 0;
		assert_string_equal(record.command,
				    is_renamed ? "python3 other.py" : "python3 train.py");
		assert_string_equal(record.site, is_renamed ? "" : "site-1");
	}
	assert_true(r.skipped == 0);
	assert_int_equal(sessions, 3);
	assert_int_equal(told[0], 2 + 2);
	assert_int_equal(told[1], 1 + 2);
}

static void two_writers_and_other_files_are_refused(void **state)
{
	struct flmem_recorder recorder = begin(1000000 * SECOND), second;
	struct flmem_recording recording;
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_recorder_open(path, &second, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "another watch"));
	flmem_recorder_close(&recorder);
	assert_int_equal(flmem_io_write_file(path, "letter\n", 7, 0600, true, NULL), 0);
	assert_int_equal(flmem_recorder_open(path, &second, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "not a recording"));
	assert_int_equal(flmem_recording_open(path, &recording, &err), FLMEM_EUSAGE);
	assert_int_equal(flmem_recorder_open("/", &second, &err), FLMEM_EUSAGE);
	assert_int_equal(flmem_recording_open("/dev/zero", &recording, &err), FLMEM_EUSAGE);
	assert_int_equal(flmem_recording_open("/no/such/file", &recording, &err), FLMEM_EUSAGE);
}

static void assert_same(const struct flmem_record *got, const struct flmem_record *added)
{
	size_t numbers =
		added->kind == FLMEM_RECORD_ACTION ? FLMEM_RECORD_OF_ACTION : FLMEM_RECORD_NUMBERS;

	switch (added->kind) {
	case FLMEM_RECORD_SPLIT:
		assert_memory_equal(got->kinds, added->kinds, sizeof(got->kinds));
		break;
	case FLMEM_RECORD_ACTION:
		assert_true(got->action == added->action);
		assert_string_equal(got->reason, added->reason);
		assert_memory_equal(got->numbers, added->numbers, numbers * sizeof(uint64_t));
		break;
	case FLMEM_RECORD_PRESSURE:
		assert_true(got->of_host == added->of_host);
		assert_memory_equal(got->numbers, added->numbers, numbers * sizeof(uint64_t));
		break;
	case FLMEM_RECORD_OWN_ROUNDS:
	case FLMEM_RECORD_END:
		break;
	default:
		assert_true(got->round == added->round);
	}
}

static void all_kinds_of_records(void **state)
{
	static const struct flmem_record records[] = {
		{.kind = FLMEM_RECORD_ROUND_START, .round = 12},
		{.kind = FLMEM_RECORD_SPLIT, .kinds = {4096, 0, UINT64_MAX, 1 << 30}},
		{.kind = FLMEM_RECORD_ROUND_END, .round = UINT64_MAX},
		{.kind = FLMEM_RECORD_ROUND_RUNS, .round = 3},
		{.kind = FLMEM_RECORD_OWN_ROUNDS},
		{.kind = FLMEM_RECORD_OWN_START, .round = 4},
		{.kind = FLMEM_RECORD_OWN_END, .round = 4},
		{.kind = FLMEM_RECORD_ACTION,
		 .action = 3,
		 .numbers = {1, 2, 3 << 20, UINT64_MAX, 0, UINT64_MAX - 1},
		 .reason = "its memory is climbing"},
		{.kind = FLMEM_RECORD_PRESSURE,
		 .of_host = true,
		 .numbers = {UINT64_MAX, 1, 0, 5, 10000, 7, 1U << 31}},
		{.kind = FLMEM_RECORD_END},
	};
	struct flmem_recorder recorder = begin(1000000 * SECOND);
	FLMEM_AUTO(flmem_recording_close) struct flmem_recording r;
	struct flmem_record record;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(records); i++)
		flmem_recorder_add(&recorder, &records[i]);
	flmem_recorder_close(&recorder);
	assert_int_equal(flmem_recording_open(path, &r, NULL), 0);
	assert_true(flmem_recording_next(&r, &record) && record.kind == FLMEM_RECORD_SESSION);
	assert_true(record.interval_us == SECOND && record.at_us == 1000000 * SECOND);
	assert_true(flmem_recording_next(&r, &record) && record.kind == FLMEM_RECORD_PROCESS);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(records); i++) {
		assert_true(flmem_recording_next(&r, &record));
		assert_int_equal(record.kind, records[i].kind);
		assert_same(&record, &records[i]);
	}
	assert_false(flmem_recording_next(&r, &record));
}

static void a_new_file_is_locked_and_never_an_old_one(void **state)
{
	FLMEM_AUTO_CLOSE int other = -1;
	struct flmem_recorder recorder;

	(void)state;
	assert_int_equal(flmem_recorder_open_new(AT_FDCWD, path, &recorder), -EEXIST);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(flmem_recorder_open_new(AT_FDCWD, path, &recorder), 0);
	other = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(other >= 0);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1);
	flmem_recorder_close(&recorder);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
}

static void only_regular_files_are_read(void **state)
{
	static const char *const others[] = {"/dev/null", "/dev/zero", "/tmp"};
	struct flmem_recording r;
	struct flmem_error err = {0};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(others); i++) {
		assert_int_equal(flmem_recording_open(others[i], &r, &err), FLMEM_EUSAGE);
		assert_non_null(strstr(err.message, "is not a regular file"));
	}
}

/* A program whose standard input is closed gets descriptor 0. */
static void a_recorder_may_have_descriptor_0(void **state)
{
	struct flmem_recorder recorder;
	uint64_t skipped;
	int input = dup(STDIN_FILENO);

	(void)state;
	close(STDIN_FILENO);
	recorder = begin(1000000 * SECOND);
	assert_int_equal(recorder.fd, STDIN_FILENO);
	add_samples(&recorder, 0, 5);
	flmem_recorder_close(&recorder);
	assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
	if (input >= 0) {
		assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
		close(input);
	}
	assert_true(count_samples(&skipped) == 5);
}

static void introduce(struct flmem_recorder *recorder, uint64_t process, const char *command)
{
	const struct flmem_record record = {.kind = FLMEM_RECORD_PROCESS,
					    .process = process,
					    .pid = 77 + process,
					    .start_time = 5,
					    .command = command,
					    .site = "site"};

	flmem_recorder_add(recorder, &record);
}

/* Every block repeats the introduction. With all earlier names of a process blocks would grow. */
static void an_introduction_has_each_process_once(void **state)
{
	struct flmem_recorder recorder;
	size_t length;

	(void)state;
	recorder = begin(1000000 * SECOND);
	for (uint64_t process = 0; process < 4; process++)
		introduce(&recorder, process, "first");
	length = recorder.intro.length;
	for (int i = 0; i < 3; i++)
		for (uint64_t process = 4; process-- > 0;) {
			introduce(&recorder, process, "other");
			assert_int_equal(recorder.intro.length, length);
			assert_non_null(memmem(recorder.intro.data, length, "other", 5));
		}
	assert_null(memmem(recorder.intro.data, length, "first", 5));
	flmem_recorder_close(&recorder);
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(varints_come_back),
		FILE_TEST(what_is_written_comes_back),
		FILE_TEST(a_month_stays_below_50_megabytes),
		FILE_TEST(a_recorder_may_have_descriptor_0),
		FILE_TEST(an_introduction_has_each_process_once),
		FILE_TEST(sessions_are_appended),
		FILE_TEST(a_torn_end_costs_one_block),
		FILE_TEST(a_torn_beginning_is_gone_on_with),
		FILE_TEST(damage_in_the_middle_costs_what_is_damaged),
		FILE_TEST(a_full_disk_loses_blocks_and_goes_on),
		FILE_TEST(a_process_is_introduced_as_the_program_that_it_is_by_now),
		FILE_TEST(two_writers_and_other_files_are_refused),
		FILE_TEST(all_kinds_of_records),
		FILE_TEST(a_new_file_is_locked_and_never_an_old_one),
		cmocka_unit_test(only_regular_files_are_read),
	};

	return cmocka_run_group_tests_name("recording", tests, NULL, NULL);
}
