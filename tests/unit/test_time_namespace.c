/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "proc/time_namespace.h"

#include "tree.h"

#define PID	77
#define TICKS	UINT64_C(5000) /* ticks of the process, as flmem sees them */
#define OFFSETS "proc/77/timens_offsets"

static bool is_start(const struct tree *tree, uint64_t ticks)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

	process.pid = PID;
	process.start_time = TICKS;
	process.dirfd = openat(tree->fd, "proc/77", O_RDONLY | O_DIRECTORY);
	assert_true(process.dirfd >= 0);
	return flmem_time_namespace_is_start(&process, ticks);
}

static void offsets_shift_the_start(void **state)
{
	const struct tree *tree = *state;
	const uint64_t rate = (uint64_t)sysconf(_SC_CLK_TCK);

	tree_puts(tree, OFFSETS,
		  "monotonic           7         0\nboottime          1000         0\n");
	if (access("/proc/self/timens_offsets", F_OK) < 0)
		skip();
	assert_true(is_start(tree, TICKS));
	assert_true(is_start(tree, TICKS + 1000 * rate));
	assert_false(is_start(tree, TICKS + 1000 * rate + 1));
	assert_false(is_start(tree, TICKS + 1000 * rate - 1));
	assert_false(is_start(tree, TICKS + 7 * rate));
	tree_puts(tree, OFFSETS, "monotonic 7 0\nboottime -20 0\n");
	assert_true(is_start(tree, TICKS - 20 * rate));
	assert_false(is_start(tree, TICKS + 20 * rate));
	/* An offset of half a tick may be rounded either way. */
	tree_puts(tree, OFFSETS, "monotonic 7 0\nboottime 20 5000000\n");
	assert_true(is_start(tree, TICKS + 20 * rate));
	assert_true(is_start(tree, TICKS + 20 * rate + 1));
	assert_false(is_start(tree, TICKS + 20 * rate + 2));
	assert_false(is_start(tree, TICKS + 20 * rate - 1));
}

static void what_is_no_offset_shifts_nothing(void **state)
{
	const struct tree *tree = *state;

	tree_puts(tree, "proc/77/stat", "");
	assert_true(is_start(tree, TICKS));
	assert_false(is_start(tree, TICKS + 1));
	for (size_t i = 0; i < 3; i++) {
		static const char *const texts[] = {"boottime\n", "boottime 20\n",
						    "boottime 99999999999999999999 0\n"};

		tree_puts(tree, OFFSETS, texts[i]);
		assert_true(is_start(tree, TICKS));
		assert_false(is_start(tree, TICKS + 2000));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(offsets_shift_the_start, tree_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(what_is_no_offset_shifts_nothing, tree_setup,
						tree_teardown),
	};

	return cmocka_run_group_tests_name("time namespace", tests, NULL, NULL);
}
