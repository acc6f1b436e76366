/* SPDX-License-Identifier: Apache-2.0 */
/* A process of which another tracer holds one thread, not the main one. */
#include "borrowed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>

struct page {
	_Atomic pid_t thread; /* the second one of the child */
	_Atomic bool held;    /* by the tracer */
	_Atomic bool failed;
};

static struct page *page;
static pid_t child, tracer;

#ifdef __x86_64__
static void *wait_for_ever(void *unused)
{
	(void)unused;
	atomic_store(&page->thread, gettid());
	for (;;)
		pause();
	return NULL;
}

static void be_child(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
		_exit(2);
	for (;;)
		pause();
}

static void be_tracer(void)
{
	if (ptrace(PTRACE_SEIZE, atomic_load(&page->thread), NULL, NULL) < 0)
		atomic_store(&page->failed, true);
	atomic_store(&page->held, true);
	for (;;)
		pause();
}

static int start_child(void **state)
{
	(void)state;
	return child_open(be_child, sizeof(*page), &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	if (tracer)
		child_end(tracer);
	return child_close(child, page, sizeof(*page));
}

static void the_threads_that_nobody_traces_are_borrowed(void **state)
{
	const struct flmem_borrow_options options = {.timeout_us = 20000000, .repeatable = true};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct target target;

	(void)state;
	await_true(page->thread);
	tracer = child_start(be_tracer);
	assert_true(tracer);
	await_true(page->held);
	if (page->failed) {
		print_message("SKIP: a child may not be traced here\n");
		skip();
	}
	target_open(child, &target);
	flmem_chain_add(&chain, "sched_yield", target_function(&target, "sched_yield"));
	expect_borrowed(flmem_borrow_run(&target.view, &chain, &options, &result, &err), &err);
	target_close(&target);
	assert_true(result.complete);
	assert_int_equal(result.tid, child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_threads_that_nobody_traces_are_borrowed,
						start_child, end_child),
	};

	return cmocka_run_group_tests_name("borrow_traced", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
