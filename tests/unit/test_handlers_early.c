/* SPDX-License-Identifier: Apache-2.0 */
/* A handler computes for longer than most before it waits, while flmem checks its thread. */
#include "borrowed.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "proc/task.h"
#include "remote/checks/handlers.h"
#include "remote/gadgets.h"

#ifdef __x86_64__
#define COMPUTED_NS 2000000U /* processor time, more than flmem expects of a handler */

static struct page {
	_Atomic pid_t tid;
	_Atomic uint32_t never, looked;
} * page;
static struct target target;
static pid_t child;
static unsigned looks;

static void spin_and_wait(int number)
{
	(void)number;
	atomic_store(&page->tid, (pid_t)syscall(SYS_gettid));
	while (!atomic_load(&page->looked))
		;
	for (;;)
		syscall(SYS_futex, &page->never, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void *signal_itself(void *unused)
{
	raise(SIGUSR1);
	return unused;
}

static void be_child(void)
{
	const struct sigaction action = {.sa_handler = spin_and_wait};
	pthread_t thread;

	if (sigaction(SIGUSR1, &action, NULL) || pthread_create(&thread, NULL, signal_itself, NULL))
		_exit(1);
	for (;;)
		pause();
}

static bool is_waiting(void)
{
	struct flmem_task_wait wait;

	return flmem_task_read_wait(&target.process, page->tid, &wait) == 1;
}

static void let_compute(void)
{
	const uint64_t start = flmem_task_cpu_ns(&target.process, page->tid);

	await_true(!start || flmem_task_cpu_ns(&target.process, page->tid) > start + COMPUTED_NS);
}

/* Replaces flmem's pause: the thread computes up to the first check, and waits at the second. */
int nanosleep(const struct timespec *time, struct timespec *rest);
int nanosleep(const struct timespec *time, struct timespec *rest)
{
	if (looks++ == 0) {
		let_compute();
	} else {
		atomic_store(&page->looked, 1);
		await_true(is_waiting());
	}
	return (int)syscall(SYS_nanosleep, time, rest);
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

static void a_thread_is_looked_at_more_than_once_however_much_it_computes(void **state)
{
	struct flmem_gadgets gadgets;

	(void)state;
	await_true(page->tid);
	target_open(child, &target);
	expect_borrowed(flmem_gadgets_find(&target.view, &gadgets, NULL), &(struct flmem_error){0});
	assert_int_equal(flmem_handlers_find(&target.view, &gadgets, 0, UINT64_MAX), page->tid);
	target_close(&target);
}

/* The answer is the one that a trim would give. */
static void a_handler_is_a_refusal_before_anything_is_tried(void **state)
{
	const struct flmem_syscall_list syscalls = {0};
	const struct flmem_borrow_options options = {.timeout_us = 20000000, .syscalls = &syscalls};
	struct flmem_error err = {0};
	int rc;

	(void)state;
	await_true(page->tid);
	atomic_store(&page->looked, 1);
	target_open(child, &target);
	await_true(is_waiting() && is_blocked_in(child, SYS_pause));
	rc = flmem_borrow_precheck(&target.view, &options, &err);
	target_close(&target);
	if (rc != FLMEM_EUNSAFE)
		expect_borrowed(rc, &err);
	assert_int_equal(rc, FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "is inside a signal handler"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_thread_is_looked_at_more_than_once_however_much_it_computes, start_child,
			end_child),
		cmocka_unit_test_setup_teardown(a_handler_is_a_refusal_before_anything_is_tried,
						start_child, end_child),
	};

	return cmocka_run_group_tests_name("handlers_early", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
