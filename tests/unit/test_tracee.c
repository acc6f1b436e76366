/* SPDX-License-Identifier: Apache-2.0 */
/* Tests one thread that is seized, stopped and released: events in between reach the program. */
#include "borrowed.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "proc/status.h"
#include "remote/tracee.h"

#define STOP_US 20000000U
#define TIMES	50

struct page {
	_Atomic uint64_t ready, handled, rounds, interrupted;
};

static struct page *page;
static pid_t child;

#ifdef __x86_64__
static bool steals_reports;

/* Replaces flmem's waitpid(): a thief is another thread of its process that waits for any child. */
pid_t waitpid(pid_t pid, int *status, int options)
{
	pid_t got = (pid_t)syscall(SYS_wait4, pid, status, options, NULL);

	return steals_reports && got == pid && WIFSTOPPED(*status) ? 0 : got;
}

static unsigned asked, lost_at; /* 0: the attempt is not lost */

bool __wrap_flmem_attempt_is_lost(void);

bool __wrap_flmem_attempt_is_lost(void)
{
	return ++asked >= lost_at && lost_at;
}

static bool is_dumping;

int __real_flmem_status_read_number(pid_t number, struct flmem_status *ret_status);
int __wrap_flmem_status_read_number(pid_t number, struct flmem_status *ret_status);

/*
 * Shows a dump. A real dump that lasts needs a file system which does not answer
 * (tests/cli/silent.bats).
 */
int __wrap_flmem_status_read_number(pid_t number, struct flmem_status *ret_status)
{
	int rc = __real_flmem_status_read_number(number, ret_status);

	if (is_dumping && number == child)
		ret_status->core_dumping.value = 1;
	return rc;
}

static void handle(int number)
{
	(void)number;
	atomic_fetch_add(&page->handled, 1);
}

static void execute(int number)
{
	char *argv[] = {"sleep", "1000", NULL};

	(void)number;
	execv("/bin/sleep", argv);
	_exit(2);
}

/* Waits in a call that gives EINTR after a stop, whoever stops it. */
static void be_child(void)
{
	const struct sigaction action = {.sa_handler = handle};
	int instance = epoll_create1(EPOLL_CLOEXEC);

	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGUSR2, &(struct sigaction){.sa_handler = execute}, NULL);
	atomic_store(&page->ready, 1);
	for (;;) {
		struct epoll_event event;

		if (epoll_wait(instance, &event, 1, -1) < 0 && errno == EINTR)
			atomic_fetch_add(&page->interrupted, 1);
		atomic_fetch_add(&page->rounds, 1);
	}
}

static void read_status(struct flmem_status *status)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

	assert_int_equal(flmem_process_open(child, &process, NULL), 0);
	assert_int_equal(flmem_status_read(&process, status, NULL), 0);
}

static char state_now(void)
{
	struct flmem_status status;

	read_status(&status);
	return status.state;
}

static int start_child(void **state)
{
	(void)state;
	steals_reports = false;
	page = child_share(sizeof(*page));
	child = page ? child_start(be_child) : 0;
	for (int i = 0; child && i < 20000 && (!page->ready || state_now() != 'S'); i++)
		usleep(1000);
	return !child;
}

static int end_child(void **state)
{
	(void)state;
	steals_reports = false;
	return child_close(child, page, sizeof(*page));
}

static void seize(struct flmem_tracee *tracee)
{
	int rc = flmem_tracee_seize(tracee, child, child);

	if (rc == -EPERM) {
		print_message("SKIP: a child may not be traced here\n");
		skip();
	}
	assert_int_equal(rc, 0);
}

static void expect_free(char state)
{
	struct flmem_status status;

	await_true(state_now() == state);
	read_status(&status);
	assert_false(status.tracer.unknown);
	assert_int_equal(status.tracer.value, 0);
}

/* Expects that the one signal that is sent ends the one wait. */
static void expect_one_round(void)
{
	assert_int_equal(page->rounds, 0);
	kill(child, SIGUSR1);
	await_true(page->rounds == 1);
	assert_int_equal(page->handled, 1);
	assert_int_equal(page->interrupted, 1);
}

static enum flmem_tracee_event poll_for_news(struct flmem_tracee *tracee)
{
	enum flmem_tracee_event event = FLMEM_TRACEE_NOTHING;

	for (int i = 0; i < 20000 && event == FLMEM_TRACEE_NOTHING; i++) {
		event = flmem_tracee_poll(tracee);
		if (event == FLMEM_TRACEE_NOTHING)
			usleep(1000);
	}
	return event;
}

static void a_thread_that_was_stopped_waits_on(void **state)
{
	(void)state;
	for (int i = 0; i < TIMES; i++) {
		struct flmem_tracee tracee = {0};

		seize(&tracee);
		assert_int_equal(flmem_tracee_stop(&tracee, STOP_US), FLMEM_TRACEE_STOPPED);
		assert_true(tracee.stopped);
		flmem_tracee_release(&tracee);
		assert_int_equal(tracee.tid, 0);
		expect_free('S');
	}
	expect_one_round();
}

static void a_thread_that_was_not_stopped_is_let_go(void **state)
{
	struct flmem_tracee tracee = {0};

	(void)state;
	seize(&tracee);
	flmem_tracee_release(&tracee);
	expect_free('S');
	expect_one_round();
}

static void a_signal_that_comes_meanwhile_is_passed_on(void **state)
{
	struct flmem_tracee tracee = {0};
	enum flmem_tracee_event event;

	(void)state;
	seize(&tracee);
	kill(child, SIGUSR1);
	event = poll_for_news(&tracee);
	assert_int_equal(event, FLMEM_TRACEE_OTHER);
	await_true(page->handled == 1);
	flmem_tracee_release(&tracee);
	expect_free('S');
	assert_int_equal(page->handled, 1);
}

/* The program ignores the signal, so that it gets it only while it is traced. */
static void an_ignored_signal_ends_no_wait(void **state)
{
	static const int signals[] = {SIGCHLD, SIGURG, SIGWINCH, SIGCONT};

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		struct flmem_tracee tracee = {0};

		seize(&tracee);
		kill(child, signals[i]);
		/* SIGCONT also stops the thread. If it has not run on, the release repairs that. */
		if (poll_for_news(&tracee) == FLMEM_TRACEE_OTHER)
			await_true(state_now() == 'S');
		flmem_tracee_release(&tracee);
		expect_free('S');
	}
	expect_one_round();
}

/* Runs in its own process, which is killed when it has seen the signal. */
static void trace_until_a_signal(void)
{
	struct flmem_tracee tracee = {0};
	int status = 0, got = 0;

	if (flmem_tracee_seize(&tracee, child, child))
		_exit(1);
	kill(child, SIGUSR1);
	while (!got)
		got = flmem_tracee_status(child, &status);
	if (got < 0 || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGUSR1)
		_exit(1);
	kill(getpid(), SIGKILL);
}

static void a_signal_that_a_killed_tracer_had_seen_is_delivered(void **state)
{
	struct flmem_tracee tracee = {0};

	(void)state;
	seize(&tracee); /* skips if it cannot seize */
	flmem_tracee_release(&tracee);
	for (uint64_t i = 1; i <= TIMES; i++) {
		int status;
		pid_t tracer = child_start(trace_until_a_signal);

		assert_true(tracer > 0);
		assert_int_equal(waitpid(tracer, &status, 0), tracer);
		assert_true(WIFSIGNALED(status));
		await_true(page->handled == i);
		await_true(state_now() == 'S');
	}
}

static void a_stop_of_the_whole_process_is_not_ours(void **state)
{
	struct flmem_tracee tracee = {0};

	(void)state;
	kill(child, SIGSTOP);
	await_true(state_now() == 'T');
	seize(&tracee);
	assert_int_equal(flmem_tracee_stop(&tracee, STOP_US), FLMEM_TRACEE_GROUP);
	flmem_tracee_release(&tracee);
	expect_free('T');
	kill(child, SIGCONT);
	await_true(state_now() == 'S');
}

static void a_stop_whose_report_was_taken_is_seen(void **state)
{
	(void)state;
	for (int i = 0; i < TIMES; i++) {
		struct flmem_tracee tracee = {0};

		seize(&tracee);
		steals_reports = true;
		assert_int_equal(flmem_tracee_stop(&tracee, STOP_US), FLMEM_TRACEE_STOPPED);
		steals_reports = false;
		flmem_tracee_release(&tracee);
		expect_free('S');
	}
	expect_one_round();
}

/* The thread's registers are then those of another program, which has no call to repeat. */
static void another_program_is_reported(void **state)
{
	struct flmem_tracee tracee = {0};
	enum flmem_tracee_event event;

	(void)state;
	seize(&tracee);
	kill(child, SIGUSR2);
	do
		event = poll_for_news(&tracee);
	while (event == FLMEM_TRACEE_OTHER);
	assert_int_equal(event, FLMEM_TRACEE_EXEC);
	assert_true(tracee.resumable);
	flmem_tracee_release(&tracee);
	expect_free('S');
}

/*
 * Expects that the child was killed and that flmem has not reaped it: its parent may be the program
 * that uses the library.
 */
static void expect_killed(void)
{
	siginfo_t end = {0};

	assert_int_equal(waitid(P_PID, (id_t)child, &end, WEXITED | WNOWAIT), 0);
	assert_int_equal(end.si_code, CLD_KILLED);
	assert_int_equal(end.si_status, SIGKILL);
}

static void a_thread_that_has_ended_is_reported(void **state)
{
	struct flmem_tracee tracee = {0};
	enum flmem_tracee_event event;

	(void)state;
	seize(&tracee);
	kill(child, SIGKILL);
	event = poll_for_news(&tracee);
	assert_int_equal(event, FLMEM_TRACEE_GONE);
	assert_int_equal(tracee.tid, 0);
	flmem_tracee_release(&tracee);
	expect_killed();
}

static void the_end_of_a_child_is_left_to_its_parent(void **state)
{
	struct flmem_tracee tracee = {0};

	(void)state;
	seize(&tracee);
	assert_int_equal(flmem_tracee_stop(&tracee, STOP_US), FLMEM_TRACEE_STOPPED);
	kill(child, SIGKILL);
	flmem_tracee_release(&tracee);
	assert_int_equal(tracee.tid, 0);
	expect_killed();
}

/* The caller has reported that the process was not touched. */
static void a_lost_attempt_seizes_nothing(void **state)
{
	struct flmem_tracee tracee = {0};
	struct flmem_status status;

	(void)state;
	seize(&tracee);
	flmem_tracee_release(&tracee);
	await_true(state_now() == 'S');
	for (unsigned at = 1; at <= 2; at++) {
		asked = 0;
		lost_at = at;
		assert_int_equal(flmem_tracee_seize(&tracee, child, child), -ESRCH);
		lost_at = 0;
		assert_int_equal(asked, at);
		read_status(&status);
		assert_int_equal(status.tracer.value, 0);
	}
	assert_int_equal(page->interrupted, 0);
}

/* The dump may have begun since the process was checked. */
static void a_process_that_dumps_core_is_not_seized(void **state)
{
	struct flmem_tracee tracee = {0};
	struct flmem_status status;

	(void)state;
	is_dumping = true;
	assert_int_equal(flmem_tracee_seize(&tracee, child, child), -ESRCH);
	is_dumping = false;
	read_status(&status);
	assert_int_equal(status.tracer.value, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_thread_that_was_stopped_waits_on, start_child,
						end_child),
		cmocka_unit_test_setup_teardown(a_thread_that_was_not_stopped_is_let_go,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(a_signal_that_comes_meanwhile_is_passed_on,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(an_ignored_signal_ends_no_wait, start_child,
						end_child),
		cmocka_unit_test_setup_teardown(a_signal_that_a_killed_tracer_had_seen_is_delivered,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(a_stop_of_the_whole_process_is_not_ours,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(a_stop_whose_report_was_taken_is_seen, start_child,
						end_child),
		cmocka_unit_test_setup_teardown(a_lost_attempt_seizes_nothing, start_child,
						end_child),
		cmocka_unit_test_setup_teardown(a_process_that_dumps_core_is_not_seized,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(another_program_is_reported, start_child,
						end_child),
		cmocka_unit_test_setup_teardown(a_thread_that_has_ended_is_reported, start_child,
						end_child),
		cmocka_unit_test_setup_teardown(the_end_of_a_child_is_left_to_its_parent,
						start_child, end_child),
	};

	return cmocka_run_group_tests_name("tracee", tests, NULL, NULL);
}
#else
int main(void)
{
	puts("SKIP: threads are not borrowed on this processor yet");
	return 77;
}
#endif
