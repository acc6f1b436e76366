/* SPDX-License-Identifier: Apache-2.0 */
#ifdef __aarch64__

#include "remote/call_return.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files/io.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"
#include "remote/arch_aarch64.h"
#include "remote/checks/waits.h"
#include "remote/priority.h"
#include "remote/shared_signals.h"

/*
 * How this works: the thread runs from its restored registers to the entry of its call, a few
 * kernel instructions away, and is released there: the kernel handles any later signal. An earlier
 * signal is reported before its delivery. The kernel no longer knows that it has to end a call, so
 * flmem decides: by the kind of call, and by SA_RESTART of the handler where that matters. Only the
 * thread itself can query this flag: it does so from the state of its chain, in which it restores
 * itself if flmem dies.
 */

#define STATUS_MAX     16384U
#define PAUSE_US       100U
#define REGSET_CALL    0x404 /* NT_ARM_SYSTEM_CALL: the number, at the entry of a call */
#define CODE_BYTES     4U
#define SIGNALS	       64
#define FLAGS_OFFSET   8U /* sa_flags in the kernel's struct sigaction */
#define UNANSWERED     UINT64_MAX
#define SYSCALL_REPORT (SIGTRAP | 0x80)
#define STOP_CODE      (SIGTRAP | PTRACE_EVENT_STOP << 8) /* si_code of a stop by an interrupt */
#define FILTER_CODE    (SIGTRAP | PTRACE_EVENT_SECCOMP << 8)

/* Constants of linux/ptrace.h that are newer than the headers of some C libraries. */
#define REQUEST_CALL_INFO 0x420e /* PTRACE_GET_SYSCALL_INFO */
#define INFO_SECCOMP	  3	 /* PTRACE_SYSCALL_INFO_SECCOMP */

struct call_info {
	uint8_t op, unused[3];
	uint32_t processor;
	uint64_t pc, sp, number, args[6];
	uint32_t returned;
};

enum return_report {
	REPORT_NONE,   /* no report in time: the thread has no processor, or is frozen */
	REPORT_CALL,   /* entry or exit of a system call */
	REPORT_SIGNAL, /* a signal is about to be delivered */
	REPORT_OTHER,  /* stopped for another reason */
	REPORT_GONE,
};

struct call_reentry {
	struct flmem_tracee *tracee;
	/* NULL: there was no chain, and the call ends with EINTR. */
	const struct flmem_call_return *back;
	const struct flmem_thread_state *own;
	uint64_t asked, restarting; /* signals whose handlers are known, and have SA_RESTART */
	uint64_t start_us;
};

static uint64_t bit_of(int signal)
{
	return signal >= 1 && signal <= SIGNALS ? UINT64_C(1) << (signal - 1) : 0;
}

static enum return_report sort_report(struct flmem_tracee *tracee, int status, int *ret_signal)
{
	if (!WIFSTOPPED(status)) {
		*tracee = (struct flmem_tracee){0};
		return REPORT_GONE;
	}
	tracee->stopped = true;
	if (status >> 16)
		return REPORT_OTHER;
	*ret_signal = WSTOPSIG(status);
	return *ret_signal == SYSCALL_REPORT ? REPORT_CALL : REPORT_SIGNAL;
}

/* Lets the thread run until it reports an event, and delivers `signal` to it if not 0. */
static enum return_report run_to_report(struct call_reentry *entering, int signal, int *ret_signal)
{
	struct flmem_tracee *tracee = entering->tracee;
	uint64_t spent;
	int status;

	if (ptrace(PTRACE_SYSCALL, tracee->tid, NULL, (void *)(long)signal) < 0)
		return REPORT_GONE;
	tracee->stopped = false;
	do {
		int got = flmem_tracee_status(tracee->tid, &status);

		if (got > 0)
			return sort_report(tracee, status, ret_signal);
		if (got < 0)
			return REPORT_GONE;
		spent = flmem_clock_us() - entering->start_us;
		flmem_priority_pause(spent, PAUSE_US);
	} while (flmem_tracee_is_awaited(tracee->tid, spent));
	return REPORT_NONE;
}

/* True if the thread has a handler for the signal: one without a handler ends no call. */
static bool is_caught(pid_t tid, int signal)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_status status;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	return !flmem_io_read_file_at(AT_FDCWD, path, STATUS_MAX, &text) &&
	       !flmem_status_parse(text.data, &status, NULL) &&
	       flmem_u64_or(status.sig_caught, 0) & bit_of(signal);
}

static int set_own_registers(pid_t tid, const struct user_regs_struct *regs)
{
	struct iovec io = {.iov_base = (void *)(uintptr_t)regs, .iov_len = sizeof(*regs)};

	return ptrace(PTRACE_SETREGSET, tid, 1 /* NT_PRSTATUS */, &io) < 0 ? -errno : 0;
}

static int set_mask(pid_t tid, uint64_t mask)
{
	return ptrace(PTRACE_SETSIGMASK, tid, sizeof(mask), &mask) < 0 ? -errno : 0;
}

/*
 * Sets the call number at the entry of a call. The park was interrupted at the same instruction, so
 * the kernel may have turned the call into restart_syscall (do_signal() in
 * arch/arm64/kernel/signal.c).
 */
static int set_call_number(pid_t tid, int number)
{
	struct iovec io = {.iov_base = &number, .iov_len = sizeof(number)};

	return ptrace(PTRACE_SETREGSET, tid, REGSET_CALL, &io) < 0 ? -errno : 0;
}

/*
 * Enters the chain. The registers are set first: with them the thread restores itself, whatever
 * follows.
 */
static bool enter_chain(const struct call_reentry *entering, int signal)
{
	const struct flmem_call_return *back = entering->back;
	const uint64_t nothing = UNANSWERED, place = back->scratch->data + FLAGS_OFFSET;
	struct user_regs_struct regs;

	flmem_aarch64_ask(entering->own, back->scratch, back->gadgets, signal, &regs);
	return !flmem_process_write_memory(back->process, place, &nothing, sizeof(nothing)) &&
	       !set_own_registers(entering->tracee->tid, &regs) &&
	       !set_mask(entering->tracee->tid, UINT64_MAX);
}

/*
 * Leaves the chain. The mask is set first: with the registers of the chain the thread restores
 * itself until the last step.
 */
static bool leave_chain(const struct call_reentry *entering)
{
	return !set_mask(entering->tracee->tid, entering->own->signal_mask) &&
	       !set_own_registers(entering->tracee->tid, &entering->own->regs);
}

/*
 * Asks for the flags of a signal, in the stop before its delivery. The signal is blocked, so the
 * kernel queues it again with all its data (ptrace_signal() in kernel/signal.c), and reports it
 * again later.
 */
static bool ask_for_flags(struct call_reentry *entering, int signal)
{
	const struct flmem_call_return *back = entering->back;
	uint64_t flags = UNANSWERED;
	int unused;
	bool asked;

	if (!enter_chain(entering, signal))
		return false;
	asked = run_to_report(entering, signal, &unused) == REPORT_CALL &&
		!set_call_number(entering->tracee->tid, SYS_rt_sigaction) &&
		run_to_report(entering, 0, &unused) == REPORT_CALL &&
		!flmem_process_read_pinned(back->process, back->scratch->data + FLAGS_OFFSET,
					   &flags, sizeof(flags)) &&
		flags != UNANSWERED;
	/*
	 * A thread that has not reached the call restores itself, and the signal stays undecided.
	 */
	if (!entering->tracee->stopped || !leave_chain(entering) || !asked)
		return false;
	entering->asked |= bit_of(signal);
	if (flags & SA_RESTART)
		entering->restarting |= bit_of(signal);
	return true;
}

/*
 * True for waits that a signal whose handler has SA_RESTART does not end (ERESTARTSYS, signal(7));
 * it ends all others. A socket with a timeout shows only by its plain EINTR at the stop.
 */
static bool is_restarted(const struct flmem_task_wait *at)
{
	switch (at->number) {
	case SYS_futex:
		return !at->args[3];
	case SYS_read:
	case SYS_readv:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_accept:
	case SYS_accept4:
	case SYS_wait4:
	case SYS_waitid:
		return true;
	default:
		return false;
	}
}

static bool may_restart(const struct call_reentry *entering)
{
	struct flmem_task_wait at;

	flmem_arch_read_call(entering->own, &at);
	return entering->back && is_restarted(&at);
}

static void fail_call(const struct call_reentry *entering)
{
	struct user_regs_struct regs = entering->own->regs;

	regs.regs[0] = (uint64_t)-EINTR;
	regs.pc += CODE_BYTES;
	(void)set_own_registers(entering->tracee->tid, &regs);
}

/*
 * Handles a signal that is about to be delivered before the call. Returns true if the thread only
 * has to be detached, false if it continues, with *ret_pass delivered.
 */
static bool sort_signal(struct call_reentry *entering, int signal, int *ret_pass)
{
	struct flmem_tracee *tracee = entering->tracee;

	*ret_pass = 0;
	if (!is_caught(tracee->tid, signal)) {
		*ret_pass = signal;
		return false;
	}
	if (may_restart(entering) && !(entering->asked & bit_of(signal)))
		return !ask_for_flags(entering, signal);
	if (!may_restart(entering) || !(entering->restarting & bit_of(signal)))
		fail_call(entering);
	tracee->signal = signal;
	return true;
}

/*
 * Leaves the thread at the entry of its call. If it were detached here, it would find its call
 * interrupted: __ptrace_unlink() in kernel/ptrace.c wakes a stopped thread as a signal does. So it
 * continues into the call, and the exit of this thread of flmem releases it.
 */
static void leave_in_call(struct flmem_tracee *tracee)
{
	tracee->stopped = false;
	/* False: the thread has exited. */
	tracee->runs_on = ptrace(PTRACE_CONT, tracee->tid, NULL, NULL) == 0;
}

static void enter_call(struct call_reentry *entering)
{
	struct flmem_tracee *tracee = entering->tracee;
	enum return_report report;
	int signal = 0, pass = 0;

	entering->start_us = flmem_clock_us();
	while ((report = run_to_report(entering, pass, &signal)) == REPORT_SIGNAL)
		if (sort_signal(entering, signal, &pass))
			break;
	tracee->resumable = tracee->stopped;
	if (report == REPORT_CALL)
		leave_in_call(tracee);
}

int flmem_call_return_restore(struct flmem_tracee *tracee, const struct flmem_call_return *back)
{
	struct call_reentry entering = {.tracee = tracee, .back = back, .own = back->own};
	int rc = flmem_arch_restore(tracee->tid, back->own);

	if (rc || !back->own->at_svc)
		return rc;
	flmem_shared_signals_await(tracee->tid, tracee->leader);
	enter_call(&entering);
	return 0;
}

/*
 * Skips restart_syscall at its entry, before any filter has seen it: the kernel makes no call, and
 * the thread is again before its own call, whose arguments are still in their registers.
 */
static void skip_restart(const struct flmem_tracee *tracee, const struct flmem_thread_state *before)
{
	struct user_regs_struct regs = before->regs;
	int number = 0;
	struct iovec io = {.iov_base = &number, .iov_len = sizeof(number)};

	if (ptrace(PTRACE_GETREGSET, tracee->tid, REGSET_CALL, &io) < 0 ||
	    number != SYS_restart_syscall)
		return;
	if (!set_own_registers(tracee->tid, &regs))
		(void)set_call_number(tracee->tid, -1);
}

/*
 * Reads the first argument of the call that a stop has ended. The kernel still has it and shows it
 * to the tracer in a seccomp stop, which it recognises by the siginfo of the stop
 * (ptrace_get_syscall_info() in kernel/ptrace.c). Only a tracer reads the siginfo of this stop, so
 * it can be set.
 */
static int read_first_argument(pid_t tid, uint64_t *ret_value)
{
	struct call_info call;
	siginfo_t own, shown;
	long got;

	if (ptrace(PTRACE_GETSIGINFO, tid, NULL, &own) < 0)
		return -errno;
	if (own.si_code != STOP_CODE) /* the whole process stopped: SIGSTOP ends the call */
		return -EBUSY;
	shown = own;
	shown.si_code = FILTER_CODE;
	if (ptrace(PTRACE_SETSIGINFO, tid, NULL, &shown) < 0)
		return -errno;
	memset(&call, 0, sizeof(call));
	got = ptrace(REQUEST_CALL_INFO, tid, (void *)sizeof(call), &call);
	if (ptrace(PTRACE_SETSIGINFO, tid, NULL, &own) < 0)
		return -errno;
	if (got <= 0 || call.op != INFO_SECCOMP)
		return -ENOTSUP; /* before Linux 5.3 */
	*ret_value = call.args[0];
	return 0;
}

/*
 * Sets the thread back to the instruction of its call. If the stop ended a call with EINTR, the
 * thread entered that call after its last check (remote/checks/quiet_stop.h). If a handler may have
 * run, the handler ended the call, and the thread was stopped when the handler returned.
 */
static bool set_back(const struct flmem_tracee *tracee, struct flmem_thread_state *state)
{
	const pid_t tid = tracee->tid;
	struct user_regs_struct *r = &state->regs;
	struct flmem_task_wait at = {.number = (long)(int)r->regs[8], .sp = r->sp, .pc = r->pc};

	if (tracee->resumable || !tracee->undisturbed || !flmem_arch_gave_eintr(state) ||
	    state->at_svc)
		return false;
	memcpy(at.args, r->regs, sizeof(at.args));
	if (read_first_argument(tid, &at.args[0]) || !flmem_wait_is_repeatable(&at))
		return false;
	r->regs[0] = at.args[0];
	r->pc -= CODE_BYTES;
	state->at_svc = true;
	return set_own_registers(tid, r) == 0;
}

static void release_filtered(struct call_reentry *entering)
{
	struct flmem_tracee *tracee = entering->tracee;
	const struct flmem_thread_state *before = entering->own;
	int signal = 0;

	entering->start_us = flmem_clock_us();
	if (!before->at_svc || !flmem_arch_interrupted_in(before, &tracee->wait))
		return;
	switch (run_to_report(entering, 0, &signal)) {
	case REPORT_CALL:
		skip_restart(tracee, before);
		break;
	case REPORT_SIGNAL: /* the kernel can report its call */
		tracee->signal = signal;
		break;
	default:
		break;
	}
}

void flmem_call_return_release(struct flmem_tracee *tracee)
{
	struct flmem_thread_state before;
	struct call_reentry entering = {.tracee = tracee, .own = &before};
	const bool filtered = tracee->filtered;

	tracee->filtered = false; /* only once, even if it does not stop */
	if ((!filtered && tracee->resumable) || flmem_arch_read_registers(tracee->tid, &before))
		return;
	if (set_back(tracee, &before))
		enter_call(&entering);
	else if (filtered)
		release_filtered(&entering);
}

#else
typedef int flmem_call_return_aarch64_unused;
#endif
