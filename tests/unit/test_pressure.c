/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/watch/pressures.h"
#include "proc/limits/cgroup.h"
#include "proc/process.h"

#include "tree.h"

#define PID 77

#define READ_EVERY_US 5000000U /* the same interval as in pressures.c */

#define V1_MOUNT	"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
#define V2_MOUNT	"41 31 0:38 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V2_HYBRID_MOUNT "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

#define STALLS                                                   \
	"some avg10=12.34 avg60=1.00 avg300=0.10 total=987654\n" \
	"full avg10=0.05 avg60=0.00 avg300=0.00 total=4321\n"

static int setup(void **state)
{
	int rc = tree_setup(state);

	if (!rc)
		tree_process(*state, PID, 1);
	return rc;
}

static struct flmem_pressure read_pressure(const struct tree *tree)
{
	FLMEM_AUTO_CGROUPS struct flmem_cgroups *cgroups = NULL;
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_PRESSURE_FILES struct flmem_pressure_files files = FLMEM_PRESSURE_FILES_INIT;
	FLMEM_AUTO_CLOSE int proc = openat(tree->fd, "proc", O_RDONLY | O_DIRECTORY);
	struct flmem_pressure pressure;

	assert_int_equal(flmem_process_open_at(proc, PID, &process, NULL), 0);
	assert_int_equal(flmem_cgroups_open_at(tree->fd, &cgroups, NULL), 0);
	flmem_pressure_open(cgroups, &process, &files);
	flmem_pressure_read(&files, &pressure);
	return pressure;
}

static void assert_known(struct flmem_u64 value, uint64_t expected)
{
	assert_null(value.unknown);
	assert_int_equal(value.value, expected);
}

static void version_2_has_events_and_stalls(void **state)
{
	const struct tree *tree = *state;
	struct flmem_pressure p;

	tree_puts(tree, "proc/self/mountinfo", V2_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "0::/job\n");
	tree_puts(tree, "sys/fs/cgroup/job/memory.events",
		  "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 6\n");
	tree_puts(tree, "sys/fs/cgroup/job/memory.pressure", STALLS);
	p = read_pressure(tree);
	assert_known(p.high, 2);
	assert_known(p.max, 3);
	assert_known(p.oom, 4);
	assert_known(p.oom_kill, 5);
	assert_known(p.some_avg10_hundredths, 1234);
	assert_known(p.full_avg10_hundredths, 5);
	assert_known(p.some_total_us, 987654);
	assert_false(p.stalls_of_host);
}

static void version_1_has_failures_and_kills_and_stalls_are_the_hosts(void **state)
{
	const struct tree *tree = *state;
	struct flmem_pressure p;

	tree_puts(tree, "proc/self/mountinfo", V1_MOUNT V2_HYBRID_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "4:memory:/job\n0::/\n");
	tree_puts(tree, "sys/fs/cgroup/memory/job/memory.failcnt", "7\n");
	tree_puts(tree, "sys/fs/cgroup/memory/job/memory.oom_control",
		  "oom_kill_disable 0\nunder_oom 0\noom_kill 8\n");
	tree_puts(tree, "sys/fs/cgroup/unified/cgroup.procs", "");
	tree_puts(tree, "proc/pressure/memory", STALLS);
	p = read_pressure(tree);
	assert_known(p.max, 7);
	assert_known(p.oom_kill, 8);
	assert_non_null(p.high.unknown);
	assert_non_null(p.oom.unknown);
	assert_known(p.some_avg10_hundredths, 1234);
	assert_true(p.stalls_of_host);
}

static void what_is_not_there_is_unknown(void **state)
{
	const struct tree *tree = *state;
	struct flmem_pressure p;

	tree_puts(tree, "proc/self/mountinfo", V2_MOUNT);
	tree_puts(tree, "proc/77/cgroup", "0::/gone\n");
	p = read_pressure(tree);
	assert_non_null(p.max.unknown);
	assert_non_null(strstr(p.max.unknown, "does not exist here"));
	assert_non_null(strstr(p.some_total_us.unknown, "stalls"));
}

static void rubbish_is_no_number(void **state)
{
	static const char *const events[] = {"max\n",	    "max \n",
					     "max x\n",	    "max 1x\n",
					     "maximum 1\n", "max 99999999999999999999\n",
					     " max 1\n"};
	static const char *const stalls[] = {
		"some avg10=1 total=5\n",    "some avg10=1.2 total=5\n",
		"some avg10=x.00 total=5\n", "some avg10=101.00 total=5\n",
		"some avg60=1.00 total=5\n", "some\n"};
	struct flmem_pressure p;

	(void)state;
	flmem_pressure_init(&p, "none");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(events); i++)
		flmem_pressure_parse_events(events[i], &p);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(stalls); i++)
		flmem_pressure_parse_stalls(stalls[i], &p);
	assert_string_equal(p.max.unknown, "none");
	assert_string_equal(p.some_avg10_hundredths.unknown, "none");
	assert_string_equal(p.some_total_us.unknown, "none");
}

static void signs_are_what_rises_and_long_stalls(void **state)
{
	struct flmem_pressure before, now;

	(void)state;
	flmem_pressure_init(&before, "none");
	now = before;
	assert_null(flmem_pressure_sign(&before, &now));
	now.max = FLMEM_KNOWN(5); /* not known before: it may be old */
	assert_null(flmem_pressure_sign(&before, &now));
	before.max = FLMEM_KNOWN(5);
	assert_null(flmem_pressure_sign(&before, &now));
	now.max = FLMEM_KNOWN(6);
	assert_non_null(strstr(flmem_pressure_sign(&before, &now), "limit"));
	now = before;
	now.some_avg10_hundredths = FLMEM_KNOWN(FLMEM_PRESSURE_SHORT_HUNDREDTHS - 1);
	assert_null(flmem_pressure_sign(&before, &now));
	now.some_avg10_hundredths = FLMEM_KNOWN(FLMEM_PRESSURE_SHORT_HUNDREDTHS);
	assert_non_null(strstr(flmem_pressure_sign(&before, &now), "wait"));
}

static void the_rise_is_since_the_first_reading(void **state)
{
	struct flmem_pressure first, now, rise;

	(void)state;
	flmem_pressure_init(&first, "none");
	first.max = FLMEM_KNOWN(5);
	now = first;
	now.max = FLMEM_KNOWN(8);
	now.oom = FLMEM_KNOWN(1);
	flmem_pressure_rise(&now, &first, &rise);
	assert_known(rise.max, 3);
	assert_string_equal(rise.oom.unknown, "none");
}

/* Processes of a group are sampled at the same moment, and share one reading. */
static void a_group_is_read_once_in_a_while(void **state)
{
	static struct flmem_pressures pressures = {.count = 1};

	(void)state;
	pressures.groups[0].files = (struct flmem_pressure_files)FLMEM_PRESSURE_FILES_INIT;
	assert_true(flmem_pressures_read(&pressures, 0, 7));
	assert_true(flmem_pressures_read(&pressures, 0, 7));
	assert_false(flmem_pressures_read(&pressures, 0, 8));
	assert_false(flmem_pressures_read(&pressures, 0, 7 + READ_EVERY_US - 1));
	assert_true(flmem_pressures_read(&pressures, 0, 7 + READ_EVERY_US));
	assert_false(flmem_pressures_read(&pressures, 0, 7 + READ_EVERY_US + 1));
	assert_false(flmem_pressures_read(&pressures, 1, 7));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(version_2_has_events_and_stalls, setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(
			version_1_has_failures_and_kills_and_stalls_are_the_hosts, setup,
			tree_teardown),
		cmocka_unit_test_setup_teardown(what_is_not_there_is_unknown, setup, tree_teardown),
		cmocka_unit_test(rubbish_is_no_number),
		cmocka_unit_test(signs_are_what_rises_and_long_stalls),
		cmocka_unit_test(the_rise_is_since_the_first_reading),
		cmocka_unit_test(a_group_is_read_once_in_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
