/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proc/scan.h"

#include "tree.h"

static void processes_of_a_tree_are_found_with_their_parents(void **state)
{
	FLMEM_AUTO_SCAN struct flmem_scan scan = {0};
	FLMEM_AUTO_CLOSE int proc = -1;
	struct tree tree;

	(void)state;
	tree_init(&tree);
	tree_process(&tree, 1, 0);
	tree_process(&tree, 20, 1);
	tree_process(&tree, 300, 20);
	tree_process(&tree, 4000, 300);
	tree_process(&tree, 41, 40); /* two processes that claim each other as parent */
	tree_process(&tree, 40, 41);
	tree_puts(&tree, "proc/self/stat", "no process");
	tree_puts(&tree, "proc/99/stat", "garbled");
	tree_puts(&tree, "proc/98x/stat", "98 (a) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n");
	proc = openat(tree.fd, "proc", O_RDONLY | O_DIRECTORY);
	assert_int_equal(flmem_scan_read(proc, &scan, NULL), 0);
	tree_clear(&tree);

	assert_int_equal(scan.count, 6);
	assert_non_null(flmem_scan_find(&scan, 300));
	assert_int_equal(flmem_scan_find(&scan, 300)->parent, 20);
	assert_int_equal(flmem_scan_find(&scan, 300)->start_time, 1300);
	assert_null(flmem_scan_find(&scan, 99));
	assert_true(flmem_scan_descends(&scan, 4000, 20));
	assert_true(flmem_scan_descends(&scan, 20, 20));
	assert_false(flmem_scan_descends(&scan, 20, 4000));
	assert_false(flmem_scan_descends(&scan, 40, 1));
	assert_false(flmem_scan_descends(&scan, 7, 1));
}

static void kernel_threads_and_zombies_do_not_run(void **state)
{
	FLMEM_AUTO_SCAN struct flmem_scan scan = {0};
	FLMEM_AUTO_CLOSE int proc = open(FIXTURES "/proc/plain", O_RDONLY | O_DIRECTORY);

	(void)state;
	assert_int_equal(flmem_scan_read(proc, &scan, NULL), 0);
	assert_int_equal(scan.count, 3);
	assert_true(flmem_scan_row_runs(flmem_scan_find(&scan, 4711)));
	assert_false(flmem_scan_row_runs(flmem_scan_find(&scan, 4712)));
	assert_false(flmem_scan_row_runs(flmem_scan_find(&scan, 2)));
}

static void a_child_of_this_process_is_seen(void **state)
{
	FLMEM_AUTO_SCAN struct flmem_scan scan = {0};
	FLMEM_AUTO_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY);
	pid_t child = fork();

	(void)state;
	if (child == 0)
		for (;;)
			pause();
	assert_true(child > 0);
	assert_int_equal(flmem_scan_read(proc, &scan, NULL), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_non_null(flmem_scan_find(&scan, child));
	assert_true(flmem_scan_descends(&scan, child, getpid()));
	assert_false(flmem_scan_descends(&scan, getpid(), child));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes_of_a_tree_are_found_with_their_parents),
		cmocka_unit_test(kernel_threads_and_zombies_do_not_run),
		cmocka_unit_test(a_child_of_this_process_is_seen),
	};

	return cmocka_run_group_tests_name("scan", tests, NULL, NULL);
}
