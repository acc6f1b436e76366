/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/shared_signals.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/files/io.h"
#include "proc/status.h"
#include "remote/arch.h"

#define STATUS_MAX 16384U
/* No sched_yield(): the main thread may need this processor. */
#define PAUSE_US 100U

static uint64_t signal_bit(int number)
{
	return number >= 1 && number <= 64 ? UINT64_C(1) << (number - 1) : 0;
}

/* One request to the kernel in the usual case, that there is none. */
static bool is_any_pending(pid_t tid)
{
	struct __ptrace_peeksiginfo_args range = {.flags = PTRACE_PEEKSIGINFO_SHARED, .nr = 1};
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	return ptrace(PTRACE_PEEKSIGINFO, tid, &range, &info) > 0;
}

/* Of the signals for the process, those that the main thread takes as soon as it runs. */
static uint64_t taken_by_main(pid_t leader)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_status status;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)leader);
	if (flmem_io_read_file_at(AT_FDCWD, path, STATUS_MAX, &text) ||
	    flmem_status_parse(text.data, &status, NULL) || status.sig_blocked.unknown ||
	    status.shared_pending.unknown || strchr("tTZX", status.state))
		return 0;
	return status.shared_pending.value & ~status.sig_blocked.value;
}

/*
 * Whether the stopped thread would take a signal of the main thread. All that are pending count:
 * thousands that every thread blocks may be queued before it. A stopping signal stops all threads,
 * whichever takes it.
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
