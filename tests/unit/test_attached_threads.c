/* SPDX-License-Identifier: Apache-2.0 */
/* Threads whose seccomp filters are not those of the thread that was checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ops/profile/attached.h"
#include "proc/process.h"

#include "tree.h"

#define PID 77

static void write_thread(const struct tree *tree, int tid, const char *seccomp)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "proc/%d/task/%d/status", PID, tid);
	snprintf(text, sizeof(text), "Name:\tx\nState:\tS (sleeping)\nTgid:\t%d\nPid:\t%d\n%s", PID,
		 tid, seccomp);
	tree_puts(tree, path, text);
}

static int check_with(const struct tree *tree, const char *first, const char *second)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

	write_thread(tree, PID, first);
	write_thread(tree, PID + 1, second);
	process.pid = PID;
	process.dirfd = openat(tree->fd, "proc/77", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(process.dirfd >= 0);
	return flmem_attached_threads_check(&process, NULL);
}

#define SECCOMP(mode, filters) "Seccomp:\t" #mode "\nSeccomp_filters:\t" #filters "\n"

static void other_filters_are_refused(void **state)
{
	const struct tree *tree = *state;

	assert_int_equal(check_with(tree, SECCOMP(0, 0), SECCOMP(0, 0)), 0);
	assert_int_equal(check_with(tree, SECCOMP(2, 1), SECCOMP(2, 1)), 0);
	assert_int_equal(check_with(tree, SECCOMP(0, 0), SECCOMP(2, 1)), FLMEM_EUNSUPPORTED);
	assert_int_equal(check_with(tree, SECCOMP(2, 1), SECCOMP(0, 0)), FLMEM_EUNSUPPORTED);
	assert_int_equal(check_with(tree, SECCOMP(2, 1), SECCOMP(2, 2)), FLMEM_EUNSUPPORTED);
}

/* Strict mode has no filters, and before Linux 5.9 the status lacks their number. */
static void another_mode_is_refused(void **state)
{
	const struct tree *tree = *state;

	assert_int_equal(check_with(tree, SECCOMP(0, 0), SECCOMP(1, 0)), FLMEM_EUNSUPPORTED);
	assert_int_equal(check_with(tree, "Seccomp:\t0\n", "Seccomp:\t2\n"), FLMEM_EUNSUPPORTED);
	assert_int_equal(check_with(tree, "Seccomp:\t2\n", "Seccomp:\t2\n"), 0);
	assert_int_equal(check_with(tree, "", ""), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(other_filters_are_refused, tree_setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(another_mode_is_refused, tree_setup, tree_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
