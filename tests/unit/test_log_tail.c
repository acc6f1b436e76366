/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text/buf.h"
#include "ops/watch/log_tail.h"

static char directory[64], path[96], other[96];

static int setup(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/flmem-log-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/log.txt", directory);
	snprintf(other, sizeof(other), "%s/log.txt.1", directory);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	unlink(other);
	return rmdir(directory);
}

static void write_bytes(const char *bytes, size_t length, int flags)
{
	FLMEM_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);

	assert_true(fd >= 0);
	assert_true(write(fd, bytes, length) == (ssize_t)length);
}

static void append(const char *text)
{
	write_bytes(text, strlen(text), O_APPEND);
}

static void visit(void *context, char *line, size_t length)
{
	struct flmem_buf *seen = context;

	line[length] = '\0';
	flmem_buf_printf(seen, "%s|", line);
}

/* Expects these lines of a read of the log, each with a bar after it. */
static void assert_lines(struct flmem_log *log, const char *expected)
{
	FLMEM_AUTO_BUF struct flmem_buf seen = FLMEM_BUF_INIT;

	flmem_log_poll(log, visit, &seen);
	assert_string_equal(seen.data, expected);
}

static void lines_come_when_they_are_whole(void **state)
{
	FLMEM_AUTO_LOG struct flmem_log log = {.fd = -1};

	(void)state;
	append("old\n");
	assert_int_equal(flmem_log_open(path, 0, &log, NULL), 0);
	assert_lines(&log, "");
	append("one\ntw");
	assert_lines(&log, "one|");
	append("o\n\nthree\n");
	assert_lines(&log, "two||three|");
	assert_lines(&log, "");
}

static void the_past_begins_with_a_whole_line(void **state)
{
	FLMEM_AUTO_LOG struct flmem_log log = {.fd = -1}, all = {.fd = -1};

	(void)state;
	append("first\nsecond\nthird\n");
	assert_int_equal(flmem_log_open(path, 10, &log, NULL), 0);
	assert_lines(&log, "third|");
	assert_int_equal(flmem_log_open(path, 1000, &all, NULL), 0);
	assert_lines(&all, "first|second|third|");
}

static void a_log_may_come_later_and_vanish(void **state)
{
	FLMEM_AUTO_LOG struct flmem_log log = {.fd = -1};

	(void)state;
	assert_int_equal(flmem_log_open(path, 100, &log, NULL), 0);
	assert_lines(&log, "");
	append("born\n");
	assert_lines(&log, "born|");
	append("last words\n");
	unlink(path);
	assert_lines(&log, "last words|");
	assert_lines(&log, "");
	append("born again\n");
	assert_lines(&log, "born again|");
}

static void rotation_loses_nothing(void **state)
{
	FLMEM_AUTO_LOG struct flmem_log log = {.fd = -1};

	(void)state;
	append("a\n");
	assert_int_equal(flmem_log_open(path, 100, &log, NULL), 0);
	assert_lines(&log, "a|");
	append("b\n");
	assert_int_equal(rename(path, other), 0);
	append("c\n");
	assert_lines(&log, "b|c|");
	append("d\n");
	assert_lines(&log, "d|");
}

static void a_log_that_is_cut_is_read_from_its_start(void **state)
{
	FLMEM_AUTO_LOG struct flmem_log log = {.fd = -1};

	(void)state;
	append("a long line\nand the half of");
	assert_int_equal(flmem_log_open(path, 100, &log, NULL), 0);
	assert_lines(&log, "a long line|");
	assert_int_equal(truncate(path, 0), 0);
	append("new\n");
	assert_lines(&log, "new|");
}

static void a_log_that_is_written_anew_is_read_from_its_start(void **state)
{
	FLMEM_AUTO_LOG struct flmem_log log = {.fd = -1};

	(void)state;
	append("round 1\n");
	assert_int_equal(flmem_log_open(path, 0, &log, NULL), 0);
	assert_int_equal(truncate(path, 0), 0);
	append("round 2\n");
	assert_lines(&log, "round 2|");
	assert_int_equal(truncate(path, 0), 0);
	append("round 3\nround 4\n");
	assert_lines(&log, "round 3|round 4|");
	append("round 5\n");
	assert_lines(&log, "round 5|");
}

/*
 * As sed -i and rsync do, the test puts another file under the name, with the text that was read
 * from the first one.
 */
static void a_log_that_is_replaced_by_a_copy_is_read_on(void **state)
{
	FLMEM_AUTO_LOG struct flmem_log log = {.fd = -1};

	(void)state;
	append("09:00 round 1\n09:01 rou");
	assert_int_equal(flmem_log_open(path, 100, &log, NULL), 0);
	assert_lines(&log, "09:00 round 1|");
	assert_int_equal(rename(path, other), 0);
	append("09:00 round 1\n09:01 round 2\n");
	assert_lines(&log, "09:01 round 2|");
	assert_int_equal(unlink(path), 0);
	append("09:00 round 1\n09:01 round 8\n09:02 round 3\n");
	assert_lines(&log, "09:00 round 1|09:01 round 8|09:02 round 3|");
}

/*
 * As cp does, the test empties the file first, and flmem sees it empty. Another log is read from
 * its start.
 */
static void a_log_that_is_cut_and_copied_back_is_read_on(void **state)
{
	FLMEM_AUTO_LOG struct flmem_log log = {.fd = -1};

	(void)state;
	append("09:00 round 1\n");
	assert_int_equal(flmem_log_open(path, 100, &log, NULL), 0);
	assert_lines(&log, "09:00 round 1|");
	assert_int_equal(truncate(path, 0), 0);
	assert_lines(&log, "");
	append("09:00 round 1\n09:01 round 2\n");
	assert_lines(&log, "09:01 round 2|");
	assert_int_equal(truncate(path, 0), 0);
	assert_lines(&log, "");
	append("09:02 round 3\n");
	assert_lines(&log, "09:02 round 3|");
	append("09:01 round 2\n");
	assert_lines(&log, "09:01 round 2|");
}

/* A writer without O_APPEND leaves a hole where the file was cut, and continues after it. */
static void a_hole_is_not_another_log(void **state)
{
	FLMEM_AUTO_LOG struct flmem_log log = {.fd = -1};

	(void)state;
	append("round 1\n");
	assert_int_equal(flmem_log_open(path, 100, &log, NULL), 0);
	assert_lines(&log, "round 1|");
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(truncate(path, 8), 0);
	append("round 2\n");
	assert_lines(&log, "round 2|");
}

static void long_lines_and_rubbish_are_bounded(void **state)
{
	FLMEM_AUTO_LOG struct flmem_log log = {.fd = -1};
	FLMEM_AUTO_FREE char *rubbish = malloc(FLMEM_LOG_LINE_MAX * 3);
	FLMEM_AUTO_BUF struct flmem_buf seen = FLMEM_BUF_INIT;

	(void)state;
	assert_non_null(rubbish);
	assert_int_equal(flmem_log_open(path, 0, &log, NULL), 0);
	memset(rubbish, 'x', FLMEM_LOG_LINE_MAX * 3);
	write_bytes(rubbish, FLMEM_LOG_LINE_MAX * 3, O_APPEND);
	append("\nafter\n");
	flmem_log_poll(&log, visit, &seen);
	assert_int_equal(seen.length, FLMEM_LOG_LINE_MAX + strlen("|after|"));
	assert_string_equal(seen.data + FLMEM_LOG_LINE_MAX, "|after|");
	memset(rubbish, 0, FLMEM_LOG_LINE_MAX * 3);
	write_bytes(rubbish, FLMEM_LOG_LINE_MAX * 3, O_APPEND);
	append("\nafter\n");
	flmem_buf_reset(&seen);
	flmem_log_poll(&log, visit, &seen);
	assert_string_equal(seen.data, "|after|");
}

static void much_at_once_comes_in_turns(void **state)
{
	FLMEM_AUTO_LOG struct flmem_log log = {.fd = -1};
	FLMEM_AUTO_BUF struct flmem_buf seen = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf bytes = FLMEM_BUF_INIT;
	size_t polls = 0, last;

	(void)state;
	for (unsigned i = 0; i < 2000000; i++)
		flmem_buf_puts(&bytes, "12345678\n");
	assert_int_equal(flmem_log_open(path, 0, &log, NULL), 0);
	write_bytes(bytes.data, bytes.length, O_APPEND);
	do {
		last = seen.length;
		flmem_log_poll(&log, visit, &seen);
		polls++;
	} while (seen.length > last);
	assert_true(polls > 2);
	assert_int_equal(seen.length, bytes.length);
}

/* The bytes of the line are a hole, so that none is written. */
static void a_huge_line_does_not_hide_the_next_ones(void **state)
{
	static const off_t huge = (off_t)100 << 20;
	FLMEM_AUTO_LOG struct flmem_log log = {.fd = -1};
	FLMEM_AUTO_BUF struct flmem_buf seen = FLMEM_BUF_INIT;

	(void)state;
	append("old\n");
	assert_int_equal(flmem_log_open(path, 0, &log, NULL), 0);
	assert_return_code(truncate(path, huge), 0);
	append("\nround 2\n");
	for (size_t polls = 0; polls < 2; polls++)
		flmem_log_poll(&log, visit, &seen);
	assert_true(log.next.offset > huge);
	assert_non_null(strstr(seen.data, "|round 2|"));
}

static void only_regular_files_are_logs(void **state)
{
	struct flmem_log log = {.fd = -1};
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_log_open(directory, 0, &log, &err), FLMEM_EUSAGE);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(flmem_log_open(path, 0, &log, &err), FLMEM_EUSAGE);
	assert_non_null(strstr(err.message, "not a regular file"));
	assert_int_equal(flmem_log_open("/dev/zero", 0, &log, &err), FLMEM_EUSAGE);
}

static void a_log_that_becomes_a_pipe_is_left_alone(void **state)
{
	FLMEM_AUTO_LOG struct flmem_log log = {.fd = -1};

	(void)state;
	append("a\n");
	assert_int_equal(flmem_log_open(path, 100, &log, NULL), 0);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_lines(&log, "a|");
	assert_lines(&log, "");
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOG_TEST(lines_come_when_they_are_whole),
		LOG_TEST(the_past_begins_with_a_whole_line),
		LOG_TEST(a_log_may_come_later_and_vanish),
		LOG_TEST(rotation_loses_nothing),
		LOG_TEST(a_log_that_is_written_anew_is_read_from_its_start),
		LOG_TEST(a_log_that_is_replaced_by_a_copy_is_read_on),
		LOG_TEST(a_log_that_is_cut_and_copied_back_is_read_on),
		LOG_TEST(a_hole_is_not_another_log),
		LOG_TEST(a_log_that_is_cut_is_read_from_its_start),
		LOG_TEST(long_lines_and_rubbish_are_bounded),
		LOG_TEST(much_at_once_comes_in_turns),
		LOG_TEST(a_huge_line_does_not_hide_the_next_ones),
		LOG_TEST(only_regular_files_are_logs),
		LOG_TEST(a_log_that_becomes_a_pipe_is_left_alone),
	};

	return cmocka_run_group_tests_name("log_tail", tests, NULL, NULL);
}
