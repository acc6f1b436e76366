/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the locks of glibc's arenas in a process whose memory is swapped out. */
#include "borrowed.h"

#include "allocators/allocator_registry.h"
#include "ops/target/target_guard.h"
#include "proc/pages.h"

#define LOCKED VICTIMS "/heaps/locked-arena"
#define ARENAS 151

static bool is_swapped_out;
static unsigned swapped_in;

int __real_flmem_pages_each(struct flmem_pages *pages, uint64_t start, uint64_t end,
			    flmem_pages_visit *visit, void *context);
int __wrap_flmem_pages_each(struct flmem_pages *pages, uint64_t start, uint64_t end,
			    flmem_pages_visit *visit, void *context);
int __wrap_flmem_pages_each(struct flmem_pages *pages, uint64_t start, uint64_t end,
			    flmem_pages_visit *visit, void *context)
{
	return is_swapped_out ? 0 : __real_flmem_pages_each(pages, start, end, visit, context);
}

int __real_flmem_pages_each_kept(struct flmem_pages *pages, uint64_t start, uint64_t end,
				 flmem_pages_visit *visit, void *context);
int __wrap_flmem_pages_each_kept(struct flmem_pages *pages, uint64_t start, uint64_t end,
				 flmem_pages_visit *visit, void *context);
int __wrap_flmem_pages_each_kept(struct flmem_pages *pages, uint64_t start, uint64_t end,
				 flmem_pages_visit *visit, void *context)
{
	swapped_in++;
	return __real_flmem_pages_each_kept(pages, start, end, visit, context);
}

static int said[2];

static void be_locked(void)
{
	static int input[2];

	if (pipe(input) || dup2(input[0], STDIN_FILENO) < 0 || dup2(said[1], STDOUT_FILENO) < 0)
		_exit(1);
	execl(LOCKED, LOCKED, "first", (char *)NULL);
}

static pid_t start_locked(struct target *target, struct flmem_allocator_list *list)
{
	pid_t child;
	char byte;

	assert_int_equal(pipe(said), 0);
	child = child_start(be_locked);
	close(said[1]);
	assert_int_equal(read(said[0], &byte, 1), 1);
	close(said[0]);
	target_open(child, target);
	flmem_allocators_find(&target->view, list);
	return child;
}

static void locks_that_are_swapped_out_are_read_for_a_trim_alone(void **state)
{
	struct flmem_guard *guard = calloc(1, sizeof(*guard));
	struct flmem_allocator_list list = {0};
	struct target target;
	pid_t child = start_locked(&target, &list);

	(void)state;
	assert_non_null(guard);
	is_swapped_out = true;
	guard->is_for_report = true;
	flmem_target_guard_fill(&target.view, &list, guard);
	assert_int_equal(guard->word_count, 0);
	assert_non_null(guard->unread); /* the process's status shows no swapped memory */
	assert_int_equal(swapped_in, 0);
	*guard = (struct flmem_guard){0};
	flmem_target_guard_fill(&target.view, &list, guard);
	assert_int_equal(guard->word_count, ARENAS);
	assert_null(guard->unread);
	assert_true(swapped_in > 0);
	swapped_in = 0;
	assert_int_equal(flmem_target_guard_check(&target.view, &list, false, NULL), 0);
	assert_int_equal(swapped_in, 0);
	assert_int_equal(flmem_target_guard_check(&target.view, &list, true, NULL), 0);
	assert_true(swapped_in > 0);
	is_swapped_out = false;
	free(guard);
	target_close(&target);
	child_end(child);
}

/* Arenas are permanent: one that was found before still exists. */
static void locks_that_cannot_be_read_again_are_unknown(void **state)
{
	struct flmem_guard *guard = calloc(1, sizeof(*guard));
	struct flmem_allocator_list list = {0};
	struct target target;
	pid_t child = start_locked(&target, &list);
	char end = 0;

	(void)state;
	assert_non_null(guard);
	flmem_target_guard_fill(&target.view, &list, guard);
	assert_int_equal(guard->word_count, ARENAS);
	flmem_guard_add_word(guard, (uint64_t)(uintptr_t)&end);
	assert_int_equal(flmem_target_guard_renew(&target.view, &list, guard, NULL), 0);
	assert_int_equal(guard->word_count, ARENAS + 1);
	assert_non_null(guard->unread);
	guard->word_count = 1;
	assert_int_equal(flmem_target_guard_renew(&target.view, &list, guard, NULL), 0);
	assert_int_equal(guard->word_count, ARENAS);
	assert_null(guard->unread);
	free(guard);
	target_close(&target);
	child_end(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(locks_that_are_swapped_out_are_read_for_a_trim_alone),
		cmocka_unit_test(locks_that_cannot_be_read_again_are_unknown),
	};

	return cmocka_run_group_tests_name("glibc_guard", tests, NULL, NULL);
}
