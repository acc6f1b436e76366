/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/rescue.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"
#include "remote/arch.h"
#include "remote/call_return.h"
#include "remote/checks/candidates.h"
#include "remote/errno_place.h"
#include "remote/interrupts.h"
#include "remote/tracee.h"

#define STOP_TIMEOUT_US 200000U

/*
 * Times after which a lock counts as stuck: no other thread of the process ran, or others ran and
 * the lock was not released.
 */
#define STUCK_US     100000U
#define STUCK_US_MAX 1000000U

/*
 * SIGCANCEL of glibc (nptl/pthreadP.h). A thread that is blocked in a cancellation point allows its
 * handler to end the thread at any instruction: in the middle of the calls, with their locks held.
 * This signal has to wait for the end of the calls, as it would wait for the end of malloc().
 */
#define CANCEL_BIT (UINT64_C(1) << 31)

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
	       status.sig_pending.value & status.sig_caught.value & ~own_mask & ~CANCEL_BIT;
}

/*
 * Stops the thread, and reads its registers and the lock that it waits for. False if it does not
 * wait for a lock, or was just woken: it has taken the only wake that the release of the lock
 * makes, and must continue, to take the lock and to wake the next thread.
 */
static bool stop_waiting_thread(const struct flmem_process *process, pid_t tid,
				struct flmem_tracee *tracee, struct flmem_task_wait *ret_wait)
{
	FLMEM_AUTO_FREE struct flmem_thread_state *now = malloc(sizeof(*now));

	if (!now || flmem_tracee_seize(tracee, tid, process->pid) ||
	    flmem_tracee_stop(tracee, STOP_TIMEOUT_US) != FLMEM_TRACEE_STOPPED ||
	    flmem_arch_read_registers(tid, now))
		return false;
	flmem_arch_read_call(now, ret_wait);
	return waits_for_lock(ret_wait) && !flmem_arch_has_returned(now, ret_wait);
}

static bool is_word(pid_t tid, uint64_t address, uint64_t expected)
{
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, tid, (void *)(uintptr_t)address, NULL);
	return !errno && (uint64_t)word == expected;
}

/*
 * Checks the stopped thread: while flmem was stopped itself, the thread may have restored itself
 * and may now wait for a lock for its program or in calls of another flmem, which have other words
 * on its stack.
 */
static bool is_in_chain(pid_t tid, uint64_t own_mask, const struct flmem_rescue_mark *mark)
{
	uint64_t mask;

	return ptrace(PTRACE_GETSIGMASK, tid, sizeof(mask), &mask) == 0 && mask != own_mask &&
	       (flmem_arch_is_chain_mask(mask) || mask == (own_mask | CANCEL_BIT)) &&
	       is_word(tid, mark->cookie_at, mark->cookie) && is_word(tid, mark->end_at, 0) &&
	       is_word(tid, mark->end_at + sizeof(uint64_t), 0);
}

void flmem_rescue_signals(const struct flmem_process *process, pid_t tid, uint64_t own_mask,
			  const struct flmem_rescue_mark *mark)
{
	FLMEM_AUTO_INTERRUPTS struct flmem_interrupts interrupts = flmem_interrupts_defer();
	FLMEM_AUTO_TRACEE struct flmem_tracee tracee = {0};
	uint64_t mask = own_mask | CANCEL_BIT;
	struct flmem_task_wait wait;

	if (!stop_waiting_thread(process, tid, &tracee, &wait) || !is_in_chain(tid, own_mask, mark))
		return;
	tracee.resumable = true;
	(void)ptrace(PTRACE_SETSIGMASK, tid, sizeof(mask), &mask);
}

struct thread_activity {
	uint64_t switches;
	bool running;
};

static void add_activity(const struct flmem_process *process, pid_t tid,
			 struct thread_activity *sum)
{
	struct flmem_status status;

	if (flmem_status_read_thread(process, tid, &status) || status.voluntary_switches.unknown ||
	    status.involuntary_switches.unknown)
		return;
	sum->switches += status.voluntary_switches.value + status.involuntary_switches.value;
	sum->running |= status.state == 'R';
}

static struct thread_activity activity_of_others(const struct flmem_process *process, pid_t tid)
{
	FLMEM_AUTO_TASKS struct flmem_tasks tasks = {0};
	struct thread_activity sum = {0};

	if (flmem_tasks_read(process, &tasks))
		return sum;
	for (size_t i = 0; i < tasks.count; i++)
		if (tasks.ids[i] != tid)
			add_activity(process, tasks.ids[i], &sum);
	return sum;
}

/* True if there was activity since the last call, or at the first call. */
static bool note_activity(struct flmem_rescue_activity *known, struct thread_activity now,
			  uint64_t at_us)
{
	if (known->at_us && !now.running && now.switches == known->switches)
		return false;
	*known = (struct flmem_rescue_activity){now.switches, at_us};
	return true;
}

bool flmem_rescue_is_stuck(const struct flmem_process *process, pid_t tid, uint64_t at_us,
			   struct flmem_rescue_progress *progress)
{
	struct thread_activity own = {0};

	add_activity(process, tid, &own);
	if (note_activity(&progress->own, own, at_us)) {
		progress->others = (struct flmem_rescue_activity){0};
		return false;
	}
	if (at_us - progress->own.at_us < STUCK_US)
		return false;
	(void)note_activity(&progress->others, activity_of_others(process, tid), at_us);
	return at_us - progress->others.at_us >= STUCK_US ||
	       at_us - progress->own.at_us >= STUCK_US_MAX;
}

static bool waits_for_word(const struct flmem_task_wait *at, const struct flmem_guard *guard)
{
	for (size_t i = 0; waits_for_lock(at) && i < guard->word_count; i++)
		if (guard->words[i] == at->args[0])
			return true;
	return false;
}

bool flmem_rescue_abandon(pid_t tid, const struct flmem_guard *guard,
			  const struct flmem_call_return *back,
			  const struct flmem_rescue_mark *mark,
			  const struct flmem_errno_value *own_errno)
{
	const struct flmem_process *process = back->process;
	FLMEM_AUTO_INTERRUPTS struct flmem_interrupts interrupts = flmem_interrupts_defer();
	FLMEM_AUTO_TRACEE struct flmem_tracee tracee = {0};
	struct flmem_task_wait wait;

	if (flmem_task_read_wait(process, tid, &wait) != 1 || !waits_for_word(&wait, guard) ||
	    !stop_waiting_thread(process, tid, &tracee, &wait) || !waits_for_word(&wait, guard) ||
	    !is_in_chain(tid, back->own->signal_mask, mark))
		return false;
	tracee.resumable = true;
	flmem_errno_restore(process, own_errno);
	return flmem_call_return_restore(&tracee, back) == 0;
}
