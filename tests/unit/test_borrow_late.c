/* SPDX-License-Identifier: Apache-2.0 */
/* Tests a flmem that gets no processor for longer than the borrowed thread waits for it. */
#include "borrowed.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* Deep enough to be below the beginning of the thread's scratch area, but above its end. */
#define DEEP_BYTES 3000
#define CALL_US	   20000

struct page {
	_Atomic bool overwrite; /* the child fills its stack when it continues */
	_Atomic uint64_t deep;	/* how often the child has begun to compute deep in its stack */
	_Atomic bool leave;	/* lets the child end that */
	_Atomic uint64_t left;
	_Atomic uint64_t faults; /* number of read() calls that returned no byte */
};

static struct page *page;
static pid_t child;
static int bell[2];

#if defined(__x86_64__) || defined(__aarch64__)
static bool sleeps_at_stop, sleeps_at_check, let_run, armed;

/* Wakes the child, so that it continues once it is restored, and waits until it has. */
static void come_late(void)
{
	assert_int_equal(write(bell[1], "x", 1), 1);
	await_true(page->deep);
}

/* Replaces flmem's ptrace(); its second stop is the one that ends the park. */
static long answer_borrow_late(enum __ptrace_request request, long tid, long address, long data)
{
	let_run = armed && request == PTRACE_DETACH;
	if (request == PTRACE_SEIZE && armed && sleeps_at_stop) {
		sleeps_at_stop = false;
		come_late();
	}
	armed = request == PTRACE_SETSIGMASK || (armed && request == PTRACE_DETACH);
	return ptrace_in_kernel(request, tid, address, data);
}

REPLACE_PTRACE(answer_borrow_late)

/* Replaces flmem's pause between two checks of calls that are not complete. */
static void pause_between_checks(void)
{
	if (sleeps_at_check && let_run) {
		sleeps_at_check = false;
		come_late();
	}
}

int sched_yield(void)
{
	pause_between_checks();
	return (int)syscall(SYS_sched_yield);
}

int nanosleep(const struct timespec *time, struct timespec *rest);
int nanosleep(const struct timespec *time, struct timespec *rest)
{
	pause_between_checks();
	return (int)syscall(SYS_nanosleep, time, rest);
}

__attribute__((noinline)) static void compute_deep_down(void)
{
	volatile unsigned char room[DEEP_BYTES];

	/* Otherwise the old content stays: a program may fill its stack later. */
	for (size_t i = 0; i < DEEP_BYTES && atomic_load(&page->overwrite); i++)
		room[i] = 0x5a;
	atomic_fetch_add(&page->deep, 1);
	while (!atomic_load(&page->leave))
		;
	(void)room[0];
}

static void be_child(void)
{
	char byte;

	for (;;) {
		if (read(bell[0], &byte, 1) != 1)
			atomic_fetch_add(&page->faults, 1);
		compute_deep_down();
		atomic_fetch_add(&page->left, 1);
	}
}

static int start_child(void **state)
{
	(void)state;
	armed = false;
	return pipe(bell) || child_open(be_child, sizeof(*page), &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	pipe_close(bell);
	return child_close(child, page, sizeof(*page));
}

static int borrow(const struct target *target, bool repeatable,
		  struct flmem_borrow_result *ret_result, struct flmem_error *err)
{
	const struct flmem_borrow_options options = {.timeout_us = 20000000,
						     .repeatable = repeatable};
	struct flmem_chain chain = {0};

	flmem_chain_add(&chain, "usleep", target_function(target, "usleep"))->args[0] = CALL_US;
	return flmem_borrow_run(&target->view, &chain, &options, ret_result, err);
}

/*
 * Checks that a thread that computes when flmem returns goes on computing until the test ends that.
 */
static void expect_left_alone(void)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};
	struct target target;
	int rc;

	target_open(child, &target);
	rc = borrow(&target, false, &result, &err);
	target_close(&target);
	if (rc != FLMEM_EFAILED)
		expect_borrowed(rc, &err);
	assert_int_equal(rc, FLMEM_EFAILED);
	assert_non_null(strstr(err.message, "before flmem got CPU time"));
	assert_true(result.started && result.self_restored && !result.complete);
	assert_int_equal(page->left, 0);
	atomic_store(&page->leave, true);
	await_true(page->left == 1);
	assert_int_equal(page->deep, 1);
	assert_int_equal(page->faults, 0);
}

static void a_thread_that_went_on_meanwhile_is_not_set_back(void **state)
{
	(void)state;
	sleeps_at_stop = true;
	expect_left_alone();
}

static void calls_whose_traces_are_gone_are_not_waited_for(void **state)
{
	(void)state;
	atomic_store(&page->overwrite, true);
	sleeps_at_check = true;
	expect_left_alone();
}

static void calls_that_may_be_repeated_are(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};
	struct target target;

	(void)state;
	atomic_store(&page->leave, true);
	target_open(child, &target);
	sleeps_at_stop = true;
	expect_borrowed(borrow(&target, true, &result, &err), &err);
	target_close(&target);
	assert_false(sleeps_at_stop);
	assert_true(result.complete && !result.self_restored);
	assert_true(result.call_ns[0] >= CALL_US * UINT64_C(1000));
	assert_int_equal(page->faults, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_thread_that_went_on_meanwhile_is_not_set_back,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(calls_whose_traces_are_gone_are_not_waited_for,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(calls_that_may_be_repeated_are, start_child,
						end_child),
	};

	return cmocka_run_group_tests_name("borrow_late", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
