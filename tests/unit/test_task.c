/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "proc/task.h"

static void a_blocked_thread_is_read_in_full(void **state)
{
	struct flmem_task_wait wait = {0};

	(void)state;
	assert_int_equal(flmem_task_wait_parse("232 0x4 0x7f0011223344 0x20 0xffffffff 0x0 0x8 "
					       "0x7ffd00000010 0x7f00aabbccdd\n",
					       &wait),
			 1);
	assert_int_equal(wait.number, 232);
	assert_int_equal(wait.args[1], 0x7f0011223344);
	assert_int_equal(wait.args[3], 0xffffffff);
	assert_int_equal(wait.sp, 0x7ffd00000010);
	assert_int_equal(wait.pc, 0x7f00aabbccdd);
}

static void running_and_faulting_threads_are_told_apart(void **state)
{
	struct flmem_task_wait wait = {.number = 5};

	(void)state;
	assert_int_equal(flmem_task_wait_parse("running\n", &wait), 0);
	assert_int_equal(wait.number, 5);
	assert_int_equal(flmem_task_wait_parse("-1 0x7ffd00000010 0x7f00aabbccdd\n", &wait), 1);
	assert_int_equal(wait.number, -1);
	assert_int_equal(wait.sp, 0x7ffd00000010);
}

static void nonsense_is_refused(void **state)
{
	static const char *const rows[] = {
		"",
		"\n",
		"x",
		"232",
		"232 0x1 0x2 0x3",
		"232 1 2 3 4 5 6 7 8",
		"232 0x11112222333344445 0x0 0x0 0x0 0x0 0x0 0x0 0x0",
		"123456 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0",
		"-1",
	};
	struct flmem_task_wait wait;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		assert_int_equal(flmem_task_wait_parse(rows[i], &wait), -EPROTO);
}

static void the_own_threads_are_listed(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process self = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	struct flmem_task_wait wait;
	bool found = false;
	char name[32];

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &self, NULL), 0);
	assert_int_equal(flmem_tasks_read(&self, &tasks), 0);
	for (size_t i = 0; i < tasks.count; i++)
		found |= tasks.ids[i] == getpid();
	assert_true(found);
	/* A thread that asks about itself is in that very read. */
	assert_int_equal(flmem_task_read_wait(&self, getpid(), &wait), 1);
	assert_int_equal(wait.number, SYS_read);
	flmem_task_name(&self, getpid(), name, sizeof(name));
	assert_true(strncmp(name, "test_task", 9) == 0);
	assert_int_equal(flmem_task_read_wait(&self, 1, &wait), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_blocked_thread_is_read_in_full),
		cmocka_unit_test(running_and_faulting_threads_are_told_apart),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(the_own_threads_are_listed),
	};

	return cmocka_run_group_tests_name("task", tests, NULL, NULL);
}
