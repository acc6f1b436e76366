/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proc/host_facts.h"

static struct flmem_host_facts read_tree(const char *path)
{
	FLMEM_AUTO_CLOSE int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct flmem_host_facts facts;
	struct flmem_error err = {0};

	assert_true(root >= 0);
	if (flmem_host_facts_read_at(root, &facts, &err))
		fail_msg("%s: %s", path, err.message);
	return facts;
}

static void a_plain_desktop(void **state)
{
	struct flmem_host_facts facts = read_tree(FIXTURES "/host/yama1");
	struct utsname names;

	(void)state;
	uname(&names);
	assert_string_equal(facts.kernel, names.release);
	assert_string_equal(facts.architecture, names.machine);
	assert_string_equal(facts.thp_mode, "madvise");
	assert_null(facts.memory_total_bytes.unknown);
	assert_int_equal(facts.memory_total_bytes.value, UINT64_C(32617532) * 1024);
	assert_int_equal(facts.memory_available_bytes.value, UINT64_C(21904412) * 1024);
	assert_int_equal(facts.swap_total_bytes.value, UINT64_C(2097148) * 1024);
	assert_int_equal(facts.swap_free_bytes.value, UINT64_C(2001404) * 1024);
	assert_int_equal(facts.yama_level, 1);
	assert_false(facts.may_trace_any);
	assert_false(facts.own_user_namespace);
	assert_false(facts.own_pid_namespace);
	assert_int_equal(facts.seccomp_mode.value, 0);
	assert_int_equal(flmem_gate_own(&facts), FLMEM_GATE_YAMA_CHILDREN);
	assert_int_equal(flmem_gate_others(&facts), FLMEM_GATE_CAPABILITY);
}

static void yama_3_stops_root_too(void **state)
{
	struct flmem_host_facts facts = read_tree(FIXTURES "/host/yama3");

	(void)state;
	assert_true(facts.may_trace_any);
	assert_string_equal(facts.thp_mode, "always");
	assert_int_equal(flmem_gate_own(&facts), FLMEM_GATE_YAMA_NOBODY);
	assert_int_equal(flmem_gate_others(&facts), FLMEM_GATE_YAMA_NOBODY);
}

static void selinux_stops_root_and_bad_numbers_are_unknown(void **state)
{
	struct flmem_host_facts facts = read_tree(FIXTURES "/host/selinux");

	(void)state;
	assert_int_equal(facts.yama_level, -1);
	assert_int_equal(flmem_gate_own(&facts), FLMEM_GATE_SELINUX);
	assert_int_equal(flmem_gate_others(&facts), FLMEM_GATE_SELINUX);
	assert_string_equal(facts.thp_mode, "");
	assert_non_null(facts.memory_total_bytes.unknown);
	assert_non_null(facts.memory_available_bytes.unknown);
	assert_null(facts.swap_total_bytes.unknown);
	assert_int_equal(facts.swap_total_bytes.value, 0);
	assert_non_null(facts.swap_free_bytes.unknown);
}

static void root_of_a_container_without_the_capability(void **state)
{
	struct flmem_host_facts facts = read_tree(FIXTURES "/host/nested");

	(void)state;
	assert_false(facts.may_trace_any);
	assert_true(facts.own_user_namespace);
	assert_true(facts.own_pid_namespace);
	assert_int_equal(facts.seccomp_mode.value, 2);
	assert_int_equal(flmem_gate_own(&facts), FLMEM_GATE_OPEN);
	assert_int_equal(flmem_gate_others(&facts), FLMEM_GATE_CAPABILITY);
	assert_non_null(facts.memory_total_bytes.unknown);
}

static void every_level_of_yama(void **state)
{
	static const struct {
		int level;
		bool capable;
		enum flmem_gate own, others;
	} rows[] = {
		{-1, false, FLMEM_GATE_OPEN, FLMEM_GATE_CAPABILITY},
		{-1, true, FLMEM_GATE_OPEN, FLMEM_GATE_OPEN},
		{0, false, FLMEM_GATE_OPEN, FLMEM_GATE_CAPABILITY},
		{1, false, FLMEM_GATE_YAMA_CHILDREN, FLMEM_GATE_CAPABILITY},
		{1, true, FLMEM_GATE_OPEN, FLMEM_GATE_OPEN},
		{2, false, FLMEM_GATE_YAMA_ADMIN, FLMEM_GATE_YAMA_ADMIN},
		{2, true, FLMEM_GATE_OPEN, FLMEM_GATE_OPEN},
		{3, false, FLMEM_GATE_YAMA_NOBODY, FLMEM_GATE_YAMA_NOBODY},
		{3, true, FLMEM_GATE_YAMA_NOBODY, FLMEM_GATE_YAMA_NOBODY},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_host_facts facts = {.yama_level = rows[i].level,
						 .may_trace_any = rows[i].capable};

		assert_int_equal(flmem_gate_own(&facts), rows[i].own);
		assert_int_equal(flmem_gate_others(&facts), rows[i].others);
	}
}

static void a_tree_without_proc_is_an_error(void **state)
{
	FLMEM_AUTO_CLOSE int root = open(FIXTURES, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct flmem_host_facts facts = {.yama_level = 77};
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_host_facts_read_at(root, &facts, &err), FLMEM_EUNSUPPORTED);
	assert_int_equal(facts.yama_level, 77);
	assert_non_null(strstr(err.message, "mount /proc"));
}

static void more_runnable_threads_than_processors(void **state)
{
	FLMEM_AUTO_CLOSE int root =
		open(FIXTURES "/host/yama1", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FLMEM_AUTO_CLOSE int other = open(FIXTURES, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_true(flmem_host_is_busy_at(root, 2)); /* 3/412 */
	assert_false(flmem_host_is_busy_at(root, 3));
	assert_false(flmem_host_is_busy_at(other, 0));
}

static void this_machine(void **state)
{
	struct flmem_host_facts facts;
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(flmem_host_facts_read(&facts, &err), 0);
	assert_null(facts.memory_total_bytes.unknown);
	assert_int_equal(facts.page_bytes, sysconf(_SC_PAGESIZE));
	/* The same number from another source; sysinfo(2) counts what /proc/meminfo counts. */
	assert_int_equal(facts.memory_total_bytes.value / facts.page_bytes,
			 sysconf(_SC_PHYS_PAGES));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plain_desktop),
		cmocka_unit_test(yama_3_stops_root_too),
		cmocka_unit_test(selinux_stops_root_and_bad_numbers_are_unknown),
		cmocka_unit_test(root_of_a_container_without_the_capability),
		cmocka_unit_test(every_level_of_yama),
		cmocka_unit_test(a_tree_without_proc_is_an_error),
		cmocka_unit_test(more_runnable_threads_than_processors),
		cmocka_unit_test(this_machine),
	};

	return cmocka_run_group_tests_name("host_facts", tests, NULL, NULL);
}
