/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests a seized thread that has taken its process's number by executing a program whose file does
 * not answer. It does not stop, and the thread that traces it must not wait for it without end.
 */
#include "borrowed.h"

#include <pthread.h>
#include <stdio.h>

#include "proc/status.h"
#include "remote/tracee.h"

#define LIMIT_S 60 /* for the whole test, which hangs without a limit */

static unsigned reads;

int __wrap_flmem_status_read_number(pid_t number, struct flmem_status *ret_status);

/* Gives the status of such a thread. */
int __wrap_flmem_status_read_number(pid_t number, struct flmem_status *ret_status)
{
	char text[100];

	(void)number;
	reads++;
	snprintf(text, sizeof(text), "Name:\tlate\nState:\tD (disk sleep)\nTracerPid:\t%d\n",
		 (int)gettid());
	return flmem_status_parse(text, ret_status, NULL);
}

static pid_t ended_process(void)
{
	const pid_t child = fork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	return child;
}

static void *stop_thread(void *context)
{
	struct flmem_tracee *tracee = context;
	const enum flmem_tracee_event event = flmem_tracee_stop(tracee, 1000);

	return (void *)(uintptr_t)(event == FLMEM_TRACEE_GONE && flmem_tracee_thread_must_exit());
}

static void the_tracing_thread_ends_instead(void **state)
{
	const pid_t gone = ended_process();
	struct flmem_tracee tracee = {.tid = gone, .leader = getpid()};
	pthread_t thread;
	void *must_exit;

	(void)state;
	alarm(LIMIT_S);
	assert_int_equal(pthread_create(&thread, NULL, stop_thread, &tracee), 0);
	assert_int_equal(pthread_join(thread, &must_exit), 0);
	assert_non_null(must_exit);
	assert_true(reads > 1); /* the file system may answer soon */
	assert_false(flmem_tracee_thread_must_exit());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_tracing_thread_ends_instead),
	};

	return cmocka_run_group_tests_name("tracee_late_exec", tests, NULL, NULL);
}
