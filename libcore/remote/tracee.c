/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/tracee.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attempt.h"
#include "base/clock.h"
#include "base/portable.h"
#include "proc/status.h"
#include "remote/call_return.h"
#include "remote/checks/waits.h"
#include "remote/interrupts.h"
#include "remote/priority.h"
#include "remote/shared_signals.h"

#define PAUSE_US 100U
/* Status of a stop at the entry or the exit of a system call, with PTRACE_O_TRACESYSGOOD. */
#define SYSCALL_STOP (SIGTRAP | 0x80)
/* A thread that was not released stops as soon as it runs again, so shorter pauses gain nothing. */
#define RELEASE_PAUSE_US 10000U
#define STARVED_PAUSE_US 500U /* a thread that only lacks a processor stops when it gets one */

static _Thread_local bool thread_must_exit, is_stuck;

static long send_request(flmem_ptrace_request what, pid_t tid, long data)
{
	return ptrace(what, tid, NULL, (void *)data);
}

/*
 * True if the process writes a core dump. An interrupt would end the writing into a pipe, for a
 * program that stores dumps, or to a file system in user space: the core would be cut (pipe_write()
 * in the kernel's fs/pipe.c).
 */
static bool is_dumping(pid_t leader)
{
	struct flmem_status status;

	return flmem_status_read_number(leader, &status) == 0 && flmem_status_is_dumping(&status);
}

int flmem_tracee_seize(struct flmem_tracee *tracee, pid_t tid, pid_t leader)
{
	return is_dumping(leader) ? -ESRCH : flmem_tracee_seize_parked(tracee, tid, leader);
}

int flmem_tracee_seize_parked(struct flmem_tracee *tracee, pid_t tid, pid_t leader)
{
	if (flmem_attempt_is_lost())
		return -ESRCH;
	if (!flmem_interrupts_may_hold())
		return -EAGAIN;
	if (send_request(PTRACE_SEIZE, tid, FLMEM_TRACEE_OPTIONS) < 0)
		return -errno;
	*tracee = (struct flmem_tracee){.tid = tid, .leader = leader};
	/* The thread may wait for an exec, longer than any caller waits for this thread. */
	if (!flmem_attempt_is_lost())
		return 0;
	flmem_tracee_release(tracee);
	return -ESRCH;
}

/* Reads state and tracer of a thread by its number in /proc; false if there is none. */
static bool read_tracer(pid_t tid, char *ret_state, pid_t *ret_tracer)
{
	struct flmem_status status;

	if (flmem_status_read_number(tid, &status))
		return false;
	*ret_state = status.state;
	*ret_tracer = (pid_t)flmem_u64_or(status.tracer, 0);
	return true;
}

/*
 * Reads the stop itself, in case another thread of this process has waited for any child and taken
 * the report. The kernel stores the event in si_code (ptrace_do_notify() in kernel/signal.c).
 */
static bool read_stop(pid_t tid, int *ret_status)
{
	siginfo_t info;
	int event = 0;

	if (ptrace(PTRACE_GETSIGINFO, tid, NULL, &info) < 0)
		return false;
	if (info.si_code > 0 && (info.si_code & 0xff) == info.si_signo)
		event = info.si_code >> 8;
	if (info.si_signo == SIGTRAP && info.si_code == SYSCALL_STOP)
		info.si_signo = SYSCALL_STOP;
	*ret_status = event << 16 | info.si_signo << 8 | 0x7f;
	return true;
}

/*
 * Makes the thread repeat its call. The program must not see the EINTR with which this interrupt
 * ended its call, or a signal that it ignores: the kernel drops those of a thread only while it is
 * not traced (sig_ignored() in kernel/signal.c). If a handler runs, the kernel returns EINTR after
 * it.
 */
static void make_resumable(pid_t tid)
{
	struct flmem_thread_state state;
	struct flmem_task_wait at;

	if (flmem_arch_read_registers(tid, &state))
		return;
	flmem_arch_read_call(&state, &at);
	if (flmem_wait_is_repeatable(&at))
		flmem_arch_make_resumable(tid, &state);
}

/* Detaches a stopped thread and passes on a signal that is being delivered to the program. */
static bool detach_thread(pid_t tid)
{
	int status;

	if (!read_stop(tid, &status))
		return false;
	make_resumable(tid);
	return send_request(PTRACE_DETACH, tid, status >> 16 ? 0 : WSTOPSIG(status)) == 0;
}

/* Reads the pending report of a thread without taking it; si_pid is 0 if there is none. */
static int peek_report(pid_t tid, int kinds, siginfo_t *ret_info)
{
	*ret_info = (siginfo_t){0};
	return waitid(P_PID, (id_t)tid, ret_info, kinds | WNOHANG | WNOWAIT | __WALL | __WNOTHREAD);
}

/*
 * True if a signal is being delivered to the program. That report is never taken: if flmem is
 * killed before it has passed the signal on, the kernel delivers it, but not one whose report was
 * taken (wait_task_stopped() in kernel/exit.c clears what ptrace_stop() returns).
 */
static bool is_delivery(const siginfo_t *info)
{
	return info->si_pid && info->si_code == CLD_TRAPPED && !(info->si_status >> 8) &&
	       info->si_status != SYSCALL_STOP;
}

static bool reports_end(const siginfo_t *info)
{
	return info->si_code == CLD_EXITED || info->si_code == CLD_KILLED ||
	       info->si_code == CLD_DUMPED;
}

/*
 * True for a child that the program using this library has started: the program waits for its exit
 * itself.
 */
static bool is_own_child(pid_t tid)
{
	struct flmem_status status;

	return flmem_status_read_number(tid, &status) == 0 &&
	       flmem_u64_or(status.parent, 0) == (uint64_t)getpid() &&
	       flmem_u64_or(status.tgid, 0) == (uint64_t)tid;
}

static int take_status(pid_t tid, bool takes_child, int *ret_status)
{
	siginfo_t info;
	int rc = peek_report(tid, WEXITED | WSTOPPED, &info);
	pid_t got = 0;

	if (!rc && is_delivery(&info)) {
		*ret_status = info.si_status << 8 | 0x7f;
		return 1;
	}
	if (!rc && info.si_pid && reports_end(&info) && !takes_child && is_own_child(tid))
		return -ECHILD;
	if (rc || info.si_pid)
		got = waitpid(tid, ret_status, __WALL | __WNOTHREAD | WNOHANG);
	if (got == tid)
		return 1;
	if (got == 0 || errno == EINTR)
		return read_stop(tid, ret_status);
	return -errno;
}

int flmem_tracee_status(pid_t tid, int *ret_status)
{
	return take_status(tid, false, ret_status);
}

int flmem_tracee_child_status(pid_t pid, int *ret_status)
{
	return take_status(pid, true, ret_status);
}

/* The thread may have stopped again since its last report. */
bool flmem_tracee_is_awaited(pid_t tid, uint64_t spent_us)
{
	pid_t tracer;
	char state;

	if (spent_us <= FLMEM_TRACEE_RELEASE_US)
		return true;
	if (spent_us > FLMEM_TRACEE_STARVED_US || !read_tracer(tid, &state, &tracer) ||
	    !strchr("Rt", state))
		return false;
	flmem_interrupts_renew();
	return true;
}

static void pause_for_release(pid_t tid)
{
	pid_t tracer;
	char state;

	flmem_clock_sleep_us(read_tracer(tid, &state, &tracer) && state == 'D' ? RELEASE_PAUSE_US
									       : STARVED_PAUSE_US);
}

static void take_stop(pid_t tid)
{
	siginfo_t info;

	if (peek_report(tid, WSTOPPED, &info) == 0 && info.si_pid && !is_delivery(&info))
		waitid(P_PID, (id_t)tid, &info, WSTOPPED | WNOHANG | __WALL | __WNOTHREAD);
}

/*
 * Releases a thread that executes another program. It takes over the number of the first thread of
 * its process, and keeps its tracer (de_thread() in the kernel's fs/exec.c): it stops under that
 * number. The tracer is one thread, not its process. The kernel answers no request before the stop
 * has been waited for (looks_like_a_spurious_pid() in kernel/ptrace.c); an exit is left to the code
 * that waits for children.
 *
 * PTRACE_SEIZE finds the thread and then waits until an exec in progress has new credentials: if it
 * returns late, the thread is past that stop, runs the new program and has to be interrupted.
 *
 * It may not stop for as long as it likes: the exec reads the program, whose file may never answer,
 * and the program may call vfork(). Then the tracing thread has to end (see stop_for_release()).
 */
static void release_exec_successor(pid_t leader)
{
	const uint64_t start = flmem_clock_us();
	pid_t tracer;
	char state;

	while (read_tracer(leader, &state, &tracer) && tracer == flmem_thread_id() &&
	       state != 'Z') {
		send_request(PTRACE_INTERRUPT, leader, 0);
		take_stop(leader);
		if (detach_thread(leader))
			return;
		if (!flmem_tracee_is_awaited(leader, flmem_clock_us() - start)) {
			thread_must_exit = is_stuck = true;
			return;
		}
		flmem_clock_sleep_us(PAUSE_US);
	}
}

/*
 * True if the end of the thread will not be reported. That of a first thread is not reported while
 * others run; and if another thread took its place by executing a program, in a child of this
 * process, it is never reported.
 */
static bool is_lost(pid_t tid)
{
	pid_t tracer;
	char state;

	return !read_tracer(tid, &state, &tracer) || state == 'Z' || state == 'X' || !tracer;
}

static enum flmem_tracee_event forget_thread(struct flmem_tracee *tracee)
{
	if (tracee->leader != tracee->tid)
		release_exec_successor(tracee->leader);
	*tracee = (struct flmem_tracee){0};
	return FLMEM_TRACEE_GONE;
}

static bool is_job_control(int signal)
{
	return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/*
 * With PTRACE_SEIZE an event stop with SIGTRAP is flmem's interrupt, one with a stopping signal is
 * a group stop (ptrace(2)); any other is a signal for the program, which is passed on here.
 */
static enum flmem_tracee_event sort_stop(struct flmem_tracee *tracee, int event, int signal)
{
	if (event == PTRACE_EVENT_STOP) {
		tracee->stopped = true;
		return is_job_control(signal) ? FLMEM_TRACEE_GROUP : FLMEM_TRACEE_STOPPED;
	}
	if (event == PTRACE_EVENT_EXEC) {
		/* The registers belong to the new program. */
		tracee->stopped = tracee->resumable = true;
		return FLMEM_TRACEE_EXEC;
	}
	if (signal == SYSCALL_STOP) { /* remote/call_return_aarch64.c no longer waited for it */
		tracee->stopped = true;
		return FLMEM_TRACEE_STOPPED;
	}
	if (!event) {
		tracee->undisturbed = false;
		make_resumable(tracee->tid);
	}
	send_request(PTRACE_CONT, tracee->tid, event ? 0 : signal);
	return FLMEM_TRACEE_OTHER;
}

enum flmem_tracee_event flmem_tracee_poll(struct flmem_tracee *tracee)
{
	int status, got = flmem_tracee_status(tracee->tid, &status);

	if (!got)
		return FLMEM_TRACEE_NOTHING;
	if (got > 0 && WIFSTOPPED(status))
		return sort_stop(tracee, status >> 16, WSTOPSIG(status));
	if (got == -ECHILD)
		return forget_thread(tracee);
	*tracee = (struct flmem_tracee){0};
	return FLMEM_TRACEE_GONE;
}

/* The last check follows the deadline, because flmem may have had no processor itself. */
static enum flmem_tracee_event wait_stop(struct flmem_tracee *tracee, uint64_t timeout_us)
{
	uint64_t start = flmem_clock_us(), spent;
	enum flmem_tracee_event event;

	do {
		spent = flmem_clock_us() - start;
		event = flmem_tracee_poll(tracee);
		if (event != FLMEM_TRACEE_NOTHING && event != FLMEM_TRACEE_OTHER)
			return event;
		flmem_priority_pause(spent, PAUSE_US);
	} while (spent < timeout_us);
	return event;
}

enum flmem_tracee_event flmem_tracee_stop(struct flmem_tracee *tracee, uint64_t timeout_us)
{
	if (send_request(PTRACE_INTERRUPT, tracee->tid, 0) < 0)
		return forget_thread(tracee);
	return wait_stop(tracee, timeout_us);
}

bool flmem_tracee_thread_must_exit(void)
{
	return thread_must_exit;
}

bool flmem_tracee_is_stuck(void)
{
	return is_stuck;
}

/*
 * Stops the thread, if it can be: only a stopped thread can be detached. A thread in an
 * uninterruptible call stops when that call ends; without a tracer that waits for it, it would then
 * stay stopped. When the tracing thread ends, the kernel detaches a thread in any state
 * (exit_ptrace() in kernel/ptrace.c).
 */
static bool stop_for_release(struct flmem_tracee *tracee)
{
	const uint64_t start = flmem_clock_us();

	if (!tracee->stopped)
		send_request(PTRACE_INTERRUPT, tracee->tid, 0);
	while (!tracee->stopped) {
		enum flmem_tracee_event event = flmem_tracee_poll(tracee);

		if (event == FLMEM_TRACEE_GONE)
			return false;
		if (event == FLMEM_TRACEE_NOTHING && is_lost(tracee->tid)) {
			(void)flmem_tracee_poll(tracee); /* it may have exited just now */
			return false;
		}
		if (event != FLMEM_TRACEE_NOTHING)
			continue;
		if (!flmem_tracee_is_awaited(tracee->tid, flmem_clock_us() - start)) {
			thread_must_exit = is_stuck = true;
			return false;
		}
		pause_for_release(tracee->tid);
	}
	return true;
}

/*
 * An exec by another thread kills this one in its stop, and waits until its tracer has read the
 * status.
 */
void flmem_tracee_release(struct flmem_tracee *tracee)
{
	while (tracee->tid && !tracee->runs_on && stop_for_release(tracee)) {
		if (!tracee->resumable)
			make_resumable(tracee->tid);
		flmem_shared_signals_await(tracee->tid, tracee->leader);
		flmem_call_return_release(tracee);
		if (tracee->stopped &&
		    send_request(PTRACE_DETACH, tracee->tid, tracee->signal) == 0)
			break;
		tracee->stopped = false;
	}
	thread_must_exit |= tracee->runs_on;
	*tracee = (struct flmem_tracee){0};
}
