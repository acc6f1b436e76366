/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests a thread that waits for a lock while a signal waits for it, and a thread that is taken
 * back.
 */
#include "borrowed.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "proc/status.h"
#include "proc/task.h"
#include "remote/arch.h"
#include "remote/call_return.h"
#include "remote/checks/candidates.h"
#include "remote/errno_place.h"
#include "remote/rescue.h"
#include "remote/tracee.h"

#define OF_PROGRAM	   1234
#define OF_CALL		   4321
#define SIGNAL_BIT(number) (UINT64_C(1) << ((number)-1))
#define MASK_OF_CALLS	   (~SIGNAL_BIT(33)) /* glibc does not block the signal of setxid() */

struct page {
	_Atomic uint32_t words[2];
	_Atomic pid_t thread;
	_Atomic uint64_t handled, rounds;
	_Atomic uint64_t waits;	 /* waits for a lock that were begun */
	bool polls;		 /* the thread polls, instead of waiting for a lock */
	_Atomic int number;	 /* the value in place of its errno */
	_Atomic uint32_t turns;	 /* 1: the first thread does not only wait */
	uint64_t cookie, end[2]; /* words of the calls that it makes */
};

static struct page *page;
static const struct flmem_errno_value no_errno;

#ifdef __x86_64__
struct fixture {
	pid_t child;
	struct flmem_process process;
};

static void handle(int number)
{
	(void)number;
	atomic_fetch_add(&page->handled, 1);
}

/* Runs as a thread in the middle of its calls. */
static void *be_thread(void *unused)
{
	const uint64_t mask = MASK_OF_CALLS;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
	atomic_store(&page->thread, gettid());
	while (page->polls) /* polls for nothing, with the arguments of a futex call */
		syscall(SYS_poll, &page->words[0], FUTEX_WAIT, -1);
	for (size_t i = 0;; i = (i + 1) % 2) {
		while (atomic_load(&page->words[i])) {
			atomic_fetch_add(&page->waits, 1);
			syscall(SYS_futex, &page->words[i], FUTEX_WAIT, 1, NULL, NULL, 0);
		}
		atomic_store(&page->words[i], 1);
		atomic_fetch_add(&page->rounds, 1);
	}
	return unused;
}

static void be_child(void)
{
	const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	pthread_t thread;
	sigset_t all;

	sigaction(SIGUSR1, &action, NULL);
	if (pthread_create(&thread, NULL, be_thread, NULL))
		_exit(1);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	for (;;) {
		syscall(SYS_futex, &page->turns, FUTEX_WAIT, 0, NULL, NULL, 0);
		usleep(1000);
	}
}

static void wake(_Atomic uint32_t *at)
{
	syscall(SYS_futex, at, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static bool waits_in(const struct fixture *fixture, uint64_t address)
{
	struct flmem_task_wait wait;

	return page->thread && flmem_task_read_wait(&fixture->process, page->thread, &wait) == 1 &&
	       wait.number == SYS_futex && wait.args[0] == address;
}

/* Reports that the first thread waits. If it still ran, it would count as progress. */
static bool first_thread_waits(const struct fixture *fixture)
{
	struct flmem_task_wait wait;

	return flmem_task_read_wait(&fixture->process, fixture->child, &wait) == 1 &&
	       wait.number == SYS_futex && wait.args[0] == (uint64_t)(uintptr_t)&page->turns;
}

/* Reports that the thread polls. A poll() that was interrupted continues as restart_syscall(). */
static bool polls(const struct fixture *fixture)
{
	struct flmem_task_wait wait;

	return page->thread && flmem_task_read_wait(&fixture->process, page->thread, &wait) == 1 &&
	       (wait.number == SYS_poll || wait.number == SYS_restart_syscall);
}

static uint64_t word(size_t number)
{
	return (uint64_t)(uintptr_t)&page->words[number];
}

static void start(struct fixture *fixture, bool instead)
{
	memset(page, 0, sizeof(*page));
	page->words[0] = page->words[1] = 1;
	page->polls = instead;
	*fixture = (struct fixture){.process = FLMEM_PROCESS_INIT, .child = child_start(be_child)};
	assert_true(fixture->child > 0);
	assert_int_equal(flmem_process_open(fixture->child, &fixture->process, NULL), 0);
	await_true(page->polls ? polls(fixture) : waits_in(fixture, word(0)));
	await_true(first_thread_waits(fixture));
}

static void end(struct fixture *fixture)
{
	flmem_process_close(&fixture->process);
	child_end(fixture->child);
}

static void send_signal(const struct fixture *fixture, int number)
{
	assert_int_equal(syscall(SYS_tgkill, fixture->child, page->thread, number), 0);
}

static bool is_due(const struct fixture *fixture, uint64_t own_mask)
{
	return flmem_rescue_is_due(&fixture->process, page->thread, own_mask);
}

static void only_what_would_be_handled_is_due(void **state)
{
	struct fixture fixture;

	(void)state;
	start(&fixture, false);
	assert_false(is_due(&fixture, 0));
	kill(fixture.child, SIGUSR1); /* a signal for any thread of the process */
	assert_false(is_due(&fixture, 0));
	send_signal(&fixture, SIGUSR2); /* a signal without a handler */
	assert_false(is_due(&fixture, 0));
	send_signal(&fixture, SIGUSR1);
	assert_true(is_due(&fixture, 0));
	assert_true(is_due(&fixture, SIGNAL_BIT(SIGUSR2)));
	assert_false(is_due(&fixture, SIGNAL_BIT(SIGUSR1)));
	end(&fixture);
}

static bool is_stuck(const struct fixture *fixture, uint64_t at_ms,
		     struct flmem_rescue_progress *progress)
{
	return flmem_rescue_is_stuck(&fixture->process, page->thread, at_ms * 1000, progress);
}

static uint64_t switches(const struct fixture *fixture, pid_t tid)
{
	struct flmem_status status;

	assert_int_equal(flmem_status_read_thread(&fixture->process, tid, &status), 0);
	return status.voluntary_switches.value + status.involuntary_switches.value;
}

static void a_lock_that_nobody_passes_on_is_stuck(void **state)
{
	struct flmem_rescue_progress progress = {0};
	struct fixture fixture;

	(void)state;
	start(&fixture, false);
	assert_false(is_stuck(&fixture, 20, &progress));
	assert_false(is_stuck(&fixture, 110, &progress));
	assert_false(is_stuck(&fixture, 130, &progress));
	assert_false(is_stuck(&fixture, 220, &progress));
	assert_true(is_stuck(&fixture, 240, &progress));
	end(&fixture);
}

static void who_is_woken_is_not_stuck(void **state)
{
	struct flmem_rescue_progress progress = {0};
	struct fixture fixture;
	uint64_t before;

	(void)state;
	start(&fixture, false);
	assert_false(is_stuck(&fixture, 20, &progress));
	assert_false(is_stuck(&fixture, 130, &progress));
	before = switches(&fixture, page->thread);
	wake(&page->words[0]);
	await_true(switches(&fixture, page->thread) != before && waits_in(&fixture, word(0)));
	assert_false(is_stuck(&fixture, 240, &progress));
	assert_false(is_stuck(&fixture, 330, &progress));
	assert_false(is_stuck(&fixture, 350, &progress));
	assert_true(is_stuck(&fixture, 460, &progress));
	end(&fixture);
}

static void while_others_run_it_takes_a_second(void **state)
{
	struct flmem_rescue_progress progress = {0};
	struct fixture fixture;
	uint64_t at_ms, before;

	(void)state;
	start(&fixture, false);
	page->turns = 1;
	wake(&page->turns);
	for (at_ms = 20; at_ms <= 1000; at_ms += 70) {
		before = switches(&fixture, fixture.child);
		await_true(switches(&fixture, fixture.child) != before);
		assert_false(is_stuck(&fixture, at_ms, &progress));
	}
	assert_true(is_stuck(&fixture, 1020, &progress));
	end(&fixture);
}

static void nothing_is_due_outside_of_a_lock(void **state)
{
	struct fixture fixture;

	(void)state;
	start(&fixture, true);
	send_signal(&fixture, SIGUSR1);
	assert_false(is_due(&fixture, 0));
	end(&fixture);
}

/*
 * Lets the thread go round once: woken without a reason it waits again, in its own call. A second
 * stop in a row could find it in front of the call that it is about to repeat.
 */
static void settle(const struct fixture *fixture)
{
	uint64_t before = page->waits;

	for (int i = 0; i < 20000 && page->waits == before; i++) {
		wake(&page->words[0]);
		usleep(1000);
	}
	assert_true(page->waits != before);
	await_true(waits_in(fixture, word(0)));
}

/* Skips where no thread may be traced. It tries the main one: the other must not be disturbed. */
static void needs_tracing(const struct fixture *fixture)
{
	struct flmem_tracee tracee = {0};
	int rc = flmem_tracee_seize(&tracee, fixture->child, fixture->child);

	flmem_tracee_release(&tracee);
	if (rc == -EPERM) {
		print_message("SKIP: a child may not be traced here\n");
		skip();
	}
	assert_int_equal(rc, 0);
}

static void unlock(size_t number)
{
	atomic_store(&page->words[number], 0);
	syscall(SYS_futex, &page->words[number], FUTEX_WAKE, 1, NULL, NULL, 0);
}

static struct flmem_rescue_mark mark_with(uint64_t cookie)
{
	return (struct flmem_rescue_mark){(uint64_t)(uintptr_t)&page->cookie, cookie,
					  (uint64_t)(uintptr_t)page->end};
}

static void rescue_signals(const struct fixture *fixture, uint64_t own_mask, uint64_t cookie)
{
	const struct flmem_rescue_mark mark = mark_with(cookie);

	flmem_rescue_signals(&fixture->process, page->thread, own_mask, &mark);
}

static void a_handler_runs_and_the_wait_goes_on(void **state)
{
	struct fixture fixture;

	(void)state;
	start(&fixture, false);
	needs_tracing(&fixture);
	send_signal(&fixture, SIGUSR1);
	rescue_signals(&fixture, SIGNAL_BIT(SIGUSR2), 0);
	await_true(page->handled == 1);
	await_true(waits_in(&fixture, word(0)));
	assert_int_equal(page->rounds, 0);
	unlock(0);
	await_true(page->rounds == 1);
	end(&fixture);
}

static uint64_t voluntary_switches(const struct fixture *fixture)
{
	struct flmem_status status;

	return flmem_status_read_thread(&fixture->process, page->thread, &status)
		       ? 0
		       : flmem_u64_or(status.voluntary_switches, 0);
}

/* The thread's mask is that of its calls, in which no handler may run. */
static void no_handler_runs_outside_of_a_lock(void **state)
{
	struct flmem_status status;
	struct fixture fixture;
	uint64_t before;

	(void)state;
	start(&fixture, true);
	needs_tracing(&fixture);
	send_signal(&fixture, SIGUSR1);
	before = voluntary_switches(&fixture);
	rescue_signals(&fixture, 0, 0);
	/*
	 * After the stop the signal is blocked again. A signal that the thread may take comes
	 * before.
	 */
	await_true(polls(&fixture) && voluntary_switches(&fixture) > before + 1);
	assert_int_equal(flmem_status_read_thread(&fixture.process, page->thread, &status), 0);
	assert_true(status.sig_pending.value & SIGNAL_BIT(SIGUSR1));
	assert_int_equal(page->handled, 0);
	end(&fixture);
}

static uint64_t blocked_signals(const struct fixture *fixture)
{
	struct flmem_status status;

	assert_int_equal(flmem_status_read_thread(&fixture->process, page->thread, &status), 0);
	return status.sig_blocked.value;
}

/*
 * While flmem was stopped, the thread moved on: it waits for a lock of its program, or in calls of
 * another flmem.
 */
static void a_thread_that_has_restored_itself_keeps_its_mask(void **state)
{
	struct fixture fixture;
	uint64_t blocked;

	(void)state;
	start(&fixture, false);
	needs_tracing(&fixture);
	blocked = blocked_signals(&fixture);
	send_signal(&fixture, SIGUSR1);
	rescue_signals(&fixture, 0, 1);
	for (size_t i = 0; i < 2; i++) {
		settle(&fixture);
		page->end[i] = 1;
		rescue_signals(&fixture, 0, 0);
		page->end[i] = 0;
	}
	settle(&fixture);
	rescue_signals(&fixture, blocked, 0);
	settle(&fixture);
	assert_int_equal(page->handled, 0);
	assert_true(blocked_signals(&fixture) == blocked);
	end(&fixture);
}

static void a_thread_is_taken_back_from_the_locks_of_the_guard_alone(void **state)
{
	struct flmem_thread_state *own = malloc(sizeof(*own));
	const struct flmem_guard none = {0}, other = {.words = {word(0)}, .word_count = 1},
				 both = {.words = {word(0), word(1)}, .word_count = 2};
	const struct flmem_errno_value own_errno = {
		.known = true,
		.address = (uint64_t)(uintptr_t)&page->number,
		.value = OF_PROGRAM,
	};
	struct fixture fixture;
	const struct flmem_call_return back = {.process = &fixture.process, .own = own};
	const struct flmem_rescue_mark mark = mark_with(0), others = mark_with(1);
	pid_t thread;

	(void)state;
	start(&fixture, false);
	needs_tracing(&fixture);
	assert_int_equal(flmem_process_pin_memory(&fixture.process, NULL), 0);
	page->number = OF_CALL;
	thread = page->thread;
	assert_true(thread_read_state(fixture.child, page->thread, own));
	settle(&fixture);
	unlock(0);
	await_true(waits_in(&fixture, word(1)));
	/* The thread has restored itself, and waits for its program. */
	assert_false(flmem_rescue_abandon(thread, &both, &back, &mark, &own_errno));
	own->signal_mask = SIGNAL_BIT(SIGUSR2);
	await_true(waits_in(&fixture, word(1)));
	assert_false(flmem_rescue_abandon(thread, &none, &back, &mark, &own_errno));
	assert_false(flmem_rescue_abandon(thread, &other, &back, &mark, &own_errno));
	await_true(waits_in(&fixture, word(1)));
	/* Another flmem has borrowed the thread since. */
	assert_false(flmem_rescue_abandon(thread, &both, &back, &others, &own_errno));
	await_true(waits_in(&fixture, word(1)));
	assert_int_equal(page->number, OF_CALL);
	assert_true(flmem_rescue_abandon(thread, &both, &back, &mark, &own_errno));
	assert_int_equal(page->number, OF_PROGRAM);
	await_true(waits_in(&fixture, word(0)));
	unlock(0);
	/*
	 * With or without the lock, its loop may keep its place in memory, which therefore stays.
	 */
	await_true(waits_in(&fixture, word(1)));
	free(own);
	end(&fixture);
}

/* The other call counts, whatever its arguments look like. */
static void a_thread_in_another_call_is_not_taken_back(void **state)
{
	struct flmem_thread_state *own = calloc(1, sizeof(*own));
	const struct flmem_guard guard = {.words = {word(0)}, .word_count = 1};
	struct flmem_task_wait wait;
	struct fixture fixture;
	const struct flmem_call_return back = {.process = &fixture.process, .own = own};
	const struct flmem_rescue_mark mark = mark_with(0);

	(void)state;
	start(&fixture, true);
	needs_tracing(&fixture);
	assert_false(flmem_rescue_abandon(page->thread, &guard, &back, &mark, &no_errno));
	await_true(flmem_task_read_wait(&fixture.process, page->thread, &wait) == 1 &&
		   wait.number != SYS_futex);
	free(own);
	end(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_would_be_handled_is_due),
		cmocka_unit_test(a_lock_that_nobody_passes_on_is_stuck),
		cmocka_unit_test(who_is_woken_is_not_stuck),
		cmocka_unit_test(while_others_run_it_takes_a_second),
		cmocka_unit_test(nothing_is_due_outside_of_a_lock),
		cmocka_unit_test(a_handler_runs_and_the_wait_goes_on),
		cmocka_unit_test(no_handler_runs_outside_of_a_lock),
		cmocka_unit_test(a_thread_that_has_restored_itself_keeps_its_mask),
		cmocka_unit_test(a_thread_is_taken_back_from_the_locks_of_the_guard_alone),
		cmocka_unit_test(a_thread_in_another_call_is_not_taken_back),
	};

	page = child_share(sizeof(*page));
	if (!page)
		return 1;
	return cmocka_run_group_tests_name("rescue", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
