/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/borrow_restore.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>

#include "base/clock.h"
#include "proc/process.h"
#include "remote/borrow_wait.h"
#include "remote/call_return.h"
#include "remote/checks/quiet_stop.h"
#include "remote/interrupts.h"
#include "remote/tracee.h"

#define STOP_TIMEOUT_US 200000U
#define STOP_OWN_US	1000000U /* a thread that flmem has started delays no other */

/*
 * True if the thread is past the last call and has not restored itself; its stack pointer alone
 * does not show that.
 */
static bool is_parked(const struct flmem_borrow_state *borrow, const struct flmem_thread_state *now)
{
	size_t park = borrow->chain.count - 1;

	/* The clock reading before the park is visible before that call has returned. */
	return flmem_arch_is_in_call(now, &borrow->chain, park, &borrow->scratch,
				     &borrow->gadgets) ||
	       flmem_arch_is_in_call(now, &borrow->chain, park - 1, &borrow->scratch,
				     &borrow->gadgets);
}

bool flmem_borrow_sees_frames(const struct flmem_borrow_state *borrow, pid_t tid)
{
	uintptr_t address = borrow->scratch.data + borrow->cookie_end;
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, tid, (void *)address, NULL);
	return !errno && memcmp(&word, &borrow->cookie, sizeof(word)) == 0;
}

/*
 * Seizes a thread in the park, where it writes no core dump (flmem_borrow_wrap()). As long as the
 * thread must still be in the park, this needs no read while it is held.
 */
static int seize_parked(const struct flmem_borrow_state *borrow, pid_t tid,
			struct flmem_tracee *tracee)
{
	const pid_t leader = borrow->view->process->pid;

	return flmem_clock_us() - borrow->armed_us < FLMEM_BORROW_PARKED_US
		       ? flmem_tracee_seize_parked(tracee, tid, leader)
		       : flmem_tracee_seize(tracee, tid, leader);
}

/*
 * Restores the thread, which sleeps in the park at the end of its chain, where a second stop finds
 * it. If flmem arrives after that sleep, the thread has restored itself: it is not touched, and its
 * results are not used. The results are read again: a copy of memory that is being written may lack
 * what was written first.
 */
int flmem_borrow_restore(struct flmem_borrow_state *borrow, pid_t tid)
{
	FLMEM_AUTO_INTERRUPTS struct flmem_interrupts interrupts = flmem_interrupts_defer();
	FLMEM_AUTO_TRACEE struct flmem_tracee tracee = {0};
	const struct flmem_call_return back = flmem_borrow_call_return(borrow);
	const unsigned timeout_us = borrow->options->finish ? STOP_OWN_US : STOP_TIMEOUT_US;
	struct flmem_thread_state now;

	/* Without processor time for a second stop, the thread restores itself. */
	if (!flmem_quiet_stop_await_park(borrow->view->process, tid, &borrow->gadgets,
					 timeout_us) ||
	    (!borrow->options->finish && !flmem_own_quota_lasts(&borrow->quota)) ||
	    seize_parked(borrow, tid, &tracee) ||
	    flmem_tracee_stop(&tracee, timeout_us) == FLMEM_TRACEE_EXEC)
		return flmem_borrow_fail_lost(borrow);
	if (!tracee.tid)
		return flmem_borrow_fail_ended(borrow);
	/*
	 * Another flmem that borrowed the thread in the meantime has its park at the same address.
	 */
	if (!tracee.stopped || flmem_arch_read_registers(tid, &now) || !is_parked(borrow, &now) ||
	    !flmem_borrow_sees_frames(borrow, tid) ||
	    flmem_borrow_read_results(borrow) != FLMEM_BORROW_FINISHED)
		return flmem_borrow_fail_lost(borrow);
	/* If this fails, the thread restores itself through its last frame. */
	tracee.resumable = true;
	flmem_errno_restore(borrow->view->process, &borrow->own_errno);
	(void)flmem_call_return_restore(&tracee, &back);
	flmem_borrow_take_results(borrow);
	return 0;
}
