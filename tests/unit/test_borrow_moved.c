/* SPDX-License-Identifier: Apache-2.0 */
/* Tests threads that do something else when they are stopped. */
#include "borrowed.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "patience.h"
#include "proc/status.h"

#define STACK_BYTES ((size_t)256 << 10)

struct page {
	_Atomic uint64_t ready, calls, rounds, faults;
	_Atomic uint32_t words[2]; /* futexes of the child */
	_Atomic bool block;	   /* makes the computing child enter a system call */
};

static struct page *page;
static pid_t child;
static int bell[2];

#if defined(__x86_64__) || defined(__aarch64__)
/* Called for the child before the real request. */
static void (*before_seize)(void);

static long answer_borrow_moved(enum __ptrace_request request, long tid, long address, long data)
{
	if (request == PTRACE_SEIZE && before_seize) {
		void (*act)(void) = before_seize;

		before_seize = NULL;
		act();
	}
	return ptrace_in_kernel(request, tid, address, data);
}

REPLACE_PTRACE(answer_borrow_moved)

__attribute__((noinline, no_sanitize("address", "undefined"))) static void note_call(void)
{
	atomic_fetch_add(&page->calls, 1);
}

/* Reads the system call that the child is in; "running" when it is in none. */
static void read_call(char *out, size_t size)
{
	char path[40];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)child);
	file = fopen(path, "re");
	if (!file || !fgets(out, (int)size, file))
		out[0] = '\0';
	if (file)
		fclose(file);
}

/* True in a futex call that waits for `value`. */
static bool waits_for(uint32_t value)
{
	unsigned long number, address, operation, seen;
	char text[256], *end;

	read_call(text, sizeof(text));
	number = strtoul(text, &end, 10);
	address = strtoul(end, &end, 16);
	operation = strtoul(end, &end, 16);
	seen = strtoul(end, &end, 16);
	return number == SYS_futex && address && operation == FUTEX_WAIT && seen == value;
}

/*
 * Makes one and the same call, first as an event, then as a lock that other threads wait for, too.
 */
static void be_locking(void)
{
	for (uint32_t value = 1;; value = 2) {
		_Atomic uint32_t *word = &page->words[value - 1];

		while (atomic_load(word) == value)
			syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
		atomic_fetch_add(&page->rounds, 1);
	}
}

/* Always is in the same call, whatever happens to it. */
static void be_waiting(void)
{
	for (;;) {
		syscall(SYS_futex, &page->words[0], FUTEX_WAIT, 1, NULL, NULL, 0);
		atomic_fetch_add(&page->rounds, 1);
	}
}

/* Once woken, waits for a child as vfork() does: no signal and no tracer interrupts that. */
static void be_vforking(void)
{
	char byte;

	while (atomic_load(&page->words[0]) == 1)
		syscall(SYS_futex, &page->words[0], FUTEX_WAIT, 1, NULL, NULL, 0);
	if (syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(read(bell[0], &byte, 1) != 1);
	}
	atomic_fetch_add(&page->rounds, 1);
	for (;;)
		pause();
}

static bool waits_for_its_child(void)
{
	char text[256];

	read_call(text, sizeof(text));
	return strtoul(text, NULL, 10) == SYS_clone;
}

static void begin_vfork(void)
{
	atomic_store(&page->words[0], 0);
	syscall(SYS_futex, &page->words[0], FUTEX_WAKE, 1, NULL, NULL, 0);
	await_true(waits_for_its_child());
}

static bool is_traced(void)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_status status;

	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	assert_int_equal(flmem_status_read(&process, &status, NULL), 0);
	return status.tracer.value;
}

static uint64_t times_asleep(void)
{
	struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_status status;

	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	assert_int_equal(flmem_status_read(&process, &status, NULL), 0);
	flmem_process_close(&process);
	return status.voluntary_switches.value;
}

/* Wakes the child once, and waits until it sleeps in its wait again. */
static void wake_up_once(void)
{
	uint64_t before = times_asleep();

	syscall(SYS_futex, &page->words[0], FUTEX_WAKE, 1, NULL, NULL, 0);
	await_true(times_asleep() > before && waits_for(1));
}

static void become_locked(void)
{
	atomic_store(&page->words[0], 0);
	syscall(SYS_futex, &page->words[0], FUTEX_WAKE, 1, NULL, NULL, 0);
	await_true(waits_for(2));
}

/* Computes until the test asks it to read, which it does once. */
static void be_computing(void)
{
	char byte;

	for (;;) {
		atomic_fetch_add(&page->ready, 1);
		if (!atomic_exchange(&page->block, false))
			continue;
		if (read(bell[0], &byte, 1) != 1)
			atomic_fetch_add(&page->faults, 1);
		atomic_fetch_add(&page->rounds, 1);
	}
}

static bool is_reading(void)
{
	char text[256];

	read_call(text, sizeof(text));
	return strncmp(text, "0 0x", 4) == 0;
}

static void begin_to_read(void)
{
	atomic_store(&page->block, true);
	await_true(is_reading());
}

static void compute(void)
{
	for (;;)
		atomic_fetch_add(&page->ready, 1);
}

static void be_computing_on_a_made_stack(void)
{
	void *stack =
		mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ucontext_t own, coroutine;

	if (stack == MAP_FAILED || getcontext(&coroutine))
		_exit(2);
	coroutine.uc_stack.ss_sp = stack;
	coroutine.uc_stack.ss_size = STACK_BYTES;
	coroutine.uc_link = NULL;
	makecontext(&coroutine, compute, 0);
	swapcontext(&own, &coroutine);
}

static int start(void (*be_child)(void))
{
	page = child_share(sizeof(*page));
	if (!page || pipe(bell))
		return 1;
	atomic_store(&page->words[0], 1);
	atomic_store(&page->words[1], 2);
	child = child_start(be_child);
	return !child;
}

static int start_locking(void **state)
{
	(void)state;
	return start(be_locking);
}

static int start_waiting(void **state)
{
	(void)state;
	return start(be_waiting);
}

static int start_vforking(void **state)
{
	(void)state;
	return start(be_vforking);
}

static int start_computing(void **state)
{
	(void)state;
	return start(be_computing);
}

static int start_on_a_made_stack(void **state)
{
	(void)state;
	return start(be_computing_on_a_made_stack);
}

static int end_child(void **state)
{
	(void)state;
	before_seize = NULL;
	pipe_close(bell);
	return child_close(child, page, sizeof(*page));
}

static int borrow(pid_t computing, struct flmem_error *err)
{
	const struct flmem_borrow_options options = {
		.timeout_us = 5000000, .single_pass = true, .computing = computing};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct target target;
	int rc;

	target_open(child, &target);
	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)note_call);
	rc = flmem_borrow_run(&target.view, &chain, &options, &result, err);
	target_close(&target);
	if (rc != FLMEM_EUNSAFE)
		expect_borrowed(rc, err);
	return rc;
}

/*
 * Checks that the waiting child is borrowed as it is, and refused if `change` happens before it is
 * stopped.
 */
static void expect_refused_after(void (*change)(void), struct flmem_error *err)
{
	await_true(waits_for(1));
	assert_int_equal(borrow(0, err), 0);
	assert_int_equal(page->calls, 1);
	await_true(waits_for(1));
	before_seize = change;
	assert_int_equal(borrow(0, err), FLMEM_EUNSAFE);
	assert_null(before_seize);
	assert_int_equal(page->calls, 1);
}

static void an_event_that_became_a_lock_is_left_alone(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	expect_refused_after(become_locked, &err);
	assert_null(strstr(err.message, "ran for a moment")); /* that is not checked first */
	await_true(waits_for(2));
	assert_int_equal(page->rounds, 1);
}

/* The thread may have sent a signal, and another thread may wait in its handler for this one. */
static void one_that_was_awake_meanwhile_is_left_alone(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	expect_refused_after(wake_up_once, &err);
	assert_non_null(strstr(err.message, "ran for a moment"));
	assert_int_equal(page->rounds, 1);
}

/* Nothing can stop it before its child ends. */
static bool is_seized_in_vfork(void)
{
	return waits_for_its_child() && is_traced();
}

/* flmem releases it before it can be stopped, and it is not stopped when that becomes possible. */
static void one_that_cannot_be_stopped_is_not_waited_for(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	patience_watch(is_seized_in_vfork);
	expect_refused_after(begin_vfork, &err);
	patience_watch_end();
	assert_non_null(strstr(err.message, "uninterruptible wait"));
	await_true(!is_traced());
	assert_true(waits_for_its_child());
	assert_int_equal(write(bell[1], "x", 1), 1);
	await_true(page->rounds == 1);
}

static void a_computing_thread_that_began_to_wait_is_left_alone(void **state)
{
	struct flmem_error err = {0};

	(void)state;
	await_true(page->ready);
	for (int i = 0; i < 2000 && before_seize == NULL && !page->rounds; i++) {
		before_seize = begin_to_read;
		assert_int_equal(borrow(child, &err), FLMEM_EUNSAFE);
		if (before_seize) { /* it was not running at the check */
			before_seize = NULL;
			continue;
		}
		assert_int_equal(page->calls, 0);
		assert_int_equal(write(bell[1], "x", 1), 1);
		await_true(page->rounds == 1);
	}
	assert_int_equal(page->rounds, 1);
	assert_int_equal(page->faults, 0);
}

static void a_computing_thread_on_a_made_stack_is_left_alone(void **state)
{
	struct flmem_error err = {0};
	uint64_t before;

	(void)state;
	await_true(page->ready);
	for (int i = 0; i < 5; i++)
		assert_int_equal(borrow(child, &err), FLMEM_EUNSAFE);
	assert_int_equal(page->calls, 0);
	before = page->ready;
	await_true(page->ready > before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_event_that_became_a_lock_is_left_alone,
						start_locking, end_child),
		cmocka_unit_test_setup_teardown(one_that_was_awake_meanwhile_is_left_alone,
						start_waiting, end_child),
		cmocka_unit_test_setup_teardown(one_that_cannot_be_stopped_is_not_waited_for,
						start_vforking, end_child),
		cmocka_unit_test_setup_teardown(a_computing_thread_that_began_to_wait_is_left_alone,
						start_computing, end_child),
		cmocka_unit_test_setup_teardown(a_computing_thread_on_a_made_stack_is_left_alone,
						start_on_a_made_stack, end_child),
	};

	return cmocka_run_group_tests_name("borrow_moved", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
