/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "proc/limits/cpu_quota.h"
#include "proc/process.h"

#include "tree.h"

#define PID	 77
#define V2_MOUNT "29 22 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
#define V1_MOUNT "30 22 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
#define V1_GROUP "sys/fs/cgroup/cpu/c/"

static int quota_setup(void **state)
{
	int rc = tree_setup(state);

	if (!rc)
		tree_process(*state, PID, 1);
	return rc;
}

static void expect_quota(const struct tree *tree, uint64_t least_us, uint64_t longest_period_us)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_CLOSE int proc = openat(tree->fd, "proc", O_RDONLY | O_DIRECTORY);
	struct flmem_cpu_quota quota;

	assert_int_equal(flmem_process_open_at(proc, PID, &process, NULL), 0);
	quota = flmem_cpu_quota_read(tree->fd, &process);
	assert_true(quota.least_us == least_us);
	assert_int_equal(quota.longest_period_us, longest_period_us);
}

static void all_groups_above_count(void **state)
{
	const struct tree *tree = *state;

	tree_puts(tree, "proc/self/mountinfo", V2_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "0::/a/b\n");
	tree_puts(tree, "sys/fs/cgroup/cgroup.procs", "1\n");
	tree_puts(tree, "sys/fs/cgroup/a/cgroup.procs", "\n");
	tree_puts(tree, "sys/fs/cgroup/a/b/cgroup.procs", "77\n");
	expect_quota(tree, UINT64_MAX, 0); /* the controller is not on */
	tree_puts(tree, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	expect_quota(tree, UINT64_MAX, 0);
	tree_puts(tree, "sys/fs/cgroup/a/b/cpu.max", "20000 100000\n");
	expect_quota(tree, 20000, 100000);
	tree_puts(tree, "sys/fs/cgroup/a/cpu.max", "15000 50000\n");
	expect_quota(tree, 15000, 100000);
	tree_puts(tree, "sys/fs/cgroup/a/cpu.max", "50000 400000\n");
	expect_quota(tree, 20000, 400000);
	tree_puts(tree, "sys/fs/cgroup/a/b/cpu.max", "garbage\n");
	expect_quota(tree, 50000, 400000);
}

static void version_1_has_two_files(void **state)
{
	const struct tree *tree = *state;

	tree_puts(tree, "proc/self/mountinfo", V1_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "5:memory:/m\n4:cpu,cpuacct:/c\n");
	tree_puts(tree, "sys/fs/cgroup/cpu/cgroup.procs", "1\n");
	tree_puts(tree, V1_GROUP "cgroup.procs", "77\n");
	tree_puts(tree, V1_GROUP "cpu.cfs_quota_us", "-1\n");
	tree_puts(tree, V1_GROUP "cpu.cfs_period_us", "100000\n");
	expect_quota(tree, UINT64_MAX, 0);
	tree_puts(tree, V1_GROUP "cpu.cfs_quota_us", "3000\n");
	expect_quota(tree, 3000, 100000);
}

static void expect_real_time_limit(const struct tree *tree, bool expected)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_CLOSE int proc = openat(tree->fd, "proc", O_RDONLY | O_DIRECTORY);

	assert_int_equal(flmem_process_open_at(proc, PID, &process, NULL), 0);
	assert_int_equal(flmem_cpu_quota_limits_real_time(tree->fd, &process), expected);
}

static void version_1_limits_real_time_threads(void **state)
{
	const struct tree *tree = *state;

	tree_puts(tree, "proc/self/mountinfo", V1_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "4:cpu,cpuacct:/c\n");
	tree_puts(tree, "sys/fs/cgroup/cpu/cgroup.procs", "1\n");
	tree_puts(tree, "sys/fs/cgroup/cpu/cpu.rt_period_us", "1000000\n");
	tree_puts(tree, "sys/fs/cgroup/cpu/cpu.rt_runtime_us", "950000\n");
	tree_puts(tree, V1_GROUP "cgroup.procs", "77\n");
	expect_real_time_limit(tree, false); /* the default of the kernel */
	tree_puts(tree, V1_GROUP "cpu.rt_period_us", "1000000\n");
	tree_puts(tree, V1_GROUP "cpu.rt_runtime_us", "-1\n");
	expect_real_time_limit(tree, false);
	tree_puts(tree, V1_GROUP "cpu.rt_runtime_us", "900000\n");
	expect_real_time_limit(tree, true);
	tree_puts(tree, V1_GROUP "cpu.rt_runtime_us", "950000\n");
	tree_puts(tree, "sys/fs/cgroup/cpu/cpu.rt_runtime_us", "500000\n");
	expect_real_time_limit(tree, true);
}

/* Each controller is in one hierarchy. */
static void the_hierarchy_of_the_controller_counts(void **state)
{
	const struct tree *tree = *state;

	tree_puts(tree, "proc/self/mountinfo",
		  V1_MOUNT "29 22 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
	tree_puts(tree, "proc/77/cgroup", "4:cpu,cpuacct:/c\n0::/c\n");
	tree_puts(tree, "sys/fs/cgroup/cpu/cgroup.procs", "1\n");
	tree_puts(tree, V1_GROUP "cgroup.procs", "77\n");
	tree_puts(tree, "sys/fs/cgroup/unified/cgroup.procs", "1\n");
	tree_puts(tree, "sys/fs/cgroup/unified/c/cgroup.procs", "77\n");
	tree_puts(tree, V1_GROUP "cpu.cfs_quota_us", "3000\n");
	tree_puts(tree, V1_GROUP "cpu.cfs_period_us", "100000\n");
	expect_quota(tree, 3000, 100000);
}

static void a_process_without_a_visible_group_has_no_quota(void **state)
{
	const struct tree *tree = *state;

	expect_quota(tree, UINT64_MAX, 0);
	tree_puts(tree, "proc/self/mountinfo", V2_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "0::/elsewhere\n");
	expect_quota(tree, UINT64_MAX, 0);
	expect_real_time_limit(tree, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_groups_above_count, quota_setup, tree_teardown),
		cmocka_unit_test_setup_teardown(version_1_has_two_files, quota_setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(version_1_limits_real_time_threads, quota_setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(the_hierarchy_of_the_controller_counts, quota_setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(a_process_without_a_visible_group_has_no_quota,
						quota_setup, tree_teardown),
	};

	return cmocka_run_group_tests_name("cpu quota", tests, NULL, NULL);
}
