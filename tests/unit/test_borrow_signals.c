/* SPDX-License-Identifier: Apache-2.0 */
#include "borrowed.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#define TIMES 30

/* Reports of the child about itself: waits that a signal has ended, and signals. */
struct page {
	_Atomic uint64_t ended, handled;
};

static struct page *page;
static pid_t child;

#if defined(__x86_64__) || defined(__aarch64__)
static void handle(int number)
{
	(void)number;
	atomic_fetch_add(&page->handled, 1);
}

static void be_child(void)
{
	const struct sigaction action = {.sa_handler = handle};

	sigaction(SIGUSR1, &action, NULL);
	for (;;) {
		pause();
		atomic_fetch_add(&page->ended, 1);
	}
}

static void read_for_ever(int flags)
{
	const struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
	int ends[2];
	char byte;

	sigaction(SIGUSR1, &action, NULL);
	if (pipe(ends))
		_exit(1);
	for (;;)
		if (read(ends[0], &byte, 1) < 0 && errno == EINTR)
			atomic_fetch_add(&page->ended, 1);
}

static void be_restarting_reader(void)
{
	read_for_ever(SA_RESTART);
}

static void be_reader(void)
{
	read_for_ever(0);
}

/*
 * Makes a wait that ends with EINTR at every signal with a handler. On aarch64 no thread is stopped
 * in epoll_wait().
 */
static int wait_for_event(int epoll)
{
#ifdef __aarch64__
	sigset_t none;

	(void)epoll;
	sigemptyset(&none);
	return sigsuspend(&none);
#else
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, -1);
#endif
}

static void be_poller(void)
{
	const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	const int epoll = epoll_create1(0);

	sigaction(SIGUSR1, &action, NULL);
	for (;;)
		if (wait_for_event(epoll) < 0 && errno == EINTR)
			atomic_fetch_add(&page->ended, 1);
}

static int start_reader(void **state)
{
	(void)state;
	return child_open(be_reader, sizeof(*page), &page, &child);
}

static int start_restarting_reader(void **state)
{
	(void)state;
	return child_open(be_restarting_reader, sizeof(*page), &page, &child);
}

static int start_poller(void **state)
{
	(void)state;
	return child_open(be_poller, sizeof(*page), &page, &child);
}

static int start_child(void **state)
{
	(void)state;
	return child_open(be_child, sizeof(*page), &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	return child_close(child, page, sizeof(*page));
}

/* How signals are sent once the thread is stopped. */
struct sender {
	bool storms;
	bool running;
	_Atomic bool enough;
	pthread_t thread;
	size_t sent;
};

static void *storm(void *context)
{
	struct sender *sender = context;

	while (!atomic_load(&sender->enough)) {
		kill(child, SIGUSR1);
		sched_yield();
	}
	return NULL;
}

static bool accepts(void *context, const struct flmem_candidate *candidate, uint64_t pointer,
		    const char **ret_reason)
{
	struct sender *sender = context;

	(void)candidate;
	(void)ret_reason;
	if (!pointer) /* the thread is not stopped yet */
		return true;
	kill(child, SIGUSR1);
	sender->sent++;
	if (sender->storms && !sender->running)
		sender->running = !pthread_create(&sender->thread, NULL, storm, sender);
	return true;
}

/* Sends signals meanwhile; ends when a chain has run, or the test is over. */
static void borrow_once(const struct flmem_view *view, uint64_t function, struct sender *sender)
{
	const struct flmem_candidate_filter filter = {accepts, sender};
	const struct flmem_borrow_options options = {
		.timeout_us = 20000000, .filter = &filter, .repeatable = true};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	int rc;

	flmem_chain_add(&chain, "sched_yield", function);
	rc = flmem_borrow_run(view, &chain, &options, &result, &err);
	atomic_store(&sender->enough, true);
	if (sender->running)
		pthread_join(sender->thread, NULL);
	expect_borrowed(rc, &err);
	assert_true(result.complete);
	assert_true(sender->sent > 0);
}

static void run_with_signals(bool storms)
{
	struct target target;
	uint64_t function;

	target_open(child, &target);
	function = target_function(&target, "sched_yield");
	for (size_t i = 0; i < TIMES; i++) {
		struct sender sender = {.storms = storms};
		uint64_t before = page->ended;

		borrow_once(&target.view, function, &sender);
		await_true(page->ended > before);
	}
	target_close(&target);
}

/*
 * A thread that waits for a signal in pause() waits without limit if it runs the handler too early.
 */
static void a_signal_that_comes_meanwhile_ends_the_wait(void **state)
{
	(void)state;
	run_with_signals(false);
	assert_true(page->ended <= page->handled);
}

/* SA_RESTART is not visible from outside. */
static void a_wait_goes_on_where_the_handler_restarts_it(void **state)
{
	struct target target;
	uint64_t function;

	(void)state;
	target_open(child, &target);
	function = target_function(&target, "sched_yield");
	for (size_t i = 0; i < TIMES; i++) {
		struct sender sender = {0};
		uint64_t before = page->handled;

		borrow_once(&target.view, function, &sender);
		await_true(page->handled > before);
	}
	assert_int_equal(page->ended, 0);
	target_close(&target);
}

/* If each signal stopped it, there would be no time for the calls. */
static void a_storm_of_signals_does_not_keep_the_calls_from_ending(void **state)
{
	(void)state;
	run_with_signals(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_signal_that_comes_meanwhile_ends_the_wait,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(a_signal_that_comes_meanwhile_ends_the_wait,
						start_reader, end_child),
		cmocka_unit_test_setup_teardown(a_signal_that_comes_meanwhile_ends_the_wait,
						start_poller, end_child),
		cmocka_unit_test_setup_teardown(a_wait_goes_on_where_the_handler_restarts_it,
						start_restarting_reader, end_child),
		cmocka_unit_test_setup_teardown(
			a_storm_of_signals_does_not_keep_the_calls_from_ending, start_child,
			end_child),
	};

	return cmocka_run_group_tests_name("borrow_signals", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
