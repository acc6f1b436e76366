/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests memory.peak of captured control groups. The kernel's reset for one descriptor is tested in
 * an emulated system (tests/systems).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proc/limits/cgroup.h"
#include "proc/limits/group_peak.h"
#include "proc/process.h"

#include "tree.h"

#define PID   77
#define GROUP "sys/fs/cgroup/pod/job"
#define PEAK  GROUP "/memory.peak"

#define V1_MOUNT "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
#define V2_MOUNT "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"

static int setup(void **state)
{
	int rc = tree_setup(state);

	if (rc)
		return rc;
	tree_process(*state, PID, 1);
	tree_puts(*state, "proc/self/mountinfo", V2_MOUNT);
	tree_puts(*state, "proc/77/cgroup", "0::/pod/job\n");
	tree_puts(*state, GROUP "/memory.max", "max\n");
	return 0;
}

static void open_peak(const struct tree *tree, struct flmem_group_peak *ret_peak)
{
	FLMEM_AUTO_CGROUPS struct flmem_cgroups *cgroups = NULL;
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_CLOSE int proc = openat(tree->fd, "proc", O_RDONLY | O_DIRECTORY);

	assert_int_equal(flmem_process_open_at(proc, PID, &process, NULL), 0);
	assert_int_equal(flmem_cgroups_open_at(tree->fd, &cgroups, NULL), 0);
	flmem_group_peak_open(cgroups, &process, ret_peak);
}

static void assert_unknown(const struct flmem_group_peak *peak, const char *reason)
{
	struct flmem_u64 bytes = flmem_group_peak_read(peak);

	assert_non_null(bytes.unknown);
	assert_non_null(strstr(bytes.unknown, reason));
}

static void read_after_a_reset(void **state)
{
	const struct tree *tree = *state;
	FLMEM_AUTO_GROUP_PEAK struct flmem_group_peak peak = FLMEM_GROUP_PEAK_INIT;
	struct flmem_u64 bytes;

	tree_puts(tree, PEAK, "9000000000\n");
	open_peak(tree, &peak);
	assert_unknown(&peak, "no round has started");
	flmem_group_peak_reset(&peak);
	tree_puts(tree, PEAK, "4096000\n");
	bytes = flmem_group_peak_read(&peak);
	assert_null(bytes.unknown);
	assert_int_equal(bytes.value, 4096000);
	flmem_group_peak_close(&peak);
	assert_unknown(&peak, "only a live watch");
}

static void refuse_what_is_no_number(void **state)
{
	static const char *const texts[] = {
		"", "\n", "max\n", "12", "12 13\n", "-1\n", "99999999999999999999999\n"};
	const struct tree *tree = *state;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		FLMEM_AUTO_GROUP_PEAK struct flmem_group_peak peak = FLMEM_GROUP_PEAK_INIT;

		tree_puts(tree, PEAK, "1\n");
		open_peak(tree, &peak);
		flmem_group_peak_reset(&peak);
		tree_puts(tree, PEAK, texts[i]);
		assert_unknown(&peak, "could not be read");
	}
}

/* A device refuses writes, and nobody may write the file. */
static void refuse_a_peak_that_cannot_be_reset(void **state)
{
	const struct tree *tree = *state;
	FLMEM_AUTO_GROUP_PEAK struct flmem_group_peak peak = FLMEM_GROUP_PEAK_INIT;

	peak.fd = open("/dev/full", O_RDWR | O_CLOEXEC);
	assert_true(peak.fd >= 0);
	flmem_group_peak_reset(&peak);
	assert_int_equal(peak.fd, -1);
	assert_unknown(&peak, "could not be read");
	tree_puts(tree, PEAK, "1\n");
	assert_int_equal(fchmodat(tree->fd, PEAK, 0444, 0), 0);
	open_peak(tree, &peak);
	if (geteuid() == 0)
		flmem_group_peak_reset(&peak); /* it may open the file, as it may in kernfs */
	else
		assert_unknown(&peak, "denied");
}

static void groups_without_a_peak(void **state)
{
	const struct tree *tree = *state;
	struct flmem_group_peak peak;

	open_peak(tree, &peak);
	assert_unknown(&peak, "its control group is the root");
	tree_puts(tree, "proc/77/cgroup", "0::/elsewhere\n");
	open_peak(tree, &peak);
	assert_unknown(&peak, "does not exist here");
	tree_puts(tree, "proc/self/mountinfo", V1_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "4:memory:/job\n");
	tree_puts(tree, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1\n");
	open_peak(tree, &peak);
	assert_unknown(&peak, "version 1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(read_after_a_reset, setup, tree_teardown),
		cmocka_unit_test_setup_teardown(refuse_what_is_no_number, setup, tree_teardown),
		cmocka_unit_test_setup_teardown(refuse_a_peak_that_cannot_be_reset, setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(groups_without_a_peak, setup, tree_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
