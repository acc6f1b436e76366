/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how a borrower affects its own thread, and the locks that it checks first. */
#include "borrowed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "proc/status.h"
#include "remote/interrupts.h"
#include "remote/priority.h"
#include "remote/tracee.h"

struct page {
	_Atomic uint64_t ready, calls;
	_Atomic uint32_t lock; /* a lock like one of an allocator */
	_Atomic bool goes_on;  /* lets a waiting call go on */
};

static struct page *page;
static pid_t child;

#ifdef __x86_64__
/*
 * Called by chains: the function has the same address in the child, which is a copy of this test.
 */
__attribute__((noinline, no_sanitize("address", "undefined"))) static void note_call(void)
{
	atomic_fetch_add(&page->calls, 1);
}

__attribute__((noinline, no_sanitize("address", "undefined"))) static void wait_in_call(void)
{
	while (!atomic_load(&page->goes_on))
		syscall(SYS_sched_yield);
}

static void be_waiting(void)
{
	atomic_store(&page->ready, 1); /* otherwise the page is not mapped for this process */
	for (;;)
		pause();
}

static int start_waiting(void **state)
{
	(void)state;
	page = child_share(sizeof(*page));
	child = page ? child_start(be_waiting) : 0;
	for (int i = 0; child && i < 20000 && !(page->ready && is_blocked_in(child, SYS_pause));
	     i++)
		usleep(1000);
	return !child;
}

static int end_child(void **state)
{
	(void)state;
	return child_close(child, page, sizeof(*page));
}

static int borrow(const struct target *target, void (*function)(void),
		  struct flmem_borrow_options options, struct flmem_error *err)
{
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};

	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)function);
	options.timeout_us = 5000000;
	options.single_pass = true;
	return flmem_borrow_run(&target->view, &chain, &options, &result, err);
}

/* State of the calling thread that flmem changes while it holds another one. */
struct caller {
	sigset_t mask;
	int nice, slack;
};

static struct caller at_first, during;
static pid_t calling;
static uint64_t caller_blocks; /* the caller's signal mask meanwhile */

static struct caller read_caller(void)
{
	struct caller caller = {.nice = getpriority(PRIO_PROCESS, 0),
				.slack = prctl(PR_GET_TIMERSLACK)};

	pthread_sigmask(SIG_SETMASK, NULL, &caller.mask);
	return caller;
}

static bool note_caller(void *context, const struct flmem_candidate *candidate, uint64_t pointer,
			const char **ret_reason)
{
	FLMEM_AUTO_PROCESS struct flmem_process own = FLMEM_PROCESS_INIT;
	struct flmem_status status;

	(void)context;
	(void)candidate;
	(void)ret_reason;
	if (!pointer)
		return true;
	during = read_caller();
	if (flmem_process_open(getpid(), &own, NULL) == 0 &&
	    flmem_status_read_thread(&own, calling, &status) == 0)
		caller_blocks = flmem_u64_or(status.sig_blocked, 0);
	return true;
}

/* A stopped caller would hold the thread up; afterwards its state is as before. */
static void nobody_stops_the_caller_while_it_holds_a_thread(void **state)
{
	static const int stopping[] = {SIGTSTP, SIGTTIN, SIGTTOU, SIGINT, SIGTERM, SIGHUP};
	const struct flmem_candidate_filter filter = {note_caller, NULL};
	const struct flmem_borrow_options options = {.filter = &filter};
	struct caller after;
	struct flmem_error err = {0};
	struct target target;

	(void)state;
	calling = gettid();
	target_open(child, &target);
	expect_borrowed(borrow(&target, note_call, options, &err), &err);
	target_close(&target);
	after = read_caller();
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(stopping); i++) {
		assert_true(sigismember(&during.mask, stopping[i]));
		assert_true(caller_blocks >> (stopping[i] - 1) & 1U);
		assert_false(sigismember(&after.mask, stopping[i]));
	}
	assert_int_equal(after.nice, at_first.nice);
	assert_int_equal(after.slack, at_first.slack);
}

static void what_a_hold_changes_is_undone(void **state)
{
	struct caller before = read_caller(), meanwhile, after;
	struct flmem_priority priority;
	struct flmem_interrupts interrupts;
	struct target target;

	(void)state;
	target_open(child, &target);
	priority = flmem_priority_raise(&target.process, child);
	interrupts = flmem_interrupts_defer();
	meanwhile = read_caller();
	flmem_interrupts_restore(&interrupts);
	flmem_priority_restore(&priority);
	target_close(&target);
	after = read_caller();
	assert_true(sigismember(&meanwhile.mask, SIGTSTP));
	assert_false(sigismember(&after.mask, SIGTSTP));
	assert_true(meanwhile.nice <= before.nice);
	assert_int_equal(after.nice, before.nice);
	assert_int_equal(after.slack, before.slack);
}

static void a_held_lock_of_the_allocator_is_a_refusal(void **state)
{
	struct flmem_borrow_options options = {0};
	struct flmem_guard guard = {0};
	struct flmem_error err = {0};
	struct target target;

	(void)state;
	options.guard = &guard;
	flmem_guard_add_word(&guard, (uint64_t)(uintptr_t)&page->lock);
	target_open(child, &target);
	atomic_store(&page->lock, 1);
	assert_int_equal(borrow(&target, note_call, options, &err), FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "lock of the allocator"));
	assert_int_equal(page->calls, 0);
	atomic_store(&page->lock, 0);
	expect_borrowed(borrow(&target, note_call, options, &err), &err);
	target_close(&target);
}

static bool runs_last;

/* The flmem thread runs only when no other does, and may not change that. */
int __wrap_sched_getscheduler(pid_t pid);
int __wrap_sched_getscheduler(pid_t pid)
{
	(void)pid;
	return runs_last ? SCHED_IDLE : SCHED_OTHER;
}

int __wrap_sched_setscheduler(pid_t pid, int policy, const struct sched_param *param);
int __wrap_sched_setscheduler(pid_t pid, int policy, const struct sched_param *param)
{
	(void)pid;
	(void)policy;
	(void)param;
	return -1;
}

static void a_caller_that_runs_last_holds_no_thread(void **state)
{
	const struct flmem_borrow_options options = {0};
	struct flmem_error err = {0};
	struct target target;
	int rc;

	(void)state;
	target_open(child, &target);
	runs_last = true;
	rc = borrow(&target, note_call, options, &err);
	runs_last = false;
	target_close(&target);
	assert_int_equal(rc, FLMEM_EUNSAFE);
	assert_non_null(strstr(err.message, "SCHED_IDLE"));
	assert_int_equal(page->calls, 0);
}

static unsigned waits; /* number of waits seen in the call */

bool __wrap_flmem_tracee_thread_must_exit(void);
bool __wrap_flmem_tracee_thread_must_exit(void)
{
	return waits > 0;
}

static void note_wait(void *context, bool waits_for_call)
{
	(void)context;
	if (waits_for_call && ++waits > 2)
		atomic_store(&page->goes_on, true);
}

/* The end of the caller releases its tracees; the borrowed thread restores itself. */
static void a_caller_that_has_to_end_does_not_wait_for_the_call(void **state)
{
	const struct flmem_borrow_options options = {.observe = note_wait};
	struct flmem_error err = {0};
	struct target target;
	int rc;

	(void)state;
	waits = 0;
	target_open(child, &target);
	rc = borrow(&target, wait_in_call, options, &err);
	target_close(&target);
	waits = 0;
	if (rc != FLMEM_EFAILED)
		expect_borrowed(rc, &err);
	assert_int_equal(rc, FLMEM_EFAILED);
	assert_non_null(strstr(err.message, "then restores itself"));
	assert_false(page->goes_on);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nobody_stops_the_caller_while_it_holds_a_thread,
						start_waiting, end_child),
		cmocka_unit_test_setup_teardown(what_a_hold_changes_is_undone, start_waiting,
						end_child),
		cmocka_unit_test_setup_teardown(a_held_lock_of_the_allocator_is_a_refusal,
						start_waiting, end_child),
		cmocka_unit_test_setup_teardown(a_caller_that_runs_last_holds_no_thread,
						start_waiting, end_child),
		cmocka_unit_test_setup_teardown(a_caller_that_has_to_end_does_not_wait_for_the_call,
						start_waiting, end_child),
	};

	at_first = read_caller(); /* before anything was borrowed */
	return cmocka_run_group_tests_name("borrow_caller", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
