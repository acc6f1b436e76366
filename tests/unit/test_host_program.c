/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host program of the library that trims on two threads, while others fork children that trim as
 * well, wait for any child, and send signals all the time.
 */
#include "borrowed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include <flmem/trim.h>

#define TRIMMERS   2
#define TRIMS	   15 /* number of trims of each thread */
#define FORKS	   8
#define TIMEOUT_US 500000U
#define HANG_S	   60U
#define WAITERS	   3

struct page {
	_Atomic uint64_t rounds, faults;
	_Atomic unsigned ready;
};

static struct page *page;
static pid_t target;
static int bell[2];
static _Atomic bool over;
static _Atomic unsigned handled, wrong, borrowed, stolen;

#ifdef __x86_64__
static void *wait_for_bell(void *unused)
{
	char byte;

	atomic_fetch_add(&page->ready, 1);
	for (;;) {
		if (read(bell[0], &byte, 1) != 1)
			atomic_fetch_add(&page->faults, 1);
		atomic_fetch_add(&page->rounds, 1);
	}
	return unused;
}

static void be_target(void)
{
	pthread_t thread;

	for (int i = 0; i < WAITERS; i++)
		if (pthread_create(&thread, NULL, wait_for_bell, NULL))
			_exit(1);
	wait_for_bell(NULL);
}

static void count_signal(int number)
{
	(void)number;
	atomic_fetch_add(&handled, 1);
}

/* A moment at which no thread may be borrowed is not a failure. */
static bool trim_once(void)
{
	const struct flmem_trim_options options = {.timeout_us = TIMEOUT_US};
	struct flmem_trim_result result;
	struct flmem_error err = {0};
	int rc = flmem_trim_process(target, &options, &result, &err);

	if (!rc)
		atomic_fetch_add(&borrowed, 1);
	if (rc && rc != FLMEM_EUNSAFE && rc != FLMEM_EPERM)
		print_message("%s\n", err.message);
	return !rc || rc == FLMEM_EUNSAFE || rc == FLMEM_EPERM;
}

static void *trim_often(void *unused)
{
	for (int i = 0; i < TRIMS; i++)
		if (!trim_once())
			atomic_fetch_add(&wrong, 1);
	return unused;
}

static void *fork_often(void *unused)
{
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();
		int status = 0;

		if (child == 0) {
			alarm(HANG_S);
			_exit(!trim_once());
		}
		/* The other thread may have reaped it. */
		if (child < 0 || (waitpid(child, &status, 0) == child && status))
			atomic_fetch_add(&wrong, 1);
	}
	return unused;
}

static void *wait_for_any(void *unused)
{
	while (!over) {
		if (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
			atomic_fetch_add(&stolen, 1);
		usleep(500);
	}
	return unused;
}

static void *send_signals(void *unused)
{
	while (!over) {
		kill(getpid(), SIGUSR1);
		usleep(500);
	}
	return unused;
}

static int start_target(void **state)
{
	(void)state;
	return pipe(bell) || child_open(be_target, sizeof(*page), &page, &target);
}

static int end_target(void **state)
{
	(void)state;
	pipe_close(bell);
	return child_close(target, page, sizeof(*page));
}

static void run_host(void)
{
	static void *(*const parts[])(void *) = {trim_often, trim_often, fork_often, wait_for_any,
						 send_signals};
	pthread_t threads[FLMEM_ARRAY_SIZE(parts)];

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(parts); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, parts[i], NULL), 0);
	for (size_t i = 0; i <= TRIMMERS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&over, true);
	for (size_t i = TRIMMERS + 1; i < FLMEM_ARRAY_SIZE(parts); i++)
		pthread_join(threads[i], NULL);
}

static void trims_beside_forks_signals_and_waits_do_no_harm(void **state)
{
	const struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	print_message("SKIP: the allocator of AddressSanitizer is not trimmed\n");
	skip();
#endif
	await_true(page->ready == WAITERS + 1);
	sigaction(SIGUSR1, &action, NULL);
	run_host();
	assert_int_equal(wrong, 0);
	assert_true(handled > 0);
	assert_int_equal(page->faults, 0);
	assert_int_equal(write(bell[1], "abcd", 4), 4);
	await_true(page->rounds == 4);
	if (!borrowed) {
		print_message("SKIP: a child may not be traced here\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(trims_beside_forks_signals_and_waits_do_no_harm,
						start_target, end_target),
	};

	return cmocka_run_group_tests_name("host_program", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
