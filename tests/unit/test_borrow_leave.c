/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that last longer than flmem waits: its signals must reach the thread all the same. */
#include "borrowed.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "proc/process.h"
#include "proc/status.h"

#define TIMEOUT_US 200000

struct page {
	_Atomic uint64_t handled, waits, faults;
};

static struct page *page;
static pid_t child;
static int own[2], first[2], second[2]; /* what the child waits for; what its two calls do */

#ifdef __x86_64__
static void handle(int number)
{
	(void)number;
	atomic_fetch_add(&page->handled, 1);
}

static void be_child(void)
{
	const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	char byte;

	sigaction(SIGUSR1, &action, NULL);
	for (;;) {
		atomic_fetch_add(&page->waits, 1);
		if (read(own[0], &byte, 1) != 1)
			atomic_fetch_add(&page->faults, 1);
	}
}

static int start_child(void **state)
{
	(void)state;
	return pipe(own) || pipe(first) || pipe(second) ||
	       child_open(be_child, sizeof(*page), &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	pipe_close(own);
	pipe_close(first);
	pipe_close(second);
	return child_close(child, page, sizeof(*page));
}

static void add_read(struct flmem_chain *chain, const struct target *target, int fd)
{
	struct flmem_call *call = flmem_chain_add(chain, "read", target_function(target, "read"));

	call->args[0] = (uint64_t)fd;
	call->args[1] = flmem_chain_put(chain, NULL, sizeof(uint64_t));
	call->args[2] = 1;
	call->data_args = 2U;
}

static int borrow(struct flmem_borrow_result *ret_result, struct flmem_error *err)
{
	const struct flmem_borrow_options options = {.timeout_us = TIMEOUT_US};
	struct flmem_chain chain = {0};
	struct target target;
	int rc;

	target_open(child, &target);
	add_read(&chain, &target, first[0]);
	add_read(&chain, &target, second[0]);
	rc = flmem_borrow_run(&target.view, &chain, &options, ret_result, err);
	target_close(&target);
	return rc;
}

static bool is_empty(const int ends[2])
{
	int left = -1;

	return ioctl(ends[0], FIONREAD, &left) == 0 && !left;
}

static uint64_t blocked_signals(void)
{
	struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_status status;

	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	assert_int_equal(flmem_status_read(&process, &status, NULL), 0);
	flmem_process_close(&process);
	return status.sig_blocked.value;
}

static void a_thread_that_is_left_in_its_calls_takes_its_signals(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};
	int rc;

	(void)state;
	await_true(page->waits == 1);
	rc = borrow(&result, &err);
	if (rc != FLMEM_EFAILED)
		expect_borrowed(rc, &err);
	assert_int_equal(rc, FLMEM_EFAILED);
	assert_non_null(strstr(err.message, "the call has not ended"));
	assert_int_equal(blocked_signals(), 0);
	kill(child, SIGUSR1);
	await_true(page->handled == 1);
	assert_int_equal(write(first[1], "x", 1), 1);
	await_true(is_empty(first));
	kill(child, SIGUSR1); /* in the second call, or on the way to it */
	await_true(page->handled == 2);
	assert_int_equal(write(second[1], "x", 1), 1);
	await_true(is_empty(second));
	assert_int_equal(write(own[1], "x", 1), 1);
	await_true(page->waits == 2);
	assert_int_equal(blocked_signals(), 0);
	assert_int_equal(page->faults, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_thread_that_is_left_in_its_calls_takes_its_signals, start_child,
			end_child),
	};

	return cmocka_run_group_tests_name("borrow_leave", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
