/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proc/limits/cgroup.h"
#include "proc/process.h"

#include "tree.h"

#define PID 77

#define V1_MOUNT	"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
#define V1_CPU_MOUNT	"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
#define V1_PIDS_MOUNT	"33 31 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
#define V2_MOUNT	"41 31 0:38 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V2_HYBRID_MOUNT "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
#define V1_NO_LIMIT	"9223372036854771712\n"
#define V1_NO_LIMIT_64K "9223372036854710272\n"

static int setup(void **state)
{
	int rc = tree_setup(state);

	if (!rc)
		tree_process(*state, PID, 1);
	return rc;
}

static struct flmem_cgroup_limit read_limit(const struct tree *tree)
{
	FLMEM_AUTO_CGROUPS struct flmem_cgroups *cgroups = NULL;
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_CLOSE int proc = openat(tree->fd, "proc", O_RDONLY | O_DIRECTORY);
	struct flmem_cgroup_limit first, again;

	assert_int_equal(flmem_process_open_at(proc, PID, &process, NULL), 0);
	assert_int_equal(flmem_cgroups_open_at(tree->fd, &cgroups, NULL), 0);
	flmem_cgroups_limit(cgroups, &process, &first);
	flmem_cgroups_limit(cgroups, &process, &again);
	assert_memory_equal(&first, &again, sizeof(first));
	return again;
}

static void assert_limit(const struct flmem_cgroup_limit *limit, uint64_t max, uint64_t used)
{
	assert_null(limit->max_bytes.unknown);
	assert_null(limit->used_bytes.unknown);
	assert_null(limit->headroom_bytes.unknown);
	assert_int_equal(limit->max_bytes.value, max);
	assert_int_equal(limit->used_bytes.value, used);
	assert_int_equal(limit->headroom_bytes.value, used < max ? max - used : 0);
}

static void assert_unknown(const struct flmem_cgroup_limit *limit, const char *reason)
{
	assert_non_null(limit->max_bytes.unknown);
	assert_non_null(limit->headroom_bytes.unknown);
	assert_non_null(strstr(limit->max_bytes.unknown, reason));
}

static uint64_t read_tasks_left(const struct tree *tree)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_CLOSE int proc = openat(tree->fd, "proc", O_RDONLY | O_DIRECTORY);

	assert_int_equal(flmem_process_open_at(proc, PID, &process, NULL), 0);
	return flmem_cgroups_tasks_left(tree->fd, &process);
}

static void put_tasks(const struct tree *tree, const char *group, const char *most,
		      const char *used)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	tree_puts(tree, path, "77\n");
	snprintf(path, sizeof(path), "%s/pids.max", group);
	tree_puts(tree, path, most);
	snprintf(path, sizeof(path), "%s/pids.current", group);
	tree_puts(tree, path, used);
}

/* One of the groups may have less left than the one with the lowest limit. */
static void the_tasks_left_are_those_of_the_fullest_group(void **state)
{
	const struct tree *tree = *state;

	tree_puts(tree, "proc/self/mountinfo", V2_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "0::/a/b/c\n");
	tree_puts(tree, "sys/fs/cgroup/a/b/c/cgroup.procs", "77\n");
	put_tasks(tree, "sys/fs/cgroup/a/b", "20\n", "5\n");
	put_tasks(tree, "sys/fs/cgroup/a", "100\n", "93\n");
	tree_puts(tree, "sys/fs/cgroup/cgroup.procs", "1\n");
	assert_int_equal(read_tasks_left(tree), 7);
	put_tasks(tree, "sys/fs/cgroup/a/b", "4\n", "5\n");
	assert_int_equal(read_tasks_left(tree), 0);
	put_tasks(tree, "sys/fs/cgroup/a/b", "max\n", "5\n");
	put_tasks(tree, "sys/fs/cgroup/a", "max\n", "93\n");
	assert_true(read_tasks_left(tree) == UINT64_MAX);
}

static void version_1_counts_tasks_in_groups_of_their_own(void **state)
{
	const struct tree *tree = *state;

	tree_puts(tree, "proc/self/mountinfo", V1_MOUNT V1_PIDS_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "5:memory:/m\n8:pids:/p\n");
	put_tasks(tree, "sys/fs/cgroup/pids/p", "9\n", "6\n");
	assert_int_equal(read_tasks_left(tree), 3);
	tree_puts(tree, "proc/self/mountinfo", V1_MOUNT);
	assert_true(read_tasks_left(tree) == UINT64_MAX);
}

static bool read_freeze(const struct tree *tree)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_CLOSE int proc = openat(tree->fd, "proc", O_RDONLY | O_DIRECTORY);

	assert_int_equal(flmem_process_open_at(proc, PID, &process, NULL), 0);
	return flmem_cgroups_freeze(tree->fd, &process);
}

static void a_group_is_frozen_with_one_above(void **state)
{
	const struct tree *tree = *state;

	tree_puts(tree, "proc/self/mountinfo", V1_MOUNT V2_HYBRID_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "5:memory:/m\n0::/a/b\n");
	tree_puts(tree, "sys/fs/cgroup/unified/cgroup.procs", "1\n");
	tree_puts(tree, "sys/fs/cgroup/unified/a/cgroup.procs", "\n");
	tree_puts(tree, "sys/fs/cgroup/unified/a/cgroup.freeze", "0\n");
	tree_puts(tree, "sys/fs/cgroup/unified/a/b/cgroup.procs", "77\n");
	tree_puts(tree, "sys/fs/cgroup/unified/a/b/cgroup.freeze", "0\n");
	assert_false(read_freeze(tree));
	tree_puts(tree, "sys/fs/cgroup/unified/a/b/cgroup.freeze", "1\n");
	assert_true(read_freeze(tree));
	tree_puts(tree, "sys/fs/cgroup/unified/a/b/cgroup.freeze", "0\n");
	tree_puts(tree, "sys/fs/cgroup/unified/a/cgroup.freeze", "1\n");
	assert_true(read_freeze(tree));
	tree_puts(tree, "proc/self/mountinfo", V1_MOUNT);
	assert_false(read_freeze(tree));
}

static void version_2_takes_the_lowest_limit_on_the_way_up(void **state)
{
	const struct tree *tree = *state;
	struct flmem_cgroup_limit limit;

	tree_puts(tree, "proc/self/mountinfo", V2_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "0::/jobs.slice/fl job.service/run\n");
	tree_puts(tree, "sys/fs/cgroup/jobs.slice/fl job.service/run/memory.max", "max\n");
	tree_puts(tree, "sys/fs/cgroup/jobs.slice/fl job.service/memory.max", "4096\n");
	tree_puts(tree, "sys/fs/cgroup/jobs.slice/fl job.service/memory.current", "1000\n");
	tree_puts(tree, "sys/fs/cgroup/jobs.slice/memory.max", "8192\n");
	tree_puts(tree, "sys/fs/cgroup/jobs.slice/memory.current", "8000\n");
	limit = read_limit(tree);
	assert_limit(&limit, 4096, 1000);
}

static void more_used_than_allowed_is_no_headroom(void **state)
{
	const struct tree *tree = *state;
	struct flmem_cgroup_limit limit;

	tree_puts(tree, "proc/self/mountinfo", V2_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "0::/\n");
	tree_puts(tree, "sys/fs/cgroup/memory.max", "4096\n");
	tree_puts(tree, "sys/fs/cgroup/memory.current", "5000\n");
	limit = read_limit(tree);
	assert_limit(&limit, 4096, 5000);
}

static void no_limit_is_unknown_with_that_reason(void **state)
{
	const struct tree *tree = *state;
	struct flmem_cgroup_limit limit;

	tree_puts(tree, "proc/self/mountinfo", V2_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "0::/a\n");
	tree_puts(tree, "sys/fs/cgroup/a/memory.max", "max\n");
	limit = read_limit(tree);
	assert_unknown(&limit, "no memory limit");

	tree_puts(tree, "proc/77/cgroup", "0::/b\n");
	tree_puts(tree, "sys/fs/cgroup/b/cgroup.procs", "77\n");
	limit = read_limit(tree);
	assert_unknown(&limit, "controller");
}

static void version_1_is_read_beside_version_2(void **state)
{
	const struct tree *tree = *state;
	struct flmem_cgroup_limit limit;

	tree_puts(tree, "proc/self/mountinfo",
		  "23 1 8:1 / / rw - ext4 /dev/sda1 rw\n" V1_CPU_MOUNT V1_MOUNT V2_HYBRID_MOUNT);
	tree_puts(tree, "proc/77/cgroup",
		  "9:name=systemd:/\n5:cpu,cpuacct:/x\n4:hugetlb,memory:/jobs/one\n0::/other\n");
	tree_puts(tree, "sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NO_LIMIT);
	tree_puts(tree, "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "1048576\n");
	tree_puts(tree, "sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "65536\n");
	tree_puts(tree, "sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", V1_NO_LIMIT_64K);
	tree_puts(tree, "sys/fs/cgroup/memory/jobs/one/memory.usage_in_bytes", "64\n");
	tree_puts(tree, "sys/fs/cgroup/unified/other/memory.max", "1\n");
	limit = read_limit(tree);
	assert_limit(&limit, 1048576, 65536);
}

static void version_1_without_hierarchy_ends_at_the_group(void **state)
{
	const struct tree *tree = *state;
	struct flmem_cgroup_limit limit;

	tree_puts(tree, "proc/self/mountinfo", V1_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "4:memory:/jobs/one\n");
	tree_puts(tree, "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "4096\n");
	tree_puts(tree, "sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "4096\n");
	tree_puts(tree, "sys/fs/cgroup/memory/jobs/memory.use_hierarchy", "0\n");
	tree_puts(tree, "sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", "8192\n");
	tree_puts(tree, "sys/fs/cgroup/memory/jobs/one/memory.usage_in_bytes", "100\n");
	tree_puts(tree, "sys/fs/cgroup/memory/jobs/one/memory.use_hierarchy", "0\n");
	limit = read_limit(tree);
	assert_limit(&limit, 8192, 100);

	tree_puts(tree, "sys/fs/cgroup/memory/jobs/memory.use_hierarchy", "1\n");
	limit = read_limit(tree);
	assert_limit(&limit, 4096, 4096);
}

static void version_1_tells_of_limits_above_the_mount(void **state)
{
	const struct tree *tree = *state;
	struct flmem_cgroup_limit limit;

	tree_puts(tree, "proc/self/mountinfo",
		  "35 31 0:32 /docker/4f /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
	tree_puts(tree, "proc/77/cgroup", "4:memory:/docker/4f\n");
	tree_puts(tree, "sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NO_LIMIT);
	tree_puts(tree, "sys/fs/cgroup/memory/memory.stat",
		  "cache 0\nhierarchical_memory_limit 12288\ntotal_cache 0\n");
	limit = read_limit(tree);
	assert_null(limit.max_bytes.unknown);
	assert_int_equal(limit.max_bytes.value, 12288);
	assert_non_null(limit.headroom_bytes.unknown);
}

static void groups_outside_of_the_view_are_unknown(void **state)
{
	static const struct {
		const char *mount, *group, *reason;
	} rows[] = {
		{V2_MOUNT, "0::/../../sibling\n", "outside"},
		{V2_MOUNT, "0::/..\n", "outside"},
		{"41 31 0:38 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/\n", "outside"},
		{"41 31 0:38 /docker/4f /sys/fs/cgroup rw - cgroup2 c rw\n", "0::/docker/4e\n",
		 "outside"},
		{"41 31 0:38 /docker/4f /sys/fs/cgroup rw - cgroup2 c rw\n", "0::/docker/4ff\n",
		 "outside"},
		{V2_MOUNT, "0::/gone (deleted)\n", "does not exist here"},
		{V1_CPU_MOUNT, "4:memory:/\n", "mounted"},
		{V2_MOUNT, "4:cpu:/\n", "no control group"},
		{V2_MOUNT, "", "no control group"},
		{V2_MOUNT, "0::relative\n", "outside"},
		{V2_MOUNT, "rubbish\n:\n::\n", "outside"},
		{"", "0::/\n", "mounted"},
		{"41 31 - cgroup2 c rw\nx\n - cgroup2\n", "0::/\n", "mounted"},
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_cgroup_limit limit;

		tree_puts(*state, "proc/self/mountinfo", rows[i].mount);
		tree_puts(*state, "proc/77/cgroup", rows[i].group);
		tree_puts(*state, "sys/fs/cgroup/memory.max", "5\n");
		limit = read_limit(*state);
		assert_unknown(&limit, rows[i].reason);
	}
}

static void odd_numbers_are_not_taken(void **state)
{
	static const char *const rows[] = {"", "-1\n", "12 34\n", "99999999999999999999\n"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_cgroup_limit limit;

		tree_puts(*state, "proc/self/mountinfo", V2_MOUNT);
		tree_puts(*state, "proc/77/cgroup", "0::/\n");
		tree_puts(*state, "sys/fs/cgroup/memory.max", rows[i]);
		limit = read_limit(*state);
		assert_unknown(&limit, "denied");
	}
}

static void escaped_mount_points_are_followed(void **state)
{
	const struct tree *tree = *state;
	struct flmem_cgroup_limit limit;

	tree_puts(tree, "proc/self/mountinfo",
		  "41 31 0:38 / /mnt/my\\040groups rw - cgroup2 cgroup2 rw\n");
	tree_puts(tree, "proc/77/cgroup", "0::/a\n");
	tree_puts(tree, "mnt/my groups/a/memory.max", "4096\n");
	tree_puts(tree, "mnt/my groups/a/memory.current", "1\n");
	limit = read_limit(tree);
	assert_limit(&limit, 4096, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_tasks_left_are_those_of_the_fullest_group,
						setup, tree_teardown),
		cmocka_unit_test_setup_teardown(version_1_counts_tasks_in_groups_of_their_own,
						setup, tree_teardown),
		cmocka_unit_test_setup_teardown(a_group_is_frozen_with_one_above, setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(version_2_takes_the_lowest_limit_on_the_way_up,
						setup, tree_teardown),
		cmocka_unit_test_setup_teardown(more_used_than_allowed_is_no_headroom, setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(no_limit_is_unknown_with_that_reason, setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(version_1_is_read_beside_version_2, setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(version_1_without_hierarchy_ends_at_the_group,
						setup, tree_teardown),
		cmocka_unit_test_setup_teardown(version_1_tells_of_limits_above_the_mount, setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(groups_outside_of_the_view_are_unknown, setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(odd_numbers_are_not_taken, setup, tree_teardown),
		cmocka_unit_test_setup_teardown(escaped_mount_points_are_followed, setup,
						tree_teardown),
	};

	return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}
