/* SPDX-License-Identifier: Apache-2.0 */
/* Tests a thread that is released in a call which its filters no longer allow. */
#include "borrowed.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/portable.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"
#include "remote/borrow.h"
#include "remote/tracee.h"

#define STOP_US	  1000000U
#define RESTARTED 512 /* ERESTARTSYS; include/linux/errno.h of the kernel */

/* The report of the child's thread, in memory that it shares with the test. */
static struct report {
	_Atomic pid_t process, tid;
	atomic_bool ordered, filtered, done;
	atomic_int evaded, calls;
	long result, error, next_error;
} * report;
static int ends[2];
static bool sleeps, refuses_options;
static unsigned filters; /* number of filters before the one that kills */
/* A signal that the child ignores, sent when it is resumed for the n-th time; the first is 1. */
static int disturbs_with, disturbs_at, resumed;

/* The tracer gets no processor for a while. */
static bool is_late;
/* The report of a stop is delivered to another thread that waits for any child. */
static bool is_stolen;
/* The thread moves on to its next call when it is seized. */
static bool moves_on;

static bool is_asleep(pid_t tid, bool traced)
{
	struct flmem_status status;

	return flmem_status_read_number(tid, &status) == 0 && status.state == 'S' &&
	       (traced || !status.tracer.value);
}

/* The filters are set when it is seized after its calls. */
static bool filters_come, is_armed;

static void await_filters(void)
{
	report->ordered = true;
	await_true(report->filtered);
}

static void move_on(void)
{
	report->ordered = true;
	await_true(report->filtered);
	assert_int_equal(write(ends[1], "..", 2), 2);
	await_true(report->calls == 2 && is_asleep(report->tid, true));
}

/* The part of its call that differs when the thread enters it, as if its registers were changed. */
static enum alteration {
	ALTERS_NOTHING,
	ALTERS_NUMBER,
	ALTERS_ARGUMENT,
	ALTERS_STACK,
	ALTERS_PLACE
} alters;

#ifdef __x86_64__
void another_place(void);
__asm__(".pushsection .text\nanother_place: syscall\nhlt\n.popsection");
#define SYSCALL_BYTES 2

static void alter_call(pid_t tid)
{
	struct user_regs_struct regs;

	assert_int_equal(ptrace_in_kernel(PTRACE_GETREGS, tid, 0, (long)(uintptr_t)&regs), 0);
	if (alters == ALTERS_NUMBER)
		regs.orig_rax = SYS_getppid;
	else if (alters == ALTERS_ARGUMENT)
		regs.r9++;
	else if (alters == ALTERS_STACK)
		regs.rsp -= 16;
	else
		regs.rip = (uintptr_t)another_place + SYSCALL_BYTES;
	assert_int_equal(ptrace_in_kernel(PTRACE_SETREGS, tid, 0, (long)(uintptr_t)&regs), 0);
}
#else
static void alter_call(pid_t tid)
{
	(void)tid;
}
#endif

/* It makes the next call once it is resumed for the first time. */
static bool lets_go_on;

static long disturb_return(enum __ptrace_request request, long tid, long address, long data)
{
	long rc;

	/* Behaves like a kernel without CONFIG_CHECKPOINT_RESTORE. */
	if (refuses_options && request == PTRACE_SETOPTIONS) {
		errno = EINVAL;
		return -1;
	}
	if (request == PTRACE_SYSCALL && ++resumed == disturbs_at)
		syscall(SYS_tgkill, report->process, tid, disturbs_with);
	if (request == PTRACE_SYSCALL && resumed == 1 && alters)
		alter_call((pid_t)tid);
	if (request == PTRACE_SYSCALL && lets_go_on)
		report->ordered = true;
	if (request == PTRACE_SEIZE && moves_on)
		move_on();
	is_armed |= request == PTRACE_SETSIGMASK;
	if (request == PTRACE_SEIZE && filters_come && is_armed)
		await_filters();
	rc = ptrace_in_kernel(request, tid, address, data);
	if (request == PTRACE_SYSCALL && is_late && resumed == 1)
		flmem_clock_sleep_us(FLMEM_TRACEE_RELEASE_US + 1);
	if (request == PTRACE_SYSCALL && is_stolen && resumed == 1)
		waitpid((pid_t)tid, NULL, __WALL);
	if (request == PTRACE_SYSCALL && resumed == -disturbs_at)
		syscall(SYS_tgkill, report->process, tid, disturbs_with);
	return rc;
}

REPLACE_PTRACE(disturb_return)

/* Sets a filter that makes a call fail, or kills for it, in all threads. */
static void set_filter_as(uint32_t action, int number, unsigned flags)
{
	struct sock_filter rows[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(rows) / sizeof(*rows), rows};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) < 0)
		_exit(1);
}

static void set_filter(uint32_t action, int number)
{
	set_filter_as(action, number, SECCOMP_FILTER_FLAG_TSYNC);
}

static void *wait_in_call(void *unused)
{
	struct timespec time = {.tv_sec = 2}; /* a busy machine is late */
	char byte;

	report->process = getpid();
	report->tid = flmem_thread_id();
	report->result = sleeps ? syscall(SYS_nanosleep, &time, NULL) : read(ends[0], &byte, 1);
	report->error = errno;
	report->next_error = syscall(SYS_getppid) < 0 ? errno : 0;
	report->done = true;
	return unused;
}

static void run_child(void)
{
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pthread_create(&thread, NULL, wait_in_call, NULL))
		_exit(1);
	while (!report->tid || !is_asleep(report->tid, true))
		flmem_clock_sleep_us(1000);
	while (filters_come && !report->ordered)
		flmem_clock_sleep_us(1000);
	set_filter(SECCOMP_RET_ERRNO | EPERM, SYS_getppid);
	for (unsigned i = 0; i < filters; i++)
		set_filter(SECCOMP_RET_ALLOW, SYS_getppid);
	set_filter(SECCOMP_RET_KILL_PROCESS, sleeps ? SYS_restart_syscall : SYS_read);
	report->filtered = true;
	pthread_join(thread, NULL);
	_exit(0);
}

static bool read_wait(struct flmem_task_wait *ret_wait)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

	return flmem_process_open(report->process, &process, NULL) == 0 &&
	       flmem_task_read_wait(&process, report->tid, ret_wait) == 1;
}

static const struct flmem_task_wait *slept_in; /* NULL: the call in which it is now */

/* Stops the thread and releases it; the tracer's end releases one that was left running. */
static void *disturb(void *gives)
{
	struct flmem_tracee tracee = {0};
	struct flmem_task_wait wait;

	if ((!slept_in && !read_wait(&wait)) ||
	    flmem_tracee_seize(&tracee, report->tid, report->tid) ||
	    flmem_tracee_stop(&tracee, STOP_US) != FLMEM_TRACEE_STOPPED ||
	    (gives && write(ends[1], ".", 1) != 1))
		return NULL;
	tracee.wait = slept_in ? *slept_in : wait;
	tracee.slept_on = true;
	flmem_tracee_release(&tracee);
	return report;
}

static void disturb_on_thread(bool gives)
{
	void *done = NULL;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, disturb, gives ? ends : NULL), 0);
	pthread_join(thread, &done);
	assert_non_null(done);
}

static void disturb_call(bool gives)
{
	pid_t child;
	int status;

	*report = (struct report){0};
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0)
		run_child();
	while (!report->filtered && waitpid(child, NULL, WNOHANG) == 0)
		flmem_clock_sleep_us(1000);
	disturb_on_thread(gives);
	if (!gives) {
		flmem_clock_sleep_us(20000);
		await_true(report->done || is_asleep(report->tid, false));
		assert_int_equal(write(ends[1], ".", 1), 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(ends[0]);
	close(ends[1]);
	assert_true(report->done);
	assert_int_equal(report->result, sleeps ? 0 : 1);
	assert_int_equal(report->next_error, EPERM); /* the thread has its filters again */
}

static void require_filters_shown(void **state)
{
	(void)state;
#ifndef __x86_64__
	print_message("SKIP: only on x86-64 a call is entered without its filters\n");
	skip();
#endif
	if (geteuid() != 0 || prctl(PR_GET_SECCOMP) != 0) {
		print_message("SKIP: only root without a filter of its own is shown filters\n");
		skip();
	}
}

static void one_that_waits_goes_on_waiting(void **state)
{
	require_filters_shown(state);
	disturb_call(false);
}

static void one_that_returns_at_once_has_its_filters_again(void **state)
{
	require_filters_shown(state);
	disturb_call(true);
}

static void one_that_sleeps_goes_on_with_the_rest(void **state)
{
	require_filters_shown(state);
	sleeps = true;
	disturb_call(false);
}

static void one_that_sleeps_sleeps_again_where_filters_stay(void **state)
{
	require_filters_shown(state);
	sleeps = refuses_options = true;
	disturb_call(false);
	refuses_options = false;
}

/*
 * The signals interrupt a traced thread, although the program ignores them: before it enters its
 * call, in it before it sleeps, and as the event with which the kernel reports SIGCONT.
 */
static void an_ignored_signal_does_not_bring_the_filters_back(void **state)
{
	static const struct {
		int signal, at;
	} cases[] = {{SIGCHLD, 1}, {SIGCHLD, 2}, {SIGCHLD, -2}, {SIGCONT, 1}, {SIGCONT, -2}};

	require_filters_shown(state);
	sleeps = false;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		disturbs_with = cases[i].signal;
		disturbs_at = cases[i].at;
		resumed = 0;
		disturb_call(false);
	}
	disturbs_at = 0;
}

static void a_stop_whose_report_somebody_has_taken_is_no_signal(void **state)
{
	require_filters_shown(state);
	is_stolen = true;
	resumed = 0;
	disturb_call(false);
	is_stolen = false;
}

static void one_that_is_at_its_call_enters_it_however_late(void **state)
{
	require_filters_shown(state);
	sleeps = false;
	is_late = true;
	resumed = 0;
	disturb_call(false);
	is_late = false;
}

static pid_t open_waiting(void (*run)(void), struct target *ret_target)
{
	pid_t child;

	*report = (struct report){0};
	assert_int_equal(pipe(ends), 0);
	child = child_start(run);
	await_true(report->tid && is_asleep(report->tid, false));
	target_open(child, ret_target);
	return child;
}

/* Returns false if flmem was too late, since the filters took longer than the thread stays. */
static bool filters_come_in_time(void)
{
	struct flmem_borrow_options options = {.timeout_us = 20000000, .repeatable = true};
	struct flmem_borrow_result result;
	struct flmem_chain chain = {0};
	struct flmem_error err = {0};
	struct target target;
	int status, rc;
	pid_t child;

	filters_come = true;
	is_armed = sleeps = false;
	child = open_waiting(run_child, &target);
	options.only = report->tid;
	flmem_chain_add(&chain, "getpid", target_function(&target, "getpid"));
	rc = flmem_borrow_run(&target.view, &chain, &options, &result, &err);
	filters_come = false;
	target_close(&target);
	assert_int_equal(write(ends[1], ".", 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	pipe_close(ends);
	if (result.self_restored)
		return false;
	expect_borrowed(rc, &err);
	assert_true(report->filtered && status == 0 && report->result == 1);
	return true;
}

static void filters_that_come_during_the_calls_do_not_end_the_wait(void **state)
{
	unsigned late = 0;

	require_filters_shown(state);
	while (!filters_come_in_time())
		assert_true(++late < 20);
}

static void *read_again(void *unused)
{
	char byte;

	report->tid = flmem_thread_id();
	for (;;) {
		report->calls++;
		(void)!read(ends[0], &byte, 1);
	}
	return unused;
}

/* From then on nobody answers whether a thread may read. */
static void be_supervised(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, read_again, NULL))
		_exit(1);
	while (!report->ordered)
		flmem_clock_sleep_us(1000);
	set_filter_as(SECCOMP_RET_USER_NOTIF, SYS_read,
		      SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH |
			      SECCOMP_FILTER_FLAG_NEW_LISTENER);
	report->filtered = true;
	for (;;)
		pause();
}

/* The call has the place and arguments of the one in which the thread was found. */
static void a_call_that_waits_to_be_allowed_goes_on_waiting(void **state)
{
	struct flmem_borrow_options options = {.timeout_us = 1, .single_pass = true};
	struct flmem_borrow_result result;
	struct target target;
	pid_t child;

	require_filters_shown(state);
	child = open_waiting(be_supervised, &target);
	options.only = report->tid;
	moves_on = true;
	assert_int_equal(flmem_borrow_dry_run(&target.view, &options, &result, NULL),
			 FLMEM_EUNSAFE);
	moves_on = false;
	flmem_clock_sleep_us(20000);
	assert_int_equal(report->calls, 2);
	target_close(&target);
	child_end(child);
	pipe_close(ends);
}

/* Checks that the filter kills the child, or that its call returns with the filter's result. */
static void expect_filtered(pid_t child, bool kills)
{
	int status;

	await_true(waitpid(child, &status, WNOHANG) == child);
	if (kills) {
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGSYS);
		return;
	}
	assert_int_equal(status, 0);
	assert_int_equal(report->result, -1);
	assert_int_equal(report->error, EPERM);
}

/* Two calls differ in one thing: only the one that has passed the filters is entered. */
static void another_call_is_not_entered_without_its_filters(void **state)
{
	require_filters_shown(state);
	for (alters = ALTERS_NUMBER; alters <= ALTERS_PLACE; alters++) {
		pid_t child;

		*report = (struct report){0};
		resumed = 0;
		assert_int_equal(pipe(ends), 0);
		child = child_start(run_child);
		await_true(report->filtered);
		disturb_on_thread(false);
		expect_filtered(child, alters != ALTERS_NUMBER);
		pipe_close(ends);
	}
	alters = ALTERS_NOTHING;
}

/* Makes both calls at one place. */
static void *read_twice(void *unused)
{
	char byte;

	report->tid = flmem_thread_id();
	for (;;) {
		(void)!read(ends[0], &byte, 1);
		report->calls++;
		while (!report->ordered)
			continue;
	}
	return unused;
}

static void be_reading_twice(void)
{
	pthread_t thread;

	report->process = getpid();
	if (pthread_create(&thread, NULL, read_twice, NULL))
		_exit(1);
	while (!report->calls)
		flmem_clock_sleep_us(1000);
	set_filter(SECCOMP_RET_KILL_PROCESS, SYS_read);
	report->filtered = true;
	for (;;)
		pause();
}

static void the_next_call_of_a_thread_is_not_entered_without_its_filters(void **state)
{
	struct flmem_task_wait wait = {0};
	pid_t child;

	require_filters_shown(state);
	*report = (struct report){0};
	assert_int_equal(pipe(ends), 0);
	child = child_start(be_reading_twice);
	await_true(report->tid && is_asleep(report->tid, false) && read_wait(&wait));
	assert_int_equal(write(ends[1], ".", 1), 1);
	await_true(report->filtered);
	lets_go_on = true;
	slept_in = &wait;
	disturb_on_thread(false);
	slept_in = NULL;
	lets_go_on = false;
	report->ordered = true;
	expect_filtered(child, true);
	pipe_close(ends);
}

static void filters_that_are_too_many_to_be_read_do_not_stay(void **state)
{
	require_filters_shown(state);
	filters = 64;
	disturb_call(false);
	filters = 0;
}

/* A filter of the program returns what the kernel returns from a call that is made again. */
static void evade_filters(void)
{
	set_filter(SECCOMP_RET_ERRNO | EPERM, SYS_getppid);
	set_filter(SECCOMP_RET_ERRNO | RESTARTED, SYS_getppid);
	report->tid = getpid();
	for (;;)
		if (syscall(SYS_getppid) >= 0)
			report->evaded++;
}

static void a_call_that_only_looks_interrupted_is_not_let_past_the_filters(void **state)
{
	struct target target;
	pid_t child;

	require_filters_shown(state);
	*report = (struct report){0};
	child = child_start(evade_filters);
	await_true(report->tid);
	target_open(child, &target);
	for (unsigned i = 0; i < 50; i++) {
		const struct flmem_borrow_options options = {
			.computing = child, .timeout_us = 1, .single_pass = true};
		struct flmem_borrow_result result;

		(void)flmem_borrow_dry_run(&target.view, &options, &result, NULL);
	}
	target_close(&target);
	child_end(child);
	assert_int_equal(report->evaded, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_waits_goes_on_waiting),
		cmocka_unit_test(one_that_returns_at_once_has_its_filters_again),
		cmocka_unit_test(one_that_sleeps_goes_on_with_the_rest),
		cmocka_unit_test(one_that_sleeps_sleeps_again_where_filters_stay),
		cmocka_unit_test(an_ignored_signal_does_not_bring_the_filters_back),
		cmocka_unit_test(a_stop_whose_report_somebody_has_taken_is_no_signal),
		cmocka_unit_test(one_that_is_at_its_call_enters_it_however_late),
		cmocka_unit_test(filters_that_come_during_the_calls_do_not_end_the_wait),
		cmocka_unit_test(a_call_that_waits_to_be_allowed_goes_on_waiting),
		cmocka_unit_test(another_call_is_not_entered_without_its_filters),
		cmocka_unit_test(the_next_call_of_a_thread_is_not_entered_without_its_filters),
		cmocka_unit_test(filters_that_are_too_many_to_be_read_do_not_stay),
		cmocka_unit_test(a_call_that_only_looks_interrupted_is_not_let_past_the_filters),
	};

	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return report == MAP_FAILED
		       ? 1
		       : cmocka_run_group_tests_name("filtered_return", tests, NULL, NULL);
}
