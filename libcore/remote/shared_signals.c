/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/shared_signals.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>

#include "base/clock.h"
#include "proc/status.h"
#include "remote/arch.h"

/* Pause between two checks; not sched_yield(), because the main thread may need this processor. */
#define PAUSE_US 100U

static uint64_t signal_bit(int number)
{
	return number >= 1 && number <= 64 ? UINT64_C(1) << (number - 1) : 0;
}

/* True if a signal is pending: one request to the kernel in the usual case that none is. */
static bool is_any_pending(pid_t tid)
{
	struct __ptrace_peeksiginfo_args range = {.flags = PTRACE_PEEKSIGINFO_SHARED, .nr = 1};
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	return ptrace(PTRACE_PEEKSIGINFO, tid, &range, &info) > 0;
}

/* Returns those signals for the process that the main thread takes as soon as it runs. */
static uint64_t taken_by_main(pid_t leader)
{
	struct flmem_status status;

	if (flmem_status_read_number(leader, &status) || status.sig_blocked.unknown ||
	    status.shared_pending.unknown || strchr("tTZX", status.state))
		return 0;
	return status.shared_pending.value & ~status.sig_blocked.value;
}

/*
 * True if the stopped thread would take a signal meant for the main thread. All pending signals
 * count: thousands that every thread blocks may be queued before it. A stopping signal stops all
 * threads, whichever takes it.
 */
static bool would_take_from_main(pid_t tid, pid_t leader)
{
	const uint64_t any_thread = signal_bit(SIGSTOP) | signal_bit(SIGTSTP) |
				    signal_bit(SIGTTIN) | signal_bit(SIGTTOU);
	uint64_t blocked;

	if (!is_any_pending(tid) || ptrace(PTRACE_GETSIGMASK, tid, sizeof(blocked), &blocked) < 0)
		return false;
	return taken_by_main(leader) & ~blocked & ~any_thread;
}

void flmem_shared_signals_await(pid_t tid, pid_t leader)
{
	const uint64_t start = flmem_clock_us();

	if (tid == leader)
		return;
	while (would_take_from_main(tid, leader) &&
	       flmem_clock_us() - start < FLMEM_SHARED_SIGNALS_US)
		flmem_clock_sleep_us(PAUSE_US);
}
