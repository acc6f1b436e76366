/* SPDX-License-Identifier: Apache-2.0 */
/* Tests work in a child process that can be left behind. */
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
#include <unistd.h>

#include "base/forked_task.h"

#define TIMEOUT_US 20000000U
#define LEFT_MAX   16

struct task {
	int given, opened, unused;
	char text[20000]; /* as large as the work of a profile */
};

static int open_null(void *context)
{
	struct task *task = context;
	struct stat status;

	if (fstat(task->given, &status))
		return -errno;
	task->opened = open("/dev/null", O_RDONLY | O_CLOEXEC);
	memset(task->text, 'x', sizeof(task->text));
	return -EXDEV;
}

static void the_context_and_what_was_opened_come_back(void **state)
{
	static struct task task = {.opened = -1, .unused = -1};
	const struct flmem_forked_task apart = {
		.run = open_null,
		.context = &task,
		.size = sizeof(task),
		.descriptors = {&task.given, &task.opened, &task.unused},
	};
	const int given = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	struct stat status, null;

	(void)state;
	task.given = given;
	assert_int_equal(flmem_forked_task_run(&apart, TIMEOUT_US), -EXDEV);
	assert_true(task.text[0] == 'x' && task.text[sizeof(task.text) - 1] == 'x');
	assert_int_equal(task.given, given);
	assert_int_equal(task.unused, -1);
	assert_int_equal(stat("/dev/null", &null), 0);
	assert_int_equal(fstat(task.opened, &status), 0);
	assert_int_equal(status.st_rdev, null.st_rdev);
	assert_true(fcntl(task.opened, F_GETFD) & FD_CLOEXEC);
	close(task.opened);
	close(given);
}

static int be_killed(void *context)
{
	(void)context;
	raise(SIGKILL);
	return 0;
}

static void a_child_that_was_killed_is_an_error(void **state)
{
	struct task task = {.text = "before"};
	const struct flmem_forked_task apart = {
		.run = be_killed, .context = &task, .size = sizeof(task)};

	(void)state;
	assert_int_equal(flmem_forked_task_run(&apart, TIMEOUT_US), -EIO);
	assert_string_equal(task.text, "before");
	/* A wait for all children of the program does not see it. */
	assert_int_equal(waitpid(-1, NULL, __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

static int wait_long(void *context)
{
	const struct task *task = context;
	char byte;

	return read(task->given, &byte, 1) ? -errno : 0;
}

/* A reader of flmem's output sees its end, and nothing accumulates. */
static void a_child_that_is_left_holds_nothing_else(void **state)
{
	struct task task = {.opened = -1};
	const struct flmem_forked_task apart = {.run = wait_long,
						.context = &task,
						.size = sizeof(task),
						.descriptors = {&task.given}};
	int held[2], output[2], rc = 0, left = 0;
	char byte;

	(void)state;
	assert_int_equal(pipe2(held, O_CLOEXEC), 0);
	assert_int_equal(pipe2(output, O_CLOEXEC), 0);
	task.given = held[0];
	while (left <= LEFT_MAX && (rc = flmem_forked_task_run(&apart, 0)) == -ETIMEDOUT)
		left++;
	assert_int_equal(rc, -EBUSY);
	assert_int_equal(left, LEFT_MAX);
	close(output[1]);
	assert_int_equal(read(output[0], &byte, 1), 0);
	close(held[1]); /* they all end */
	for (int i = 0; i < 20000 && (rc = flmem_forked_task_run(&apart, TIMEOUT_US)) == -EBUSY;
	     i++)
		usleep(1000);
	assert_int_equal(rc, 0);
	close(held[0]);
	close(output[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_context_and_what_was_opened_come_back),
		cmocka_unit_test(a_child_that_was_killed_is_an_error),
		cmocka_unit_test(a_child_that_is_left_holds_nothing_else),
	};

	return cmocka_run_group_tests_name("apart", tests, NULL, NULL);
}
