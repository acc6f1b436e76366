/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests a flmem that is stopped or frozen while its calls run: no thread may have to wait for it.
 */
#include "borrowed.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "remote/interrupts.h"

#define CALL_US 200000

struct page {
	_Atomic bool called; /* the chain has reached its call */
	_Atomic bool over;   /* the chain has left its call */
	_Atomic bool ended;  /* flmem has ended */
	_Atomic int code;
	_Atomic uint64_t handled, rounds, faults;
	_Atomic uint32_t word; /* a lock; 1: released */
};

static struct page *page;
static pid_t child, borrower;
static int bell[2];

#ifdef __x86_64__
static void handle(int number)
{
	(void)number;
	atomic_fetch_add(&page->handled, 1);
}

/*
 * Called by the chain in the child, which is the same program and has the function at the same
 * address.
 */
__attribute__((noinline)) static void call_for_long(void)
{
	atomic_store(&page->called, true);
	usleep(CALL_US);
	atomic_store(&page->over, true);
}

static void be_child(void)
{
	const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	char byte;

	sigaction(SIGUSR1, &action, NULL);
	for (;;) {
		if (read(bell[0], &byte, 1) != 1)
			atomic_fetch_add(&page->faults, 1);
		atomic_fetch_add(&page->rounds, 1);
	}
}

static void borrow_for(const struct flmem_candidate_filter *filter, void (*call)(void))
{
	const struct flmem_borrow_options options = {.timeout_us = 20000000, .filter = filter};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct target target;

	target_open(child, &target);
	flmem_chain_add(&chain, "call", (uint64_t)(uintptr_t)call);
	atomic_store(&page->code, flmem_borrow_run(&target.view, &chain, &options, &result, &err));
	atomic_store(&page->ended, true);
	for (;;)
		pause();
}

static void be_borrower(void)
{
	borrow_for(NULL, call_for_long);
}

static int start_child(void **state)
{
	(void)state;
	return pipe(bell) || child_open(be_child, sizeof(*page), &page, &child);
}

static int end_child(void **state)
{
	(void)state;
	if (borrower)
		child_end(borrower);
	pipe_close(bell);
	return child_close(child, page, sizeof(*page));
}

static char state_of(pid_t pid)
{
	char name[64], text[512] = "";
	FILE *file;
	const char *end;

	snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
	file = fopen(name, "re");
	if (!file)
		return 0;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	end = strrchr(text, ')');
	return end && end[1] ? end[2] : '\0';
}

static void start_borrower(void (*work)(void))
{
	borrower = child_start(work);
	assert_true(borrower);
	await_true(page->called || page->ended);
	if (!page->called) {
		print_message("SKIP: a child may not be traced here (%d)\n", page->code);
		skip();
	}
}

/* Checks that the signal is handled, the call ends, and the thread continues its own. */
static void expect_target_goes_on(void)
{
	kill(child, SIGUSR1);
	await_true(page->over);
	await_true(page->handled == 1);
	assert_int_equal(write(bell[1], "xy", 2), 2);
	await_true(page->rounds == 2);
	kill(child, SIGUSR1);
	await_true(page->handled == 2);
	assert_int_equal(page->faults, 0);
}

static void the_target_does_not_wait_for_a_stopped_one(void **state)
{
	(void)state;
	start_borrower(be_borrower);
	kill(borrower, SIGSTOP);
	await_true(state_of(borrower) == 'T');
	assert_false(page->over);
	expect_target_goes_on();
	/* flmem returns to a thread that runs its program again, and reports that. */
	kill(borrower, SIGCONT);
	await_true(page->ended);
	assert_int_equal(page->code, FLMEM_EFAILED);
	assert_int_equal(write(bell[1], "z", 1), 1);
	await_true(page->rounds == 3);
	assert_int_equal(page->faults, 0);
}

/* Stops flmem at the worst place, while it holds the thread. */
static bool stop_in_the_middle(void *context, const struct flmem_candidate *candidate,
			       uint64_t pointer, const char **ret_reason)
{
	(void)context, (void)candidate, (void)ret_reason;
	if (pointer) {
		atomic_store(&page->called, true);
		tgkill(getpid(), gettid(), SIGSTOP); /* this very thread, at once */
	}
	return true;
}

static void be_command(void)
{
	const struct flmem_candidate_filter filter = {.accepts = stop_in_the_middle};

	flmem_interrupts_limit_hold(true);
	borrow_for(&filter, call_for_long);
}

static void a_command_that_is_stopped_with_a_thread_in_its_hands_is_killed(void **state)
{
	int status = 0;

	(void)state;
	start_borrower(be_command);
	assert_int_equal(waitpid(borrower, &status, 0), borrower);
	borrower = 0;
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(write(bell[1], "x", 1), 1);
	await_true(page->rounds == 1);
	assert_false(page->over);
	assert_int_equal(page->faults, 0);
}

/* Runs longer than a command may hold a thread. */
__attribute__((noinline)) static void call_past_the_limit(void)
{
	atomic_store(&page->called, true);
	usleep(4000000);
	atomic_store(&page->over, true);
}

static void be_patient_command(void)
{
	flmem_interrupts_limit_hold(true);
	borrow_for(NULL, call_past_the_limit);
}

static void a_command_that_waits_for_long_calls_is_not_killed(void **state)
{
	(void)state;
	start_borrower(be_patient_command);
	await_true(page->ended || state_of(borrower) == 'Z');
	assert_true(page->ended && page->over);
	assert_int_equal(page->code, 0);
}

static void be_command_without_timers(void)
{
	const struct rlimit none = {0, 0};

	if (setrlimit(RLIMIT_SIGPENDING, &none))
		_exit(2);
	be_command();
}

/* If flmem were stopped now, nothing would free the thread. */
static void a_command_that_cannot_be_killed_in_time_holds_no_thread(void **state)
{
	(void)state;
	borrower = child_start(be_command_without_timers);
	assert_true(borrower);
	await_true(page->called || page->ended);
	assert_false(page->called);
	if (page->code == FLMEM_EPERM) {
		print_message("SKIP: a child may not be traced here\n");
		skip();
	}
	assert_int_equal(page->code, FLMEM_EFAILED);
	assert_int_equal(write(bell[1], "x", 1), 1);
	await_true(page->rounds == 1);
	assert_false(page->over);
	assert_int_equal(page->faults, 0);
}

/*
 * Called by the chain in the child: waits for a lock, while a signal of the thread waits for the
 * call.
 */
__attribute__((noinline, no_sanitize("address", "undefined"))) static void wait_with_signal(void)
{
	syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
	atomic_store(&page->called, true);
	while (!atomic_load(&page->word))
		syscall(SYS_futex, &page->word, FUTEX_WAIT, 0, NULL, NULL, 0);
	atomic_store(&page->over, true);
}

/* Called when the thread is stopped: uses up the user's limit of pending signals. */
static bool use_up_timers(void *context, const struct flmem_candidate *candidate, uint64_t pointer,
			  const char **ret_reason)
{
	const struct rlimit none = {0, 0};

	(void)context, (void)candidate, (void)ret_reason;
	return !pointer || setrlimit(RLIMIT_SIGPENDING, &none) == 0;
}

static void be_command_with_one_timer(void)
{
	const struct flmem_candidate_filter filter = {.accepts = use_up_timers};

	flmem_interrupts_limit_hold(true);
	borrow_for(&filter, wait_with_signal);
}

/* The sender of the signal may hold the lock. */
static void a_signal_is_handled_where_no_second_timer_can_be_made(void **state)
{
	(void)state;
	start_borrower(be_command_with_one_timer);
	await_true(page->handled == 1);
	assert_false(page->over);
	atomic_store(&page->word, 1);
	syscall(SYS_futex, &page->word, FUTEX_WAKE, 1, NULL, NULL, 0);
	await_true(page->ended);
	assert_true(page->over);
	assert_int_equal(write(bell[1], "x", 1), 1);
	await_true(page->rounds == 1);
	assert_int_equal(page->faults, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_signal_is_handled_where_no_second_timer_can_be_made, start_child,
			end_child),
		cmocka_unit_test_setup_teardown(
			a_command_that_cannot_be_killed_in_time_holds_no_thread, start_child,
			end_child),
		cmocka_unit_test_setup_teardown(
			a_command_that_is_stopped_with_a_thread_in_its_hands_is_killed, start_child,
			end_child),
		cmocka_unit_test_setup_teardown(a_command_that_waits_for_long_calls_is_not_killed,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(the_target_does_not_wait_for_a_stopped_one,
						start_child, end_child),
	};

	return cmocka_run_group_tests_name("borrow_frozen", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
