/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread whose call waits for a lock that nobody releases may only leave it if it holds no other.
 */
#include "borrowed.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "proc/status.h"

/* Less than the time that flmem waits before it examines what a thread waits for. */
#define SHORT_US 10000U

struct page {
	_Atomic pid_t waiter;
	_Atomic uint32_t word;
	_Atomic bool returned, goes_on;
	bool signals; /* a signal is sent to the thread before it waits */
	_Atomic uint32_t handled;
	bool has_lock; /* the thread waits for it after the bell */
	_Atomic uint32_t lock;
};

static struct page *page;
static pid_t child;
static int bell[2];

#ifdef __x86_64__
__attribute__((noinline, no_sanitize("address", "undefined"))) static void wait_for_word(void)
{
	if (page->signals)
		syscall(SYS_tgkill, getpid(), page->waiter, SIGUSR1);
	atomic_store(&page->word, 1);
	while (atomic_load(&page->word))
		syscall(SYS_futex, &page->word, FUTEX_WAIT, 1, NULL, NULL, 0);
	atomic_store(&page->returned, true);
}

static void *wait_for_bell(void *unused)
{
	char byte;

	atomic_store(&page->waiter, (pid_t)syscall(SYS_gettid));
	while (read(bell[0], &byte, 1) != 1)
		continue;
	atomic_store(&page->goes_on, true);
	while (page->has_lock)
		syscall(SYS_futex, &page->lock, FUTEX_WAIT, 0, NULL, NULL, 0);
	return unused;
}

static void handle(int number)
{
	(void)number;
	atomic_fetch_add(&page->handled, 1);
}

static bool is_released; /* the thread was released, to make its calls */

static void await_lock(pid_t tid)
{
	for (int i = 0; i < 20000 && !is_blocked_in(tid, SYS_futex); i++)
		usleep(1000);
}

static void release_word(void)
{
	atomic_store(&page->word, 0);
	syscall(SYS_futex, &page->word, FUTEX_WAKE, 1, NULL, NULL, 0);
	await_true(page->returned);
}

static void assert_goes_on(void)
{
	assert_int_equal(write(bell[1], "x", 1), 1);
	await_true(page->goes_on);
}

/*
 * Lets the thread restore itself, as if flmem had been stopped for that time before it stops the
 * thread once more.
 */
static void let_restore_itself(pid_t tid)
{
	release_word();
	await_true(is_blocked_in(tid, SYS_read));
	assert_goes_on();
	await_true(is_blocked_in(tid, SYS_futex));
}

/* The time limit of the calls begins when flmem has released the thread that makes them. */
static long answer_borrow_stuck(enum __ptrace_request request, long tid, long address, long data)
{
	long rc;

	if (request == PTRACE_SEIZE && is_released && page->has_lock)
		let_restore_itself((pid_t)tid);
	rc = ptrace_in_kernel(request, tid, address, data);
	if (rc == 0 && request == PTRACE_DETACH && !is_released) {
		is_released = true;
		await_lock((pid_t)tid);
	}
	return rc;
}

REPLACE_PTRACE(answer_borrow_stuck)

static void be_child(void)
{
	const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	pthread_t thread;

	sigaction(SIGUSR1, &action, NULL);
	if (pthread_create(&thread, NULL, wait_for_bell, NULL))
		_exit(1);
	pthread_join(thread, NULL);
	for (;;)
		pause();
}

static uint64_t blocked_signals(pid_t tid)
{
	struct flmem_status status;

	assert_int_equal(flmem_status_read_number(tid, &status), 0);
	return status.sig_blocked.value;
}

static int start_child(void **state)
{
	(void)state;
	is_released = false;
	return pipe(bell) || child_open(be_child, sizeof(*page), &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	pipe_close(bell);
	return child_close(child, page, sizeof(*page));
}

static int run_call(bool cancels, uint64_t timeout_us, struct flmem_borrow_result *ret_result,
		    struct flmem_error *err)
{
	struct flmem_borrow_options options = {.timeout_us = timeout_us, .cancels = cancels};
	struct flmem_guard guard = {0};
	struct flmem_chain chain = {0};
	struct target target;
	int rc;

	await_true(page->waiter && is_blocked_in(page->waiter, SYS_read));
	options.only = page->waiter;
	options.guard = &guard;
	flmem_guard_add_word(&guard, (uint64_t)(uintptr_t)&page->word);
	target_open(child, &target);
	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)&wait_for_word);
	rc = flmem_borrow_run(&target.view, &chain, &options, ret_result, err);
	if (!ret_result->started)
		expect_borrowed(rc, err);
	target_close(&target);
	return rc;
}

static void a_call_without_other_locks_is_cancelled(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(run_call(true, 60000000, &result, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "was cancelled"));
	assert_goes_on();
	assert_false(page->returned);
}

/* Otherwise the thread would stay in the call, perhaps forever, and nothing would cancel it. */
static void it_is_cancelled_where_the_time_is_short(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(run_call(true, SHORT_US, &result, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "was cancelled"));
	assert_goes_on();
	assert_false(page->returned);
}

/* The sender may hold the lock, and wait until the signal was handled. */
static void a_signal_is_handled_before_the_thread_is_left(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};

	(void)state;
	page->signals = true;
	assert_int_equal(run_call(false, SHORT_US, &result, &err), FLMEM_EFAILED);
	await_true(page->handled == 1);
	assert_false(page->returned);
	release_word();
	assert_goes_on();
}

/* With the signal of pthread_cancel() blocked, nobody could cancel the thread any more. */
static void one_that_has_restored_itself_keeps_its_mask(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};

	(void)state;
	page->signals = page->has_lock = true;
	assert_int_equal(run_call(false, SHORT_US, &result, &err), FLMEM_EFAILED);
	assert_true(page->goes_on);
	assert_int_equal(page->handled, 1);
	assert_int_equal(blocked_signals(page->waiter), 0);
}

static void a_call_that_may_hold_others_is_not(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};

	(void)state;
	assert_int_equal(run_call(false, 3000000, &result, &err), FLMEM_EFAILED);
	assert_false(page->returned || page->goes_on);
	release_word();
	assert_goes_on();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_call_without_other_locks_is_cancelled,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(it_is_cancelled_where_the_time_is_short,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(a_call_that_may_hold_others_is_not, start_child,
						end_child),
		cmocka_unit_test_setup_teardown(a_signal_is_handled_before_the_thread_is_left,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(one_that_has_restored_itself_keeps_its_mask,
						start_child, end_child),
	};

	return cmocka_run_group_tests_name("borrow_stuck", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
