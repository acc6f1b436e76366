/* SPDX-License-Identifier: Apache-2.0 */
/* Tests signals that the processor raises, and SIGABRT, when another process sends them. */
#include "borrowed.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>

#define BIT_OF(number) (UINT64_C(1) << ((number)-1))

struct page {
	_Atomic bool ready, in_call, called, interrupted, handled;
	_Atomic uint64_t pending;
};

static struct page *page;
static pid_t child;
static int bell[2];

#if defined(__x86_64__) || defined(__aarch64__)
static const int raised[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV};

static uint64_t bits_of_raised(void)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(raised); i++)
		bits |= BIT_OF(raised[i]);
	return bits;
}

static void wait_for_bell(void)
{
	char byte;

	atomic_store(&page->ready, true);
	while (read(bell[0], &byte, 1) != 1)
		continue;
	(void)syscall(SYS_rt_sigpending, &page->pending, sizeof(page->pending));
	atomic_store(&page->ready, false);
	for (;;)
		pause();
}

/* A program that takes these signals with sigwait() or signalfd(), and has not yet done so. */
static void be_blocking(void)
{
	const uint64_t mask = bits_of_raised();

	(void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, sizeof(mask));
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(raised); i++)
		(void)kill(getpid(), raised[i]);
	wait_for_bell();
}

static void handle(int number)
{
	(void)number;
	atomic_store(&page->interrupted, atomic_load(&page->in_call));
	atomic_store(&page->handled, true);
}

static void be_handling(void)
{
	const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};

	sigaction(SIGABRT, &action, NULL);
	wait_for_bell();
}

__attribute__((noinline, no_sanitize("address", "undefined"))) static void be_called(void)
{
	atomic_store(&page->called, true);
}

/* Sends the signal as a watchdog may while a borrowed thread has the locks of its allocator. */
__attribute__((noinline, no_sanitize("address", "undefined"))) static void be_aborted(void)
{
	atomic_store(&page->in_call, true);
	(void)syscall(SYS_kill, syscall(SYS_getpid), SIGABRT);
	atomic_store(&page->in_call, false);
}

static int start_blocking(void **state)
{
	(void)state;
	return pipe(bell) || child_open(be_blocking, sizeof(*page), &page, &child);
}

static int start_handling(void **state)
{
	(void)state;
	return pipe(bell) || child_open(be_handling, sizeof(*page), &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	pipe_close(bell);
	return child_close(child, page, sizeof(*page));
}

static void call_in_child(void (*function)(void))
{
	const struct flmem_borrow_options options = {.timeout_us = 20000000};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct target target;

	await_true(page->ready && is_blocked_in(child, SYS_read));
	target_open(child, &target);
	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)function);
	expect_borrowed(flmem_borrow_run(&target.view, &chain, &options, &result, &err), &err);
	target_close(&target);
}

static void those_that_the_thread_blocks_stay_pending(void **state)
{
	(void)state;
	call_in_child(be_called);
	assert_true(page->called);
	assert_int_equal(write(bell[1], "x", 1), 1);
	await_true(!page->ready);
	assert_int_equal(page->pending & bits_of_raised(), bits_of_raised());
}

static void the_handler_of_sigabrt_waits_for_the_end_of_the_calls(void **state)
{
	(void)state;
	call_in_child(be_aborted);
	await_true(page->handled);
	assert_false(page->interrupted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(those_that_the_thread_blocks_stay_pending,
						start_blocking, end_child),
		cmocka_unit_test_setup_teardown(
			the_handler_of_sigabrt_waits_for_the_end_of_the_calls, start_handling,
			end_child),
	};

	return cmocka_run_group_tests_name("borrow_raised", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
