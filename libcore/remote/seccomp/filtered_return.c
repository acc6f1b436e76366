/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __x86_64__

#include "remote/seccomp/filtered_return.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "proc/status.h"
#include "remote/checks/waits.h"
#include "remote/priority.h"
#include "remote/seccomp/seccomp_filter.h"

#define FILTERS_MAX	64U
#define PAUSE_US	100U
#define CALL_STOP	(SIGTRAP | 0x80)
#define RESTART_BY_CALL (-516) /* ERESTART_RESTARTBLOCK, include/linux/errno.h */

static bool filters_bar(pid_t tid, const struct flmem_syscall *call)
{
	struct sock_filter program[BPF_MAXINSNS];
	struct flmem_filter_outcome outcome;
	struct flmem_filter_input input;

	flmem_filter_input_set(&input, call);
	for (unsigned long index = 0; index < FILTERS_MAX; index++) {
		long length = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, program);

		if (length <= 0) /* there are no more filters, or they may not be read */
			return false;
		flmem_filter_run(program, (size_t)length, &input, &outcome);
		if (outcome.actions & ~(1U << FLMEM_FILTER_ALLOW | 1U << FLMEM_FILTER_LOG))
			return true;
	}
	return true; /* the last one that was set is not known */
}

/*
 * Reads the call that a stopped thread makes next, with its place; false if it restarts none. It
 * has to be the one in which the thread slept: that call has passed the filters once. A program can
 * have its own filter return what the kernel returns from interrupted calls, and a thread that
 * waits for a process which decides about its call has not passed that decision.
 */
static bool read_next_call(const struct flmem_tracee *tracee, struct flmem_task_wait *ret_call)
{
	struct flmem_thread_state state;

	if (tracee->armed || !tracee->slept_on || flmem_arch_read_registers(tracee->tid, &state) ||
	    !flmem_arch_interrupted_in(&state, &tracee->wait))
		return false;
	*ret_call = tracee->wait;
	if ((long)state.regs.rax == RESTART_BY_CALL)
		ret_call->number = SYS_restart_syscall;
	return true;
}

static bool is_barred(pid_t tid, const struct flmem_task_wait *at)
{
	struct flmem_syscall call = {.number = at->number};

	for (size_t i = 0; i < FLMEM_SYSCALL_ARGS; i++)
		call.args[i] = (struct flmem_syscall_arg)FLMEM_ARG_IS(at->args[i]);
	return filters_bar(tid, &call);
}

static bool has_gone_to_sleep(pid_t tid)
{
	struct flmem_status status;

	return flmem_status_read_number(tid, &status) == 0 && status.state == 'S';
}

/*
 * Lets the thread run; returns its next stop, or 0: it has exited, or sleeps or lacks a processor,
 * and continues to run.
 */
static int run_to_stop(struct flmem_tracee *tracee, bool may_sleep)
{
	const uint64_t start = flmem_clock_us();
	uint64_t spent = 0;
	int status, got;

	tracee->stopped = false;
	if (ptrace(PTRACE_SYSCALL, tracee->tid, NULL, (void *)(long)tracee->signal) < 0)
		return 0;
	tracee->signal = 0;
	do {
		got = flmem_tracee_status(tracee->tid, &status);
		tracee->stopped = got > 0 && WIFSTOPPED(status);
		if (got)
			return tracee->stopped ? status : 0;
		if (may_sleep && has_gone_to_sleep(tracee->tid))
			break;
		flmem_priority_pause(spent, PAUSE_US);
		spent = flmem_clock_us() - start;
	} while (flmem_tracee_is_awaited(tracee->tid, spent));
	tracee->runs_on = true;
	return 0;
}

/* True at the entry of that call, before the filters have seen it. */
static bool is_at_entry(pid_t tid, const struct flmem_task_wait *call)
{
	struct flmem_thread_state state;
	struct flmem_task_wait now;

	if (flmem_arch_read_registers(tid, &state))
		return false;
	flmem_arch_read_call(&state, &now);
	return (long)state.regs.rax == -ENOSYS && now.number == call->number &&
	       now.sp == call->sp && now.pc == call->pc &&
	       memcmp(now.args, call->args, sizeof(now.args)) == 0;
}

/* True if the thread has left that call to restart it, because a signal has arrived. */
static bool is_interrupted(pid_t tid, const struct flmem_task_wait *call)
{
	struct flmem_thread_state state;

	return flmem_arch_read_registers(tid, &state) == 0 &&
	       flmem_arch_interrupted_in(&state, call) &&
	       (!flmem_wait_is_repeatable(call) || flmem_arch_make_resumable(tid, &state) == 0);
}

/* True if the signal has a handler, which ends the wait as it would have done without a tracer. */
static bool has_handler(pid_t tid, int signal)
{
	struct flmem_status status;

	return flmem_status_read_number(tid, &status) ||
	       flmem_u64_or(status.sig_caught, UINT64_MAX) >> (signal - 1) & 1U;
}

/*
 * True if the thread is still on its way into that call. While it is traced, it also stops for
 * signals that the program ignores, and for each SIGCONT.
 */
static bool is_on_its_way(struct flmem_tracee *tracee, int status,
			  const struct flmem_task_wait *call, bool *inside)
{
	const int event = status >> 16, signal = WSTOPSIG(status);

	if (event)
		return event == PTRACE_EVENT_STOP && signal == SIGTRAP;
	if (signal != CALL_STOP) {
		tracee->signal = signal;
		return !has_handler(tracee->tid, signal);
	}
	*inside = !*inside && is_at_entry(tracee->tid, call);
	return *inside || is_interrupted(tracee->tid, call);
}

/*
 * The thread stops before and after that call, so it makes no other call without the filters. In
 * the stop before that call it must enter the call, because detaching it there re-enables the
 * filters.
 */
static void enter_filtered_call(struct flmem_tracee *tracee, const struct flmem_task_wait *call)
{
	const uint64_t start = flmem_clock_us();
	bool inside = false;
	int status;

	do
		status = run_to_stop(tracee, inside);
	while (status && is_on_its_way(tracee, status, call, &inside) &&
	       (inside || flmem_clock_us() - start < FLMEM_TRACEE_RELEASE_US));
}

/* Restarts the call from its start, as the filters may allow that. */
static void repeat_wait(pid_t tid)
{
	struct flmem_thread_state state;

	if (flmem_arch_read_registers(tid, &state) == 0)
		(void)flmem_arch_repeat_call(tid, &state);
}

void flmem_filtered_return(struct flmem_tracee *tracee)
{
	const long options = FLMEM_TRACEE_OPTIONS | PTRACE_O_SUSPEND_SECCOMP;
	struct flmem_task_wait call;

	if (!read_next_call(tracee, &call) || !is_barred(tracee->tid, &call))
		return;
	if (ptrace(PTRACE_SETOPTIONS, tracee->tid, NULL, (void *)options) < 0)
		repeat_wait(tracee->tid);
	else
		enter_filtered_call(tracee, &call);
}

#else
typedef int flmem_filtered_return_unused;
#endif
