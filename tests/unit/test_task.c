/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "proc/task.h"

#include "tree.h"

#define PID 77

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
	/* A thread that queries itself is in that very read. */
	assert_int_equal(flmem_task_read_wait(&self, getpid(), &wait), 1);
	assert_int_equal(wait.number, SYS_pread64);
	flmem_task_name(&self, getpid(), name, sizeof(name));
	assert_true(strncmp(name, "test_task", 9) == 0);
	assert_int_equal(flmem_task_read_wait(&self, 1, &wait), -ENOENT);
	assert_int_equal(flmem_task_open_wait(&self, 1), -ENOENT);
}

/* An entry that readdir() leaves out once, as the kernel does when a thread before it ends. */
static const char *left_out;

struct dirent *__real_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir)
{
	struct dirent *entry = __real_readdir(dir);

	if (!entry || !left_out || strcmp(entry->d_name, left_out) != 0)
		return entry;
	left_out = NULL;
	return __real_readdir(dir);
}

static void a_thread_that_one_list_lacks_is_listed(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	const struct tree *tree = *state;
	FLMEM_AUTO_CLOSE int proc = openat(tree->fd, "proc", O_RDONLY | O_DIRECTORY);
	bool found = false;
	char name[48];

	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "proc/77/task/%d/comm", 78 + i);
		tree_puts(tree, name, "");
	}
	assert_int_equal(flmem_process_open_at(proc, PID, &process, NULL), 0);
	left_out = "80";
	assert_int_equal(flmem_tasks_read(&process, &tasks), 0);
	assert_null(left_out);
	for (size_t i = 0; i < tasks.count; i++) {
		found |= tasks.ids[i] == 80;
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(tasks.ids[i], tasks.ids[k]);
	}
	assert_true(found);
	assert_true(tasks.count >= 5);
}

/* The mapping is that of the stack that a thread is on. */
static void a_mapping_ends_before_its_end(void **state)
{
	struct flmem_map rows[] = {{.start = 4096, .end = 8192}, {.start = 8192, .end = 12288}};
	const struct flmem_maps maps = {.rows = rows, .count = 2};

	(void)state;
	assert_null(flmem_maps_find(&maps, 4095));
	assert_ptr_equal(flmem_maps_find(&maps, 4096), &rows[0]);
	assert_ptr_equal(flmem_maps_find(&maps, 8191), &rows[0]);
	assert_ptr_equal(flmem_maps_find(&maps, 8192), &rows[1]);
	assert_null(flmem_maps_find(&maps, 12288));
}

static void a_thread_has_its_name(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process self = FLMEM_PROCESS_INIT;
	char name[32] = "none";

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &self, NULL), 0);
	assert_int_equal(prctl(PR_SET_NAME, "jemalloc_bg_thd"), 0);
	flmem_task_name(&self, getpid(), name, sizeof(name));
	assert_string_equal(name, "jemalloc_bg_thd");
	flmem_task_name(&self, 0, name, sizeof(name));
	assert_string_equal(name, "");
}

static void an_open_file_shows_what_a_thread_waits_in_now(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process self = FLMEM_PROCESS_INIT;
	struct flmem_task_wait wait;

	(void)state;
	assert_int_equal(flmem_process_open(getpid(), &self, NULL), 0);
	FLMEM_AUTO_CLOSE int fd = flmem_task_open_wait(&self, getpid());
	assert_true(fd >= 0);
	for (int i = 0; i < 2; i++) {
		wait = (struct flmem_task_wait){0};
		assert_int_equal(flmem_task_read_open_wait(fd, &wait), 1);
		assert_int_equal(wait.number, SYS_pread64);
		assert_int_equal(wait.args[0], fd);
	}
	assert_int_equal(flmem_task_read_open_wait(-1, &wait), -EBADF);
}

struct shown {
	const char *wchan, *stack; /* texts of the files wchan and stack; NULL: not shown */
	bool frozen, supervised;
};

static void what_a_thread_waits_in_is_also_found_in_its_stack(void **state)
{
	/* The stacks are those of Linux 5.10, which has no names in wchan on x86-64. */
	static const struct shown rows[] = {
		{"do_freezer_trap", NULL, true, false},
		{"get_signal.isra.0", NULL, true, false},
		{"seccomp_do_user_notification.constprop.0", NULL, false, true},
		{"__seccomp_filter", NULL, false, true},
		{"pipe_read", "[<0>] get_signal+0x4b1/0x8c0\n", false, false},
		{"0", "[<0>] get_signal+0x4b1/0x8c0\n[<0>] arch_do_signal_or_restart+0xf1/0x7e0\n",
		 true, false},
		{"0", "[<0>] seccomp_do_user_notification.constprop.0+0x12a/0x1f0\n", false, true},
		{"0", "[<0>] pipe_read+0x2fa/0x400\n[<0>] get_signal+0x4b1/0x8c0\n", false, false},
		{"0", "", false, false},
		{"0", NULL, false, false},
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
		const struct tree *tree = *state;
		FLMEM_AUTO_CLOSE int proc = openat(tree->fd, "proc", O_RDONLY | O_DIRECTORY);

		tree_puts(tree, "proc/77/task/78/wchan", rows[i].wchan);
		unlinkat(tree->fd, "proc/77/task/78/stack", 0);
		if (rows[i].stack)
			tree_puts(tree, "proc/77/task/78/stack", rows[i].stack);
		assert_int_equal(flmem_process_open_at(proc, PID, &process, NULL), 0);
		assert_int_equal(flmem_task_is_frozen(&process, 78), rows[i].frozen);
		assert_int_equal(flmem_task_is_supervised(&process, 78), rows[i].supervised);
	}
}

static int setup(void **state)
{
	int rc = tree_setup(state);

	if (!rc)
		tree_process(*state, PID, 1);
	return rc;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_blocked_thread_is_read_in_full),
		cmocka_unit_test(running_and_faulting_threads_are_told_apart),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(the_own_threads_are_listed),
		cmocka_unit_test_setup_teardown(a_thread_that_one_list_lacks_is_listed, setup,
						tree_teardown),
		cmocka_unit_test(a_mapping_ends_before_its_end),
		cmocka_unit_test(a_thread_has_its_name),
		cmocka_unit_test(an_open_file_shows_what_a_thread_waits_in_now),
		cmocka_unit_test_setup_teardown(what_a_thread_waits_in_is_also_found_in_its_stack,
						setup, tree_teardown),
	};

	return cmocka_run_group_tests_name("task", tests, NULL, NULL);
}
