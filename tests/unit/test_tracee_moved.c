/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests a thread that goes on to another call before it is stopped. Both calls differ only in their
 * first argument, which some kernels show no more when they have ended a call with EINTR.
 */
#include "borrowed.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>

#define STOP_US	  20000000U
#define PATIENCE  100 /* seconds; with a limit, a stop ends recv() with EINTR */
#define SOCKETS	  2
#define NO_SOCKET (-1L)

struct page {
	_Atomic uint64_t received[SOCKETS], interrupted;
};

static struct page *page;
static pid_t child;
static int ends[SOCKETS][2]; /* the child reads the first end of each */
static bool moves;
static struct timeval limit;

/* Makes the same call at the same place in turn, for one socket and for the other one. */
static void be_child(void)
{
	char byte;

	for (unsigned next = 0;;) {
		long got = syscall(SYS_recvfrom, ends[next][0], &byte, 1, 0, NULL, NULL);

		if (got == 1) {
			atomic_fetch_add(&page->received[next], 1);
			next = (next + 1) % SOCKETS;
		} else if (errno == EINTR) {
			atomic_fetch_add(&page->interrupted, 1);
		} else {
			_exit(1);
		}
	}
}

/* Returns the descriptor that the child reads from; NO_SOCKET when it is in no such call. */
static long read_socket(void)
{
	char path[40], text[256] = "", *end;
	unsigned long number;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)child);
	file = fopen(path, "re");
	if (file && !fgets(text, sizeof(text), file))
		*text = '\0';
	if (file)
		fclose(file);
	number = strtoul(text, &end, 10);
	return end != text && number == SYS_recvfrom ? strtol(end, NULL, 16) : NO_SOCKET;
}

static void move_on(void)
{
	assert_int_equal(write(ends[0][1], "a", 1), 1);
	await_true(read_socket() == ends[1][0]);
}

static long answer_tracee_moved(enum __ptrace_request request, long tid, long address, long data)
{
	if (request == PTRACE_INTERRUPT && moves) {
		moves = false;
		move_on();
	}
	return ptrace_in_kernel(request, tid, address, data);
}

REPLACE_PTRACE(answer_tracee_moved)

static int start_child(void)
{
	for (int i = 0; i < SOCKETS; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]) ||
		    setsockopt(ends[i][0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
			return 1;
	return child_open(be_child, sizeof(*page), &page, &child);
}

static int start_patient(void **state)
{
	(void)state;
	limit = (struct timeval){PATIENCE, 0};
	return start_child();
}

static int start_endless(void **state)
{
	(void)state;
	limit = (struct timeval){0};
	return start_child();
}

static int end_child(void **state)
{
	(void)state;
	for (int i = 0; i < SOCKETS; i++)
		pipe_close(ends[i]);
	return child_close(child, page, sizeof(*page));
}

static void stop_and_release(bool undisturbed)
{
	struct flmem_tracee tracee = {0};
	int rc = flmem_tracee_seize(&tracee, child, child);

	if (rc == -EPERM) {
		print_message("SKIP: a child may not be traced here\n");
		skip();
	}
	assert_int_equal(rc, 0);
	tracee.undisturbed = undisturbed;
	assert_int_equal(flmem_tracee_stop(&tracee, STOP_US), FLMEM_TRACEE_STOPPED);
	flmem_tracee_release(&tracee);
}

/*
 * Read until it is so, and never twice in a row: the kernel shows the call of a thread that was
 * released and has not run yet (TASK_WAKING), then that it runs, then the call that it is in.
 */
static void the_call_it_is_in_is_the_one_that_goes_on(void **state)
{
	(void)state;
	await_true(read_socket() == ends[0][0]);
	moves = true;
	stop_and_release(true);
	assert_false(moves);
	await_true(read_socket() == ends[1][0]);
	assert_int_equal(write(ends[1][1], "b", 1), 1);
	await_true(page->received[1] == 1);
	assert_int_equal(page->received[0], 1);
	assert_int_equal(page->interrupted, 0);
}

/* On some processors nothing shows whether the stop or a handler has ended a call. */
static void what_a_handler_may_have_ended_stays_ended(void **state)
{
	(void)state;
	await_true(read_socket() == ends[0][0]);
	moves = true;
	stop_and_release(false);
	await_true(read_socket() == ends[1][0]);
	await_true(page->interrupted == flmem_arch_forgets_wait);
}

static void the_program_sees_no_end_of_a_wait_that_it_stays_in(void **state)
{
	(void)state;
	await_true(read_socket() == ends[0][0]);
	stop_and_release(true);
	await_true(read_socket() == ends[0][0]);
	assert_int_equal(page->interrupted, 0);
	assert_int_equal(write(ends[0][1], "a", 1), 1);
	await_true(page->received[0] == 1);
	assert_int_equal(page->interrupted, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_call_it_is_in_is_the_one_that_goes_on,
						start_patient, end_child),
		cmocka_unit_test_setup_teardown(what_a_handler_may_have_ended_stays_ended,
						start_patient, end_child),
		cmocka_unit_test_setup_teardown(the_program_sees_no_end_of_a_wait_that_it_stays_in,
						start_endless, end_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
