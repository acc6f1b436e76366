/* SPDX-License-Identifier: Apache-2.0 */
/* Tests a process of which one thread, not the main one, may not be traced. */
#include "borrowed.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct page {
	_Atomic pid_t thread; /* the second thread of the child */
	_Atomic bool held;    /* the tracer holds it */
	_Atomic bool failed;
	_Atomic bool released; /* the tracer has released it from its stop */
	_Atomic uint32_t ends; /* set to 1 and woken, the second thread ends */
};

static struct page *page;
static pid_t child, tracer;

/* The error that the kernel returns for the second thread, which may end right then. */
static int refusal;
static bool ends_then;

int __real_flmem_tracee_seize(struct flmem_tracee *tracee, pid_t tid, pid_t leader);
int __wrap_flmem_tracee_seize(struct flmem_tracee *tracee, pid_t tid, pid_t leader);

static bool is_gone(pid_t tid)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)child, (int)tid);
	return access(path, F_OK) != 0;
}

int __wrap_flmem_tracee_seize(struct flmem_tracee *tracee, pid_t tid, pid_t leader)
{
	if (!refusal || tid == leader)
		return __real_flmem_tracee_seize(tracee, tid, leader);
	if (ends_then) {
		atomic_store(&page->ends, 1);
		syscall(SYS_futex, &page->ends, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
		await_true(is_gone(tid));
	}
	return refusal;
}

#ifdef __x86_64__
static void *wait_for_ever(void *unused)
{
	(void)unused;
	atomic_store(&page->thread, gettid());
	while (!atomic_load(&page->ends))
		syscall(SYS_futex, &page->ends, FUTEX_WAIT, 0, NULL, NULL, 0);
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

/* A debugger that holds only this thread, until the test lets it continue. */
static void be_holder(void)
{
	const pid_t thread = atomic_load(&page->thread);
	int status;

	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) < 0 ||
	    ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) < 0 ||
	    waitpid(thread, &status, __WALL) != thread)
		atomic_store(&page->failed, true);
	atomic_store(&page->held, true);
	while (!atomic_load(&page->released))
		usleep(1000);
	ptrace(PTRACE_DETACH, thread, NULL, NULL);
	atomic_store(&page->held, false);
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
	tracer = 0;
	refusal = 0;
	ends_then = false;
	return child_close(child, page, sizeof(*page));
}

static int borrow_within(uint64_t timeout_us, struct flmem_borrow_result *ret_result,
			 struct flmem_error *err)
{
	const struct flmem_borrow_options options = {.timeout_us = timeout_us, .repeatable = true};
	struct flmem_chain chain = {0};
	struct target target;
	int rc;

	target_open(child, &target);
	flmem_chain_add(&chain, "sched_yield", target_function(&target, "sched_yield"));
	rc = flmem_borrow_run(&target.view, &chain, &options, ret_result, err);
	target_close(&target);
	return rc;
}

static int borrow(struct flmem_borrow_result *ret_result, struct flmem_error *err)
{
	return borrow_within(20000000, ret_result, err);
}

static void the_threads_that_nobody_traces_are_borrowed(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};

	(void)state;
	await_true(page->thread);
	tracer = child_start(be_tracer);
	assert_true(tracer);
	await_true(page->held);
	if (page->failed) {
		print_message("SKIP: a child may not be traced here\n");
		skip();
	}
	expect_borrowed(borrow(&result, &err), &err);
	assert_true(result.complete);
	assert_int_equal(result.tid, child);
}

/* The thread may have been stopped while it holds a lock of the allocator. */
static void no_thread_is_borrowed_while_a_debugger_holds_another(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};

	(void)state;
	await_true(page->thread);
	tracer = child_start(be_holder);
	assert_true(tracer);
	await_true(page->held);
	if (page->failed) {
		print_message("SKIP: a child may not be traced here\n");
		skip();
	}
	assert_int_equal(borrow_within(50000, &result, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "is stopped, perhaps by a debugger"));
	assert_false(result.started);
	atomic_store(&page->released, true);
	await_true(!page->held);
	expect_borrowed(borrow(&result, &err), &err);
}

static void await_both(void)
{
	await_true(page->thread && is_blocked_in(page->thread, SYS_futex) &&
		   is_blocked_in(child, SYS_pause));
}

/* The kernel returns EPERM for a thread that is ending: the others may still be borrowed. */
static void a_thread_that_ends_does_not_end_the_search(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};

	(void)state;
	await_both();
	expect_borrowed(borrow(&result, &err), &err); /* nothing else forbids it */
	await_both();
	refusal = -EPERM;
	ends_then = true;
	if (borrow(&result, &err))
		fail_msg("%s", err.message);
	assert_true(is_gone(page->thread));
	assert_int_equal(result.tid, child);
}

/*
 * Without permission for one thread there is no need to try the others; the reason must be
 * reported.
 */
static void a_thread_that_may_not_be_traced_ends_the_search(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};

	(void)state;
	await_both();
	refusal = -EPERM;
	assert_int_equal(borrow(&result, &err), FLMEM_EPERM);
	assert_non_null(strstr(err.message, "no permission"));
	assert_int_equal(result.tid, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_threads_that_nobody_traces_are_borrowed,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(
			no_thread_is_borrowed_while_a_debugger_holds_another, start_child,
			end_child),
		cmocka_unit_test_setup_teardown(a_thread_that_ends_does_not_end_the_search,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(a_thread_that_may_not_be_traced_ends_the_search,
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
