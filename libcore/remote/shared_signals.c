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
#include "base/io.h"
#include "proc/status.h"

#define STATUS_MAX 16384U
#define PEEK_COUNT 32
/* No sched_yield(): the main thread may need this processor. */
#define PAUSE_US 100U

static uint64_t signal_bit(int number)
{
	return number >= 1 && number <= 64 ? UINT64_C(1) << (number - 1) : 0;
}

/* Those that are pending for the process and not blocked by the stopped thread. */
static uint64_t pending_for(pid_t tid)
{
	struct __ptrace_peeksiginfo_args range = {.flags = PTRACE_PEEKSIGINFO_SHARED,
						  .nr = PEEK_COUNT};
	siginfo_t infos[PEEK_COUNT];
	uint64_t pending = 0, blocked;
	long count;

	/* A stopping signal stops all threads, whichever takes it. */
	const uint64_t any_thread = signal_bit(SIGSTOP) | signal_bit(SIGTSTP) |
				    signal_bit(SIGTTIN) | signal_bit(SIGTTOU);

	memset(infos, 0, sizeof(infos));
	count = ptrace(PTRACE_PEEKSIGINFO, tid, &range, infos);
	for (long i = 0; i < count; i++)
		pending |= signal_bit(infos[i].si_signo);
	if (!pending || ptrace(PTRACE_GETSIGMASK, tid, sizeof(blocked), &blocked) < 0)
		return 0;
	return pending & ~blocked & ~any_thread;
}

/* Those of the signals that the main thread takes as soon as it runs. */
static uint64_t taken_by_main(pid_t leader, uint64_t signals)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_status status;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)leader);
	if (flmem_io_read_file_at(AT_FDCWD, path, STATUS_MAX, &text) ||
	    flmem_status_parse(text.data, &status, NULL) || status.sig_blocked.unknown ||
	    strchr("tTZX", status.state))
		return 0;
	return signals & ~status.sig_blocked.value;
}

void flmem_shared_signals_await(pid_t tid, pid_t leader)
{
	const uint64_t start = flmem_clock_us();
	uint64_t signals;

	if (tid == leader)
		return;
	while ((signals = pending_for(tid)) && taken_by_main(leader, signals) &&
	       flmem_clock_us() - start < FLMEM_SHARED_SIGNALS_US)
		flmem_clock_sleep_us(PAUSE_US);
}
