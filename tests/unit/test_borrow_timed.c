/* SPDX-License-Identifier: Apache-2.0 */
/* Tests a wait whose timeout only the stop shows, by EINTR: it starts again, but only once. */
#include "borrowed.h"

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "proc/status.h"

#define TIMEOUT_US 500000U
#define POLL_MS	   9000 /* less than the longest delay that is accepted */

struct page {
	_Atomic uint64_t ready, calls;
};

static struct page *page;
static pid_t child;

#ifdef __x86_64__
/*
 * Called by the chain: the function has the same address in the child, which is a copy of this
 * test.
 */
__attribute__((noinline, no_sanitize("address", "undefined"))) static void note_call(void)
{
	atomic_fetch_add(&page->calls, 1);
}

static void be_timed(void)
{
	const struct timeval limit = {.tv_sec = 3600};
	int ends[2];
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
		_exit(2);
	atomic_fetch_add(&page->ready, 1);
	for (;;)
		(void)!recv(ends[0], &byte, 1, 0);
}

static int start_timed(void **state)
{
	(void)state;
	return child_open(be_timed, sizeof(*page), &page, &child);
}

static void be_polling(void)
{
	struct epoll_event event;
	int epoll = epoll_create1(0);

	atomic_fetch_add(&page->ready, 1);
	for (;;) {
		(void)!syscall(SYS_epoll_pwait, epoll, &event, 1, POLL_MS, NULL, 8);
		atomic_fetch_add(&page->calls, 1);
	}
}

static int start_polling(void **state)
{
	(void)state;
	return child_open(be_polling, sizeof(*page), &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	return child_close(child, page, sizeof(*page));
}

static uint64_t count_sleeps(const struct target *target)
{
	struct flmem_status status;

	assert_int_equal(flmem_status_read_thread(&target->process, child, &status), 0);
	return flmem_u64_or(status.voluntary_switches, 0);
}

static void a_hidden_timeout_starts_again_once(void **state)
{
	const struct flmem_borrow_options options = {.timeout_us = TIMEOUT_US};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct target target;
	uint64_t before;
	int rc;

	(void)state;
	await_true(atomic_load(&page->ready) && is_blocked_in(child, SYS_recvfrom));
	target_open(child, &target);
	before = count_sleeps(&target);
	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)note_call);
	rc = flmem_borrow_run(&target.view, &chain, &options, &result, &err);
	if (rc != FLMEM_EUNSAFE)
		expect_borrowed(rc, &err);
	assert_int_equal(rc, FLMEM_EUNSAFE);
	await_true(is_blocked_in(child, SYS_recvfrom));
	assert_int_equal(page->calls, 0);
	/* One sleep in the stop, and one in the wait again. */
	assert_in_range(count_sleeps(&target) - before, 1, 2);
	target_close(&target);
}

/* Repeated dry runs must not keep a timeout from ending. */
static void a_dry_run_does_not_restart_a_timeout(void **state)
{
	const struct flmem_borrow_options options = {.timeout_us = TIMEOUT_US};
	struct flmem_borrow_result result;
	struct flmem_error err = {0};
	struct target target;
	uint64_t slept, calls;

	(void)state;
	await_true(atomic_load(&page->ready));
	target_open(child, &target);
	do {
		await_true(is_blocked_in(child, SYS_epoll_pwait));
		calls = atomic_load(&page->calls);
		slept = count_sleeps(&target);
		expect_borrowed(flmem_borrow_dry_run(&target.view, &options, &result, &err), &err);
		assert_int_equal(result.tid, child);
		assert_string_equal(result.waited_in, "epoll_pwait");
		assert_int_equal(result.late_us, POLL_MS * 1000);
		assert_true(result.unstopped);
		slept = count_sleeps(&target) - slept;
	} while (atomic_load(&page->calls) != calls); /* it may have ended by itself meanwhile */
	assert_int_equal(slept, 0);
	target_close(&target);
}

static bool refuses_stopped(void *context, const struct flmem_candidate *candidate,
			    uint64_t pointer, const char **ret_reason)
{
	(void)context, (void)candidate;
	*ret_reason = "is refused where it is stopped";
	return !pointer;
}

/*
 * Each stop restarts the timeout: with one in each pass it would not end before the time limit, nor
 * before the end of several borrowings.
 */
static void a_thread_that_cannot_be_borrowed_is_stopped_once(void **state)
{
	const struct flmem_candidate_filter filter = {.accepts = refuses_stopped};
	struct flmem_spared_threads spared = {0};
	const struct flmem_borrow_options options = {
		.timeout_us = TIMEOUT_US, .filter = &filter, .spared = &spared};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct target target;
	uint64_t before;

	(void)state;
	await_true(atomic_load(&page->ready) && is_blocked_in(child, SYS_epoll_pwait));
	target_open(child, &target);
	before = count_sleeps(&target);
	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)note_call);
	for (unsigned i = 0; i < 3; i++) {
		struct flmem_error err = {0};
		int rc = flmem_borrow_run(&target.view, &chain, &options, &result, &err);

		if (rc != FLMEM_EUNSAFE)
			expect_borrowed(rc, &err);
		assert_int_equal(rc, FLMEM_EUNSAFE);
		assert_non_null(strstr(err.message, "is refused where it is stopped"));
	}
	await_true(is_blocked_in(child, SYS_epoll_pwait));
	/* One sleep in the stop, and one in the wait again. */
	assert_in_range(count_sleeps(&target) - before, 1, 2 + 2 * atomic_load(&page->calls));
	assert_int_equal(spared.count, 1);
	assert_int_equal(spared.rows[0].tid, child);
	target_close(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_hidden_timeout_starts_again_once, start_timed,
						end_child),
		cmocka_unit_test_setup_teardown(a_thread_that_cannot_be_borrowed_is_stopped_once,
						start_polling, end_child),
		cmocka_unit_test_setup_teardown(a_dry_run_does_not_restart_a_timeout, start_polling,
						end_child),
	};

	return cmocka_run_group_tests_name("borrow_timed", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
