/* SPDX-License-Identifier: Apache-2.0 */
/* pthread_cancel() on a borrowed thread that waits for a lock in the middle of its calls. */
#include "borrowed.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "remote/rescue.h"

/* Number of flmem's checks of the thread before the lock that it waits for is released. */
#define LOOKS	   3U
#define TIMEOUT_US 20000000U

struct page {
	_Atomic pid_t thread;
	_Atomic uint32_t gate;	   /* the lock that the calls wait for; 1: released */
	_Atomic bool inside, held; /* held: a lock that the calls hold meanwhile */
	_Atomic bool cancelled, ended, sends_more;
	_Atomic unsigned handled;
};

static struct page *page;
static pid_t child;
static unsigned looks, due;

bool __real_flmem_rescue_is_due(const struct flmem_process *process, pid_t tid, uint64_t own_mask);
bool __wrap_flmem_rescue_is_due(const struct flmem_process *process, pid_t tid, uint64_t own_mask);

bool __wrap_flmem_rescue_is_due(const struct flmem_process *process, pid_t tid, uint64_t own_mask)
{
	if (atomic_load(&page->cancelled) && ++looks > LOOKS) {
		atomic_store(&page->gate, 1);
		syscall(SYS_futex, &page->gate, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
	if (!__real_flmem_rescue_is_due(process, tid, own_mask))
		return false;
	due++;
	return true;
}

#if defined(__x86_64__) || defined(__aarch64__)
static void handle(int number)
{
	(void)number;
	atomic_fetch_add(&page->handled, 1);
}

static void note_end(void *unused)
{
	(void)unused;
	atomic_store(&page->ended, true);
}

static void *be_reader(void *context)
{
	const int *ends = context;
	char byte;

	pthread_cleanup_push(note_end, NULL);
	atomic_store(&page->thread, gettid());
	while (read(ends[0], &byte, 1) != 1)
		continue;
	pthread_cleanup_pop(1);
	return NULL;
}

/* Behaves like an allocator that takes one lock and waits for the next. */
static void take_locks(void)
{
	atomic_store(&page->held, true);
	atomic_store(&page->inside, true);
	while (!atomic_load(&page->gate))
		syscall(SYS_futex, &page->gate, FUTEX_WAIT, 0, NULL, NULL, 0);
	atomic_store(&page->held, false);
}

static void be_child(void)
{
	const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	pthread_t thread;
	int ends[2];

	if (sigaction(SIGUSR1, &action, NULL) || pipe(ends) ||
	    pthread_create(&thread, NULL, be_reader, ends))
		_exit(1);
	while (!atomic_load(&page->inside))
		usleep(1000);
	if (pthread_cancel(thread))
		_exit(1);
	if (atomic_load(&page->sends_more))
		pthread_kill(thread, SIGUSR1);
	atomic_store(&page->cancelled, true);
	for (;;)
		pause();
}

static int start_child(void **state)
{
	(void)state;
	looks = due = 0;
	return child_open(be_child, sizeof(*page), &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	return child_close(child, page, sizeof(*page));
}

static void borrow_reader(void)
{
	const struct flmem_borrow_options options = {.timeout_us = TIMEOUT_US,
						     .only = atomic_load(&page->thread)};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct target target;
	int rc;

	target_open(child, &target);
	flmem_chain_add(&chain, "take_locks", (uint64_t)(uintptr_t)take_locks);
	rc = flmem_borrow_run(&target.view, &chain, &options, &result, &err);
	target_close(&target);
	expect_borrowed(rc, &err);
}

static void await_reader(void)
{
	await_true(atomic_load(&page->thread) &&
		   is_blocked_in(atomic_load(&page->thread), SYS_read));
}

static void it_ends_after_its_calls(void **state)
{
	(void)state;
	await_reader();
	borrow_reader();
	assert_false(atomic_load(&page->held));
	assert_int_equal(due, 0); /* there is no reason to stop it */
	await_true(atomic_load(&page->ended));
}

/* A signal that stops the world is handled meanwhile, and does not let the other one through. */
static void another_signal_is_handled_meanwhile(void **state)
{
	(void)state;
	atomic_store(&page->sends_more, true);
	await_reader();
	borrow_reader();
	assert_int_equal(atomic_load(&page->handled), 1);
	assert_false(atomic_load(&page->held));
	await_true(atomic_load(&page->ended));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_ends_after_its_calls, start_child, end_child),
		cmocka_unit_test_setup_teardown(another_signal_is_handled_meanwhile, start_child,
						end_child),
	};

	return cmocka_run_group_tests_name("borrow_cancelled", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
