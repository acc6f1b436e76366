/* SPDX-License-Identifier: Apache-2.0 */
/* Tests where a borrowed thread must not be, by the mappings of an allocator's library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#include "allocators/allocator_registry.h"
#include "elf/modules.h"
#include "ops/target/target_guard.h"
#include "proc/limits/cpu_quota.h"
#include "proc/maps.h"

/* A library of three parts between two others, as the loader maps them. */
static struct flmem_map rows[] = {
	{.start = 0x1000, .end = 0x2000, .flags = FLMEM_MAP_READ | FLMEM_MAP_EXEC},
	{.start = 0x3000, .end = 0x4000, .flags = FLMEM_MAP_READ},
	{.start = 0x4000, .end = 0x6000, .flags = FLMEM_MAP_READ | FLMEM_MAP_EXEC},
	{.start = 0x6000, .end = 0x7000, .flags = FLMEM_MAP_READ | FLMEM_MAP_WRITE},
	{.start = 0x8000, .end = 0x9000, .flags = FLMEM_MAP_READ | FLMEM_MAP_WRITE},
};

static void an_allocators_code_and_locks_are_guarded(void **state)
{
	struct flmem_maps maps = {.rows = rows, .count = FLMEM_ARRAY_SIZE(rows)};
	struct flmem_module module = {.start = 0x3000, .end = 0x7000};
	struct flmem_allocator_ops ops = {.kind = FLMEM_ALLOCATOR_JEMALLOC};
	struct flmem_allocator_list list = {.count = 1};
	const struct flmem_view view = {.maps = &maps};
	struct flmem_guard guard = {0};

	(void)state;
	list.rows[0].ops = &ops;
	list.rows[0].module = &module;
	list.rows[0].linkage = FLMEM_LINKAGE_SHARED;
	flmem_target_guard_fill(&view, &list, &guard);
	assert_null(guard.unread);
	assert_int_equal(guard.code_count, 1);
	assert_int_equal(guard.code[0].start, 0x4000);
	assert_int_equal(guard.code[0].end, 0x6000);
	assert_int_equal(guard.lock_count, 1);
	assert_int_equal(guard.locks[0].start, 0x6000);
	assert_int_equal(guard.locks[0].end, 0x7000);
	list.is_cut = true; /* the ranges that the others guard are unknown */
	flmem_target_guard_fill(&view, &list, &guard);
	assert_non_null(guard.unread);
}

static uint64_t room_left;

uint64_t __wrap_flmem_group_room_left(int rootfd, const struct flmem_process *process,
				      bool until_slow);
uint64_t __wrap_flmem_group_room_left(int rootfd, const struct flmem_process *process,
				      bool until_slow)
{
	(void)rootfd;
	(void)process;
	(void)until_slow;
	return room_left;
}

static uint64_t quota_us = UINT64_MAX;

struct flmem_cpu_quota __wrap_flmem_cpu_quota_read_own(void);
struct flmem_cpu_quota __wrap_flmem_cpu_quota_read_own(void)
{
	return (struct flmem_cpu_quota){.least_us = quota_us, .longest_period_us = 100000};
}

/* flmem may be in the same control group, and the kernel ends the largest process of it. */
static int open_with_room(uint64_t bytes, struct flmem_error *err)
{
	FLMEM_AUTO_INSPECTION struct flmem_target_inspection *target =
		flmem_target_inspection_new(NULL);

	assert_non_null(target);
	room_left = bytes;
	return flmem_target_guard_open(target, getppid(), 0, err);
}

static void a_group_without_room_for_flmem_is_refused(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(open_with_room(UINT64_C(7) << 20, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "the control group of this flmem leaves 7 MiB"));
	flmem_error_clear(&err);
	(void)open_with_room(UINT64_C(8) << 20, &err);
	assert_null(strstr(err.message, "the control group"));
}

/* A thread would be held until the next period where flmem has used its processor time. */
static void a_group_without_processor_time_for_flmem_is_refused(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	quota_us = 9999;
	assert_int_equal(open_with_room(UINT64_MAX, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "9999 us of processor time"));
	flmem_error_clear(&err);
	quota_us = 10000;
	(void)open_with_room(UINT64_MAX, &err);
	assert_null(strstr(err.message, "the control group"));
	quota_us = UINT64_MAX;
}

static int plan_nothing(const struct flmem_view *view, const struct flmem_allocator *found,
			const unsigned char *answers, struct flmem_chain *chain,
			struct flmem_error *err)
{
	(void)view, (void)found, (void)answers, (void)chain, (void)err;
	return 0;
}

static void joins_of_an_allocator_that_is_built_in_are_guarded(void **state)
{
	struct flmem_allocator_ops ops = {.kind = FLMEM_ALLOCATOR_JEMALLOC,
					  .plan_trim = plan_nothing};
	struct flmem_allocator_list list = {.count = 1};
	struct flmem_modules modules = {0}; /* a process without a C library */
	const struct flmem_view view = {.modules = &modules};
	struct flmem_guard guard = {0};

	(void)state;
	list.rows[0].ops = &ops;
	list.rows[0].linkage = FLMEM_LINKAGE_STATIC;
	flmem_target_guard_fill(&view, &list, &guard);
	assert_non_null(guard.unread); /* it is not known where fork() is */
	assert_true(guard.may_join_threads);
	guard.may_join_threads = false;
	ops.kind = FLMEM_ALLOCATOR_MIMALLOC; /* an allocator without threads */
	flmem_target_guard_fill(&view, &list, &guard);
	assert_false(guard.may_join_threads);
}

static void a_runtime_that_owns_its_memory_is_refused(void **state)
{
	struct flmem_allocator_ops ops = {.kind = FLMEM_ALLOCATOR_JAVA,
					  .is_runtime = true,
					  .trim_advice = "it has options of its own"};
	struct flmem_allocator_list list = {.count = 1};
	struct flmem_process process = FLMEM_PROCESS_INIT;
	const struct flmem_view view = {.process = &process};

	(void)state;
	list.rows[0].ops = &ops;
	assert_int_equal(flmem_target_guard_refuse_runtimes(&view, &list, NULL),
			 FLMEM_EUNSUPPORTED);
	ops.is_runtime = false;
	assert_int_equal(flmem_target_guard_refuse_runtimes(&view, &list, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_allocators_code_and_locks_are_guarded),
		cmocka_unit_test(a_group_without_room_for_flmem_is_refused),
		cmocka_unit_test(a_group_without_processor_time_for_flmem_is_refused),
		cmocka_unit_test(joins_of_an_allocator_that_is_built_in_are_guarded),
		cmocka_unit_test(a_runtime_that_owns_its_memory_is_refused),
	};

	return cmocka_run_group_tests_name("target_guard", tests, NULL, NULL);
}
