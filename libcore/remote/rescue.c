/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/rescue.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"
#include "remote/arch.h"
#include "remote/candidates.h"
#include "remote/hold.h"
#include "remote/tracee.h"

#define STOP_TIMEOUT_US 200000U

static bool waits_for_lock(const struct flmem_task_wait *at)
{
	unsigned operation = (unsigned)at->args[1] & (unsigned)FUTEX_CMD_MASK;

	return at->number == SYS_futex &&
	       (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET);
}

bool flmem_rescue_is_due(const struct flmem_process *process, pid_t tid, uint64_t own_mask)
{
	struct flmem_task_wait wait;
	struct flmem_status status;

	if (flmem_task_read_wait(process, tid, &wait) != 1 || !waits_for_lock(&wait))
		return false;
	return flmem_status_read_thread(process, tid, &status) == 0 &&
	       !status.sig_pending.unknown && !status.sig_caught.unknown &&
	       status.sig_pending.value & status.sig_caught.value & ~own_mask;
}

/* Stops it, and reads its registers and what it waits in. */
static bool stop(const struct flmem_process *process, pid_t tid, struct flmem_tracee *tracee,
		 struct flmem_task_wait *ret_wait)
{
	FLMEM_AUTO_FREE struct flmem_thread_state *now = malloc(sizeof(*now));

	if (!now || flmem_tracee_seize(tracee, tid, process->pid) ||
	    flmem_tracee_stop(tracee, STOP_TIMEOUT_US) != FLMEM_TRACEE_STOPPED ||
	    flmem_arch_read_registers(tid, now))
		return false;
	flmem_arch_read_call(now, ret_wait);
	return waits_for_lock(ret_wait);
}

void flmem_rescue_signals(const struct flmem_process *process, pid_t tid, uint64_t own_mask)
{
	FLMEM_AUTO_HOLD struct flmem_hold hold = flmem_hold_begin();
	FLMEM_AUTO_TRACEE struct flmem_tracee tracee = {0};
	struct flmem_task_wait wait;

	if (!stop(process, tid, &tracee, &wait))
		return;
	tracee.resumable = true;
	(void)ptrace(PTRACE_SETSIGMASK, tid, sizeof(own_mask), &own_mask);
}

static bool waits_for_word(const struct flmem_task_wait *at, const struct flmem_guard *guard)
{
	for (size_t i = 0; waits_for_lock(at) && i < guard->word_count; i++)
		if (guard->words[i] == at->args[0])
			return true;
	return false;
}

bool flmem_rescue_abandon(const struct flmem_process *process, pid_t tid,
			  const struct flmem_guard *guard, const struct flmem_thread_state *own)
{
	FLMEM_AUTO_HOLD struct flmem_hold hold = flmem_hold_begin();
	FLMEM_AUTO_TRACEE struct flmem_tracee tracee = {0};
	struct flmem_task_wait wait;

	if (flmem_task_read_wait(process, tid, &wait) != 1 || !waits_for_word(&wait, guard) ||
	    !stop(process, tid, &tracee, &wait) || !waits_for_word(&wait, guard))
		return false;
	tracee.resumable = true;
	return flmem_arch_restore(tid, own) == 0;
}
