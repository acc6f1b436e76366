/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "proc/limits/group_room.h"
#include "proc/process.h"

#include "tree.h"

#define PID	 77
#define V2_MOUNT "29 22 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
#define V1_MOUNT "30 22 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
#define GROUP	 "sys/fs/cgroup/a/b/"

static void put_group(const struct tree *tree, const char *most, const char *high, const char *used)
{
	tree_puts(tree, "proc/self/mountinfo", V2_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "0::/a/b\n");
	tree_puts(tree, "sys/fs/cgroup/cgroup.procs", "1\n");
	tree_puts(tree, "sys/fs/cgroup/a/cgroup.procs", "\n");
	tree_puts(tree, GROUP "cgroup.procs", "77\n");
	tree_puts(tree, GROUP "memory.max", most);
	tree_puts(tree, GROUP "memory.high", high);
	tree_puts(tree, GROUP "memory.current", used);
}

static int room_setup(void **state)
{
	int rc = tree_setup(state);

	if (!rc)
		tree_process(*state, PID, 1);
	return rc;
}

static bool until_slow = true;

static uint64_t read_room(const struct tree *tree)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_CLOSE int proc = openat(tree->fd, "proc", O_RDONLY | O_DIRECTORY);

	assert_int_equal(flmem_process_open_at(proc, PID, &process, NULL), 0);
	return flmem_group_room_left(tree->fd, &process, until_slow);
}

static void the_lower_limit_counts_and_files_can_be_dropped(void **state)
{
	const struct tree *tree = *state;

	put_group(tree, "max\n", "max\n", "900\n");
	assert_true(read_room(tree) == UINT64_MAX);
	put_group(tree, "1000\n", "max\n", "900\n");
	assert_int_equal(read_room(tree), 100);
	put_group(tree, "1000\n", "950\n", "900\n");
	assert_int_equal(read_room(tree), 50);
	until_slow = false;
	assert_int_equal(read_room(tree), 100);
	until_slow = true;
	put_group(tree, "1000\n", "950\n", "2000\n");
	assert_int_equal(read_room(tree), 0);
	put_group(tree, "1000\n", "max\n", "900\n");
	tree_puts(tree, GROUP "memory.stat",
		  "anon 400\nfile 500\nfile_mapped 60\ninactive_file 200\nactive_file 110\n");
	assert_int_equal(read_room(tree), 350);
	/* All these pages are mapped, or belong to files in memory. */
	tree_puts(tree, GROUP "memory.stat",
		  "anon 400\nfile_mapped 310\ninactive_file 200\nactive_file 110\n");
	assert_int_equal(read_room(tree), 100);
	tree_puts(tree, GROUP "memory.stat", "anon 400\ninactive_file 200\nactive_file 110\n");
	assert_int_equal(read_room(tree), 100);
}

static void a_group_above_may_leave_less(void **state)
{
	const struct tree *tree = *state;

	put_group(tree, "1000\n", "max\n", "900\n");
	tree_puts(tree, "sys/fs/cgroup/a/memory.max", "1500\n");
	tree_puts(tree, "sys/fs/cgroup/a/memory.current", "1470\n");
	assert_int_equal(read_room(tree), 30);
}

static void version_1_counts_memory_in_a_group_of_its_own(void **state)
{
	const struct tree *tree = *state;

	put_group(tree, "1000\n", "max\n", "900\n");
	tree_puts(tree, "proc/self/mountinfo", V2_MOUNT V1_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "5:memory:/m\n0::/a/b\n");
	tree_puts(tree, "sys/fs/cgroup/memory/m/cgroup.procs", "77\n");
	tree_puts(tree, "sys/fs/cgroup/memory/m/memory.limit_in_bytes", "3000\n");
	tree_puts(tree, "sys/fs/cgroup/memory/m/memory.usage_in_bytes", "2900\n");
	tree_puts(tree, "sys/fs/cgroup/memory/m/memory.stat",
		  "mapped_file 1\ntotal_mapped_file 10\ntotal_inactive_file 20\n"
		  "total_active_file 40\n");
	assert_int_equal(read_room(tree), 150);
	tree_puts(tree, "proc/77/cgroup", "5:memory:/elsewhere\n");
	assert_true(read_room(tree) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_lower_limit_counts_and_files_can_be_dropped,
						room_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(a_group_above_may_leave_less, room_setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(version_1_counts_memory_in_a_group_of_its_own,
						room_setup, tree_teardown),
	};

	return cmocka_run_group_tests_name("group room", tests, NULL, NULL);
}
