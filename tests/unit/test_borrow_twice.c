/* SPDX-License-Identifier: Apache-2.0 */
/* Two borrowers use one thread: its park looks the same for both, and has the same address. */
#include "borrowed.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "remote/chain.h"

#define TIMEOUT_US  20000000U
#define LONG_PARK_S 1000

struct page {
	_Atomic uint64_t calls, rounds, faults;
	_Atomic bool other_may;	 /* lets the other borrower begin */
	_Atomic bool first_done; /* lets the other borrower return for its thread */
	_Atomic int other_rc;
	_Atomic bool other_complete;
};

static struct page *page;
static pid_t child, other;
static int bell[2];

#if defined(__x86_64__) || defined(__aarch64__)
static bool is_first, is_other;

/* Returns the system call that the child is in; -1: in none. */
static long call_now(void)
{
	char path[40], text[64], *end;
	FILE *file;
	long number = -1;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)child);
	file = fopen(path, "re");
	if (file && fgets(text, sizeof(text), file)) {
		number = strtol(text, &end, 10);
		if (end == text)
			number = -1;
	}
	if (file)
		fclose(file);
	return number;
}

static bool is_parked(void)
{
	long number = call_now();

	return number == SYS_nanosleep || number == SYS_restart_syscall;
}

__attribute__((noinline, no_sanitize("address", "undefined"))) static void note_call(void)
{
	atomic_fetch_add(&page->calls, 1);
}

static int borrow(const struct target *target, struct flmem_borrow_result *result,
		  struct flmem_error *err)
{
	const struct flmem_borrow_options options = {.timeout_us = TIMEOUT_US};
	struct flmem_chain chain = {0};

	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)note_call);
	return flmem_borrow_run(&target->view, &chain, &options, result, err);
}

static struct target target;

static void be_other(void)
{
	struct flmem_borrow_result result;

	while (!page->other_may)
		flmem_clock_sleep_us(1000);
	is_other = true;
	page->other_rc = borrow(&target, &result, NULL);
	page->other_complete = result.complete;
	_exit(0);
}

/* The child waits at the end of the other one's calls as long as this test takes. */
uint64_t __real_flmem_chain_put(struct flmem_chain *chain, const void *bytes, size_t length);
uint64_t __wrap_flmem_chain_put(struct flmem_chain *chain, const void *bytes, size_t length);
uint64_t __wrap_flmem_chain_put(struct flmem_chain *chain, const void *bytes, size_t length)
{
	static const struct timespec park = {.tv_sec = LONG_PARK_S};

	if (is_other && bytes && length == sizeof(park))
		bytes = &park;
	return __real_flmem_chain_put(chain, bytes, length);
}

/* The first borrower is so late that the thread has restored itself, and is borrowed again. */
static void let_other_borrow(void)
{
	await_true(call_now() == SYS_read);
	page->other_may = true;
	await_true(page->calls == 2 && is_parked());
}

/* Called when either borrower returns for the thread after its calls. */
static void before_seizure(void)
{
	if (is_first && page->calls == 1 && !page->other_may)
		let_other_borrow();
	if (is_other && page->calls == 2)
		while (!page->first_done)
			flmem_clock_sleep_us(1000);
}

static long answer_borrow_twice(enum __ptrace_request request, long tid, long address, long data)
{
	if (request == PTRACE_SEIZE)
		before_seizure();
	return ptrace_in_kernel(request, tid, address, data);
}

REPLACE_PTRACE(answer_borrow_twice)

static void be_child(void)
{
	char byte = 0;

	for (;;) {
		if (read(bell[0], &byte, 1) != 1 || byte != 'x')
			atomic_fetch_add(&page->faults, 1);
		atomic_fetch_add(&page->rounds, 1);
	}
}

static int start_child(void **state)
{
	(void)state;
	return pipe(bell) || child_open(be_child, sizeof(*page), &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	is_first = false;
	if (other > 0) {
		child_end(other);
		other = 0;
	}
	pipe_close(bell);
	return child_close(child, page, sizeof(*page));
}

static void the_park_of_another_is_left_alone(void **state)
{
	struct flmem_borrow_result result;
	struct flmem_error err = {0};
	int rc;

	(void)state;
	await_true(call_now() == SYS_read);
	target_open(child, &target);
	other = child_start(be_other); /* it ends with the thread that starts it */
	assert_true(other > 0);
	is_first = true;
	rc = borrow(&target, &result, &err);
	if (!page->other_may)
		expect_borrowed(rc, &err);
	assert_int_equal(rc, FLMEM_EFAILED);
	assert_true(result.started && result.self_restored && !result.complete);
	await_true(is_parked());
	page->first_done = true;
	assert_int_equal(waitpid(other, NULL, 0), other);
	other = 0;
	assert_int_equal(page->other_rc, 0);
	assert_true(page->other_complete);
	assert_int_equal(page->calls, 2);
	await_true(call_now() == SYS_read);
	assert_int_equal(page->rounds, 0);
	assert_int_equal(write(bell[1], "x", 1), 1);
	await_true(page->rounds == 1);
	assert_int_equal(page->faults, 0);
	target_close(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_park_of_another_is_left_alone, start_child,
						end_child),
	};

	return cmocka_run_group_tests_name("borrow_twice", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
