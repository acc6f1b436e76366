/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses the library while another of its own threads reaps every child there is, as
 * servers and shells do: that thread takes the library's stop events away.
 */
#include "borrowed.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <flmem/trim.h>

#define TIMES	   50
#define HOSTS	   4
#define TIMEOUT_US 20000000U
#define NAP_US	   1000

/* Reports of the child about itself. */
struct page {
	_Atomic uint64_t rounds, failures;
};

static struct page *page;
static pid_t child;

#if defined(__x86_64__) || defined(__aarch64__)
/* Actions and observations of the host's other threads. */
static struct {
	_Atomic bool enough;
	_Atomic uint64_t stolen;       /* stop events that waitpid(-1) gave to the host */
	_Atomic uint64_t dispositions; /* reads the disposition of SIGCHLD */
	pthread_t threads[2];
	bool running;
	_Atomic bool changed; /* it was not the one that the host had set */
} host;

static void on_child(int number)
{
	(void)number;
}

static void be_child(void)
{
	for (;;) {
		if (usleep(NAP_US) != 0)
			atomic_fetch_add(&page->failures, 1);
		atomic_fetch_add(&page->rounds, 1);
	}
}

static void *reap_every_child(void *unused)
{
	int status;

	(void)unused;
	while (!atomic_load(&host.enough)) {
		if (waitpid(-1, &status, __WALL | WNOHANG) > 0 && WIFSTOPPED(status))
			atomic_fetch_add(&host.stolen, 1);
		sched_yield();
	}
	return NULL;
}

static void *watch_the_disposition(void *unused)
{
	struct sigaction now;

	(void)unused;
	while (!atomic_load(&host.enough)) {
		if (sigaction(SIGCHLD, NULL, &now) != 0 || now.sa_handler != on_child)
			atomic_store(&host.changed, true);
		atomic_fetch_add(&host.dispositions, 1);
		sched_yield();
	}
	return NULL;
}

static int start_child(void **state)
{
	const struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_RESTART};

	(void)state;
	memset(&host, 0, sizeof(host));
	page = child_share(sizeof(*page));
	child = page ? child_start(be_child) : 0;
	return !child || sigaction(SIGCHLD, &action, NULL);
}

static void host_start(void)
{
	assert_int_equal(pthread_create(&host.threads[0], NULL, reap_every_child, NULL), 0);
	assert_int_equal(pthread_create(&host.threads[1], NULL, watch_the_disposition, NULL), 0);
	host.running = true;
	await_true(atomic_load(&host.dispositions));
}

static void host_end(void)
{
	if (!host.running)
		return;
	host.running = false;
	atomic_store(&host.enough, true);
	pthread_join(host.threads[0], NULL);
	pthread_join(host.threads[1], NULL);
}

static int end_child(void **state)
{
	(void)state;
	host_end();
	signal(SIGCHLD, SIG_DFL);
	return child_close(child, page, sizeof(*page));
}

/* Checks that the child keeps waiting, and no wait has returned. */
static void expect_child_runs_on(void)
{
	uint64_t before = atomic_load(&page->rounds);

	await_true(atomic_load(&page->rounds) > before + 2);
	assert_int_equal(atomic_load(&page->failures), 0);
}

static void a_thread_that_reaps_every_child_does_not_hold_the_target_up(void **state)
{
	const struct flmem_borrow_options options = {.timeout_us = TIMEOUT_US, .repeatable = true};
	struct target target;
	uint64_t function;

	(void)state;
	await_true(atomic_load(&page->rounds));
	target_open(child, &target);
	function = target_function(&target, "sched_yield");
	host_start();
	for (size_t i = 0; i < TIMES; i++) {
		struct flmem_borrow_result result;
		struct flmem_chain chain = {0};
		struct flmem_error err = {0};

		flmem_chain_add(&chain, "sched_yield", function);
		expect_borrowed(flmem_borrow_run(&target.view, &chain, &options, &result, &err),
				&err);
		assert_true(result.complete);
		expect_child_runs_on();
	}
	host_end();
	assert_false(atomic_load(&host.changed));
	target_close(&target);
	print_message("%zu calls; the host took %llu events away\n", (size_t)TIMES,
		      (unsigned long long)atomic_load(&host.stolen));
}

/* Several threads of the host each make a call into the same target. */
struct caller {
	pthread_t thread;
	size_t done, refused;
	char problem[FLMEM_ERROR_MESSAGE_MAX];
};

static void *trim_often(void *context)
{
	const struct flmem_trim_options options = {.timeout_us = TIMEOUT_US};
	struct caller *caller = context;

	for (size_t i = 0; i < TIMES / HOSTS && !caller->problem[0]; i++) {
		struct flmem_trim_result *result = calloc(1, sizeof(*result));
		struct flmem_error err = {0};
		int rc = flmem_trim_process(child, &options, result, &err);

		if (rc == 0)
			caller->done++;
		else if (rc == FLMEM_EUNSAFE || rc == FLMEM_EPERM)
			caller->refused++; /* another one has the thread */
		else
			snprintf(caller->problem, sizeof(caller->problem), "%s", err.message);
		free(result);
	}
	return NULL;
}

static void several_threads_of_a_host_trim_at_once(void **state)
{
	struct caller callers[HOSTS] = {0};
	size_t done = 0;

	(void)state;
#if defined(__SANITIZE_ADDRESS__)
	print_message("SKIP: the child has the malloc of AddressSanitizer, which is not trimmed\n");
	skip();
#endif
	await_true(atomic_load(&page->rounds));
	host_start();
	for (size_t i = 0; i < HOSTS; i++)
		assert_int_equal(pthread_create(&callers[i].thread, NULL, trim_often, &callers[i]),
				 0);
	for (size_t i = 0; i < HOSTS; i++) {
		pthread_join(callers[i].thread, NULL);
		if (callers[i].problem[0])
			fail_msg("%s", callers[i].problem);
		done += callers[i].done;
	}
	host_end();
	assert_false(atomic_load(&host.changed));
	expect_child_runs_on();
	assert_true(done > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_thread_that_reaps_every_child_does_not_hold_the_target_up, start_child,
			end_child),
		cmocka_unit_test_setup_teardown(several_threads_of_a_host_trim_at_once, start_child,
						end_child),
	};

	return cmocka_run_group_tests_name("borrow_stolen", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
