/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the open files of a process by their links, and when a process started. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/files/descriptors.h"
#include "proc/process.h"

static unsigned count_descriptors(const struct flmem_process *process, unsigned most, int *ret_end)
{
	FLMEM_AUTO_DESCRIPTORS struct flmem_descriptors files = {0};
	unsigned count = 0;

	assert_int_equal(flmem_descriptors_open(process, most, &files), 0);
	while ((*ret_end = flmem_descriptors_next(&files)) > 0)
		count++;
	return count;
}

static void each_open_file_is_one_entry(void **state)
{
	FLMEM_AUTO_CLOSE int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_DESCRIPTORS struct flmem_descriptors files = {0};
	struct stat expected, status;
	unsigned found = 0;

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	assert_int_equal(fstat(null, &expected), 0);
	assert_int_equal(flmem_descriptors_open(&process, 1000, &files), 0);
	while (flmem_descriptors_next(&files) > 0) {
		if (strcmp(files.target, "/dev/null") != 0)
			continue;
		assert_int_equal(fstatat(dirfd(files.dir), files.name, &status, 0), 0);
		assert_int_equal(status.st_rdev, expected.st_rdev);
		found++;
	}
	assert_true(found >= 1);
}

static void more_than_the_limit_is_reported(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	unsigned all;
	int end;

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	all = count_descriptors(&process, 1000, &end);
	assert_int_equal(end, 0);
	assert_true(all > 1);
	assert_int_equal(count_descriptors(&process, all, &end), all);
	assert_int_equal(end, 0);
	assert_int_equal(count_descriptors(&process, all - 1, &end), all - 1);
	assert_int_equal(end, -E2BIG);
}

static void a_process_that_has_ended_has_none(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_DESCRIPTORS struct flmem_descriptors files = {0};
	pid_t child = fork();

	(void)state;
	if (child == 0)
		for (;;)
			pause();
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_true(flmem_descriptors_open(&process, 10, &files) < 0);
}

static void a_process_starts_between_two_readings_of_the_clock(void **state)
{
	const uint64_t tick_us = 1000000U / (uint64_t)sysconf(_SC_CLK_TCK);
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	uint64_t before_us = flmem_clock_wall_us(), after_us, started_us;
	pid_t child = fork();

	(void)state;
	if (child == 0)
		for (;;)
			pause();
	after_us = flmem_clock_wall_us();
	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	started_us = flmem_process_started_us(&process);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_true(started_us + 2 * tick_us >= before_us);
	assert_true(started_us <= after_us + tick_us);
}

static void an_impossible_start_does_not_wrap(void **state)
{
	struct flmem_process process = FLMEM_PROCESS_INIT;

	(void)state;
	process.start_time = UINT64_MAX;
	assert_true(flmem_process_started_us(&process) == INT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_open_file_is_one_entry),
		cmocka_unit_test(more_than_the_limit_is_reported),
		cmocka_unit_test(a_process_that_has_ended_has_none),
		cmocka_unit_test(a_process_starts_between_two_readings_of_the_clock),
		cmocka_unit_test(an_impossible_start_does_not_wrap),
	};

	return cmocka_run_group_tests_name("descriptors", tests, NULL, NULL);
}
