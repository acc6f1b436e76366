/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a chain may set errno of their thread; after them the thread has its previous value
 * again.
 */
#include "borrowed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "remote/errno_place.h"

#define OF_PROGRAM 1234
#define OF_CALL	   4321

struct page {
	_Atomic pid_t waiter;
	_Atomic uintptr_t place; /* address of the thread's errno */
	_Atomic int before, after;
	_Atomic bool called;
};

static struct page *page;
static pid_t child;
static int bell[2];

#if defined(__x86_64__) || defined(__aarch64__)
__attribute__((noinline, no_sanitize("address", "undefined"))) static void set_errno(void)
{
	errno = OF_CALL;
	atomic_store(&page->called, true);
}

static void *wait_for_bell(void *unused)
{
	char byte;

	errno = OF_PROGRAM;
	atomic_store(&page->place, (uintptr_t)&errno);
	atomic_store(&page->waiter, (pid_t)syscall(SYS_gettid));
	while (read(bell[0], &byte, 1) != 1)
		continue;
	atomic_store(&page->after, errno);
	return unused;
}

static void be_child(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_for_bell, NULL))
		_exit(1);
	pthread_join(thread, NULL);
	for (;;)
		pause();
}

static int start_child(void **state)
{
	(void)state;
	return pipe(bell) || child_open(be_child, sizeof(*page), &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	pipe_close(bell);
	return child_close(child, page, sizeof(*page));
}

static void errno_is_that_of_the_program_again(void **state)
{
	struct flmem_borrow_options options = {.timeout_us = 20000000};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct target target;

	(void)state;
	await_true(page->waiter && is_blocked_in(page->waiter, SYS_read));
	options.only = page->waiter;
	target_open(child, &target);
	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)&set_errno);
	expect_borrowed(flmem_borrow_run(&target.view, &chain, &options, &result, &err), &err);
	assert_true(page->called);
	assert_int_equal(write(bell[1], "x", 1), 1);
	await_true(page->after);
	assert_int_equal(page->after, OF_PROGRAM);
	target_close(&target);
}

static void its_place_is_found(void **state)
{
	struct flmem_thread_state *found = malloc(sizeof(*found));
	struct target target;
	struct flmem_errno_place place;
	struct flmem_errno_value value;

	(void)state;
	assert_non_null(found);
	await_true(page->waiter && is_blocked_in(page->waiter, SYS_read));
	target_open(child, &target);
	if (!thread_read_state(child, page->waiter, found)) {
		print_message("SKIP: a child may not be traced here\n");
		skip();
	}
	place = flmem_errno_find(&target.view);
	value = flmem_errno_read(&target.process, &place, flmem_arch_thread_pointer(found));
	assert_true(place.known && value.known);
	assert_int_equal(value.address, page->place);
	assert_int_equal(value.value, OF_PROGRAM);
	target_close(&target);
	free(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(its_place_is_found, start_child, end_child),
		cmocka_unit_test_setup_teardown(errno_is_that_of_the_program_again, start_child,
						end_child),
	};

	return cmocka_run_group_tests_name("borrow_errno", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
