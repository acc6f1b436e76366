/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __x86_64__

#include "remote/seccomp/filtered_return.h"

#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "proc/status.h"
#include "remote/priority.h"
#include "remote/seccomp/seccomp_filter.h"

#define FILTERS_MAX	64U
#define PAUSE_US	100U
#define CALL_STOP	(SIGTRAP | 0x80)
#define RESTART_BY_CALL (-516) /* by restart_syscall; include/linux/errno.h of the kernel */

static bool filters_bar(pid_t tid, const struct flmem_syscall *call)
{
	struct sock_filter program[BPF_MAXINSNS];
	struct flmem_filter_outcome outcome;
	struct flmem_filter_input input;

	flmem_filter_input_set(&input, call);
	for (unsigned long index = 0; index < FILTERS_MAX; index++) {
		long length = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, program);

		if (length <= 0) /* no more, or they are not shown */
			return false;
		flmem_filter_run(program, (size_t)length, &input, &outcome);
		if (outcome.actions & ~(1U << FLMEM_FILTER_ALLOW | 1U << FLMEM_FILTER_LOG))
			return true;
	}
	return false;
}

/* The call that a stopped thread makes next, with its place; false if it makes none again. */
static bool read_next_call(pid_t tid, struct flmem_task_wait *ret_call)
{
	struct flmem_thread_state state;

	if (flmem_arch_read_registers(tid, &state))
		return false;
	flmem_arch_read_call(&state, ret_call);
	if (!flmem_arch_interrupted_in(&state, ret_call))
		return false;
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

/* A signal that is about to be delivered is passed on when the thread is detached. */
static void note_stop(struct flmem_tracee *tracee, int status)
{
	const int signal = status >> 16 ? 0 : WSTOPSIG(status);

	tracee->stopped = true;
	tracee->signal = signal == CALL_STOP ? 0 : signal;
}

/* Lets it run; true if it has stopped. One that sleeps, or gets no processor, is left running. */
static bool runs_to_stop(struct flmem_tracee *tracee, bool may_sleep)
{
	const uint64_t start = flmem_clock_us();
	uint64_t spent = 0;
	int status, got;

	tracee->stopped = false;
	if (ptrace(PTRACE_SYSCALL, tracee->tid, NULL, NULL) < 0)
		return false;
	do {
		got = flmem_tracee_status(tracee->tid, &status);
		if (got > 0 && WIFSTOPPED(status))
			note_stop(tracee, status);
		if (got)
			return tracee->stopped;
		if (may_sleep && has_gone_to_sleep(tracee->tid))
			break;
		flmem_priority_pause(spent, PAUSE_US);
		spent = flmem_clock_us() - start;
	} while (spent < FLMEM_TRACEE_RELEASE_US);
	tracee->runs_on = true;
	return false;
}

/* True at the entry of that very call, which the filters have not seen yet. */
static bool is_at_entry(pid_t tid, const struct flmem_task_wait *call)
{
	struct flmem_thread_state state;
	struct flmem_task_wait now;

	if (flmem_arch_read_registers(tid, &state))
		return false;
	flmem_arch_read_call(&state, &now);
	return now.number == call->number && now.sp == call->sp && now.pc == call->pc &&
	       memcmp(now.args, call->args, sizeof(now.args)) == 0;
}

/* From its start, as the filters may allow that. */
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

	if (tracee->armed || !read_next_call(tracee->tid, &call) || !is_barred(tracee->tid, &call))
		return;
	/* It stops before and after that call: no other is made without the filters. */
	if (ptrace(PTRACE_SETOPTIONS, tracee->tid, NULL, (void *)options) < 0)
		repeat_wait(tracee->tid);
	else if (runs_to_stop(tracee, false) && !tracee->signal && is_at_entry(tracee->tid, &call))
		(void)runs_to_stop(tracee, true);
}

#else
typedef int flmem_filtered_return_unused;
#endif
