/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which thread gets a signal for the process that arrives while another than main is held. */
#include "borrowed.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "proc/status.h"
#include "remote/shared_signals.h"

#define TIMEOUT_US 20000000U
#define TRIES	   20U
/* The number of signals is more than flmem could read in one request. */
#define QUEUED 100

struct page {
	_Atomic pid_t other, vfork_child, handler;
	_Atomic bool main_blocks, queues_others, main_ends, main_pauses;
};

static struct page *page;
static pid_t child;
static bool main_gets_processor;
static unsigned checks;

int __real_flmem_status_read_number(pid_t number, struct flmem_status *ret_status);
static bool is_holding; /* flmem holds the thread, during which it reads a status, too */

int __wrap_flmem_status_read_number(pid_t number, struct flmem_status *ret_status);

/* Acts as if the main thread got a processor after its mask was read for the first time. */
int __wrap_flmem_status_read_number(pid_t number, struct flmem_status *ret_status)
{
	int rc = __real_flmem_status_read_number(number, ret_status);

	if (!is_holding && !checks++ && main_gets_processor) {
		kill(atomic_load(&page->vfork_child), SIGKILL);
		await_true(atomic_load(&page->handler));
	}
	return rc;
}

static void take_signal(int number)
{
	(void)number;
	atomic_store(&page->handler, gettid());
}

/* Waits as a program that reads its signals from a signalfd, and is late. */
static void queue_signals(void)
{
	const union sigval value = {0};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	if (pthread_sigmask(SIG_BLOCK, &set, NULL))
		_exit(2);
	for (int i = 0; i < QUEUED && sigqueue(getpid(), SIGRTMIN, value) == 0; i++)
		continue;
}

static void *wait_for_signals(void *unused)
{
	atomic_store(&page->other, gettid());
	for (;;)
		pause();
	return unused;
}

/* A parent in vfork() is chosen for a signal and cannot take it, like one without a processor. */
static void be_waiting(void)
{
	const struct sigaction action = {.sa_handler = take_signal};
	pthread_t thread;
	sigset_t set;

	if (atomic_load(&page->queues_others))
		queue_signals();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	if (sigaction(SIGUSR1, &action, NULL) ||
	    pthread_create(&thread, NULL, wait_for_signals, NULL))
		_exit(2);
	while (!atomic_load(&page->other))
		usleep(1000);
	if (atomic_load(&page->main_blocks) && pthread_sigmask(SIG_BLOCK, &set, NULL))
		_exit(2);
	if (atomic_load(&page->main_ends))
		pthread_exit(NULL);
	while (atomic_load(&page->main_pauses))
		pause();
	/* NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
	if (vfork() == 0) {
		atomic_store(&page->vfork_child, (pid_t)syscall(SYS_getpid));
		for (;;)
			syscall(SYS_pause);
	}
	/* NOLINTEND(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
	for (;;)
		pause();
}

static int share(void **state)
{
	(void)state;
	page = child_share(sizeof(*page));
	return !page;
}

static int end_child(void **state)
{
	pid_t inner = atomic_load(&page->vfork_child);

	(void)state;
	main_gets_processor = false;
	if (inner)
		kill(inner, SIGKILL);
	child_end(child);
	memset(page, 0, sizeof(*page));
	return 0;
}

static void hold(pid_t tid, struct flmem_tracee *tracee)
{
	int rc;

	is_holding = true;
	rc = flmem_tracee_seize(tracee, tid, child);
	is_holding = false;
	if (rc == -EPERM) {
		print_message("SKIP: threads may not be traced here\n");
		skip();
	}
	assert_int_equal(rc, 0);
	assert_int_equal(flmem_tracee_stop(tracee, TIMEOUT_US), FLMEM_TRACEE_STOPPED);
}

static bool is_main_where_it_stays(void)
{
	struct flmem_status status;

	if (atomic_load(&page->main_ends))
		return __real_flmem_status_read_number(child, &status) == 0 && status.state == 'Z';
	return atomic_load(&page->main_pauses) ? is_blocked_in(child, SYS_pause)
					       : atomic_load(&page->vfork_child);
}

static void hold_other(struct flmem_tracee *tracee)
{
	child = child_start(be_waiting);
	assert_true(child);
	await_true(is_main_where_it_stays() && is_blocked_in(atomic_load(&page->other), SYS_pause));
	hold(atomic_load(&page->other), tracee);
	checks = 0;
}

/* Holds the other thread, sends the signal, releases it; true if the handler ran in that thread. */
static bool is_taken_by_other(void)
{
	struct flmem_tracee tracee = {0};

	hold_other(&tracee);
	assert_int_equal(kill(child, SIGUSR1), 0);
	flmem_tracee_release(&tracee);
	await_true(atomic_load(&page->handler));
	return atomic_load(&page->handler) != child;
}

/*
 * Otherwise the main thread's wait would last: pause() ends when a handler has run in that thread.
 */
static void the_main_thread_takes_it(void **state)
{
	(void)state;
	main_gets_processor = true;
	assert_false(is_taken_by_other());
	assert_int_equal(checks, 1);
}

static void it_takes_one_behind_many_that_are_blocked(void **state)
{
	(void)state;
	main_gets_processor = true;
	atomic_store(&page->queues_others, true);
	assert_false(is_taken_by_other());
}

/*
 * On a busy machine the time passes without a wait for the main thread, so the checks are counted,
 * too.
 */
static void a_main_thread_that_stays_away_is_not_awaited_for_ever(void **state)
{
	unsigned most = 0;

	for (unsigned i = 0; i < TRIES && most < 2; i++) {
		uint64_t start = flmem_clock_us();

		if (i)
			end_child(state);
		assert_true(is_taken_by_other());
		assert_true(flmem_clock_us() - start >= FLMEM_SHARED_SIGNALS_US);
		most = checks;
	}
	assert_true(most > 1);
}

static void nobody_waits_for_a_main_thread_that_blocks_it(void **state)
{
	(void)state;
	atomic_store(&page->main_blocks, true);
	assert_true(is_taken_by_other());
	assert_int_equal(checks, 1);
}

static void nobody_waits_for_a_main_thread_that_has_ended(void **state)
{
	(void)state;
	atomic_store(&page->main_ends, true);
	assert_true(is_taken_by_other());
	assert_int_equal(checks, 1);
}

static void nobody_waits_for_a_main_thread_that_is_held(void **state)
{
	struct flmem_tracee other = {0}, first = {0};

	(void)state;
	atomic_store(&page->main_pauses, true);
	hold_other(&other);
	hold(child, &first);
	assert_int_equal(kill(child, SIGUSR1), 0);
	flmem_tracee_release(&other);
	assert_int_equal(checks, 1);
	flmem_tracee_release(&first);
}

/* The signal stops all threads, whichever takes it. */
static void nobody_waits_for_a_main_thread_to_take_a_stopping_signal(void **state)
{
	static const int signals[] = {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(signals); i++) {
		struct flmem_tracee other = {0};

		hold_other(&other);
		assert_int_equal(kill(child, signals[i]), 0);
		flmem_tracee_release(&other);
		assert_int_equal(checks, 1);
		end_child(state);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(the_main_thread_takes_it, end_child),
		cmocka_unit_test_teardown(it_takes_one_behind_many_that_are_blocked, end_child),
		cmocka_unit_test_teardown(a_main_thread_that_stays_away_is_not_awaited_for_ever,
					  end_child),
		cmocka_unit_test_teardown(nobody_waits_for_a_main_thread_that_blocks_it, end_child),
		cmocka_unit_test_teardown(nobody_waits_for_a_main_thread_that_has_ended, end_child),
		cmocka_unit_test_teardown(nobody_waits_for_a_main_thread_that_is_held, end_child),
		cmocka_unit_test(nobody_waits_for_a_main_thread_to_take_a_stopping_signal),
	};

	return cmocka_run_group_tests_name("shared_signals", tests, share, NULL);
}
