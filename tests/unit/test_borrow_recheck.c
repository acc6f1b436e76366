/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller has checked long before is checked again, once for all tries that follow soon. */
#include "borrowed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "remote/borrow_state.h"

static int count_checks(void *context, struct flmem_error *err)
{
	(void)err;
	++*(unsigned *)context;
	return 0;
}

static void be_child(void)
{
	for (;;)
		pause();
}

static void the_time_of_a_check_is_the_callers(void **state)
{
	struct flmem_borrow_state *borrow = calloc(1, sizeof(*borrow));
	unsigned count = 0;
	uint64_t checked_us = 0, now_us = flmem_clock_us();
	const struct flmem_borrow_options options = {
		.recheck = count_checks, .rechecker = &count, .checked_us = &checked_us};
	const pid_t child = child_start(be_child);
	struct target target;

	(void)state;
	assert_non_null(borrow);
	assert_true(child > 0);
	target_open(child, &target);
	borrow->view = &target.view;
	borrow->options = &options;
	assert_int_equal(flmem_borrow_check_again(borrow), 0);
	assert_int_equal(count, 1);
	assert_true(checked_us >= now_us);
	target_close(&target);
	child_end(child);
	free(borrow);
}

#if defined(__x86_64__) || defined(__aarch64__)
#define PAGE 4096U

struct page {
	_Atomic uint64_t stack; /* of the thread, near its pointer */
	_Atomic int tid;
	_Atomic bool cuts, cut;
};

static struct page *page;
static int bell[2];

static void *wait_for_bell(void *argument)
{
	char byte;

	atomic_store(&page->stack, (uint64_t)(uintptr_t)&byte);
	atomic_store(&page->tid, (int)syscall(SYS_gettid));
	while (read(bell[0], &byte, 1) == 1)
		continue;
	return argument;
}

/* It takes from its other thread what is below that one's stack pointer. */
static void be_cutting(void)
{
	pthread_t thread;
	uint64_t near;

	if (pipe(bell) || pthread_create(&thread, NULL, wait_for_bell, NULL))
		return;
	while (!atomic_load(&page->cuts))
		flmem_clock_sleep_us(1000);
	near = atomic_load(&page->stack) / PAGE * PAGE;
	atomic_store(&page->cut, mprotect((void *)(uintptr_t)(near - 6 * (uint64_t)PAGE), PAGE,
					  PROT_NONE) == 0);
	for (;;)
		pause();
}

static int have_it_cut(void *context, struct flmem_error *err)
{
	(void)context, (void)err;
	atomic_store(&page->cuts, true);
	await_true(atomic_load(&page->cut));
	return 0;
}

__attribute__((noinline, no_sanitize("address", "undefined"))) static void be_called(void)
{
}

/* Runs a chain on the waiting thread of such a child. */
static void expect_refusal(struct flmem_borrow_options *options, const char *why)
{
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct target target;
	pid_t child;
	int rc;

	page = child_share(sizeof(*page));
	assert_non_null(page);
	child = child_start(be_cutting);
	assert_true(child > 0);
	await_true(page->tid && is_blocked_in(page->tid, SYS_read));
	options->only = page->tid;
	target_open(child, &target);
	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)be_called);
	rc = flmem_borrow_run(&target.view, &chain, options, &result, &err);
	target_close(&target);
	child_end(child);
	munmap(page, sizeof(*page));
	assert_int_equal(rc, FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, why));
}

/* Since it was found, by the check that comes right before its stop. */
static void a_stack_that_has_lost_its_space_is_refused(void **state)
{
	uint64_t checked_us = 0;
	struct flmem_borrow_options options = {
		.recheck = have_it_cut, .checked_us = &checked_us, .single_pass = true};

	(void)state;
	expect_refusal(&options, "too little space left on its stack");
}

static struct flmem_guard guard;

static int find_it_in_the_allocator(void *context, struct flmem_error *err)
{
	(void)context, (void)err;
	flmem_guard_add_code(&guard, PAGE, INT64_MAX);
	return 0;
}

static void a_thread_that_is_inside_the_allocator_is_refused_when_it_is_stopped(void **state)
{
	uint64_t checked_us = 0;
	struct flmem_borrow_options options = {.guard = &guard,
					       .recheck = find_it_in_the_allocator,
					       .checked_us = &checked_us,
					       .single_pass = true};

	(void)state;
	expect_refusal(&options, "is inside the allocator");
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_time_of_a_check_is_the_callers),
#if defined(__x86_64__) || defined(__aarch64__)
		cmocka_unit_test(a_stack_that_has_lost_its_space_is_refused),
		cmocka_unit_test(
			a_thread_that_is_inside_the_allocator_is_refused_when_it_is_stopped),
#endif
	};

	return cmocka_run_group_tests_name("borrow_recheck", tests, NULL, NULL);
}
