/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/borrow_wait.h"

#include <time.h>

#include "base/clock.h"
#include "proc/process.h"
#include "remote/priority.h"
#include "remote/rescue.h"
#include "remote/tracee.h"

#define POLL_US	     50U
#define POLL_US_LONG 500U
/* With a quota of processor time, polls take less than 1 % of a processor, and find the park. */
#define POLL_US_QUOTA 5000U
#define LONG_CALL_US  1000000U
#define RESCUE_US     20000U

int flmem_borrow_fail_ended(struct flmem_borrow_state *borrow)
{
	const bool assumed = borrow->options->assume_seccomp;

	return flmem_error_set(borrow->err, FLMEM_ENOPROC, 0, "process %d ended during the call%s",
			       (int)borrow->view->process->pid,
			       assumed ? "; if one of its seccomp filters killed it, "
					 "--assume-seccomp does not fit this process"
				       : "");
}

int flmem_borrow_fail_lost(struct flmem_borrow_state *borrow)
{
	borrow->result->self_restored = true;
	return flmem_error_set(
		borrow->err, FLMEM_EFAILED, 0,
		"the calls have returned, but process %d resumed before flmem got CPU time to read "
		"their results; try again when this machine is less busy",
		(int)borrow->view->process->pid);
}

static bool may_take_back(const struct flmem_borrow_state *borrow)
{
	return borrow->options->cancels && !borrow->options->finish;
}

static struct flmem_rescue_mark rescue_mark(const struct flmem_borrow_state *borrow)
{
	const uint64_t data = borrow->scratch.data;

	return (struct flmem_rescue_mark){
		.cookie_at = data + borrow->cookie_end,
		.cookie = borrow->cookie,
		.end_at = data + borrow->clocks + borrow->spans * sizeof(struct timespec),
	};
}

static bool take_back(struct flmem_borrow_state *borrow, pid_t tid)
{
	const struct flmem_call_return back = flmem_borrow_call_return(borrow);
	const struct flmem_rescue_mark mark = rescue_mark(borrow);

	return may_take_back(borrow) &&
	       flmem_rescue_abandon(tid, flmem_borrow_guard(borrow->options), &back, &mark,
				    &borrow->own_errno);
}

static void rescue_signals_if_due(const struct flmem_borrow_state *borrow, pid_t tid)
{
	const struct flmem_process *process = borrow->view->process;
	const uint64_t own_mask = borrow->state.signal_mask;
	const struct flmem_rescue_mark mark = rescue_mark(borrow);

	if (!borrow->options->finish && flmem_rescue_is_due(process, tid, own_mask))
		flmem_rescue_signals(process, tid, own_mask, &mark);
}

/* True if the thread was taken out of its calls because the lock holder may be waiting for it. */
static bool rescue_if_due(struct flmem_borrow_state *borrow, pid_t tid, uint64_t spent_us,
			  struct flmem_rescue_progress *progress)
{
	if (may_take_back(borrow) &&
	    flmem_rescue_is_stuck(borrow->view->process, tid, spent_us, progress) &&
	    take_back(borrow, tid))
		return true;
	rescue_signals_if_due(borrow, tid);
	return false;
}

static int fail_timed_out(struct flmem_borrow_state *borrow, pid_t tid, uint64_t spent_us)
{
	flmem_borrow_count_returned(borrow);
	return flmem_error_set(borrow->err, FLMEM_EFAILED, 0,
			       "the call has not ended after %llu ms; thread %d continues it and "
			       "then restores itself",
			       (unsigned long long)(spent_us / 1000U), (int)tid);
}

static int fail_abandoned(struct flmem_borrow_state *borrow, pid_t tid)
{
	return flmem_error_set(
		borrow->err, FLMEM_EUNSAFE, 0,
		"a lock of the allocator of process %d was not released in time, perhaps because "
		"the thread that holds it makes no progress; the call on thread %d was cancelled; "
		"try again or give a longer --timeout",
		(int)borrow->view->process->pid, (int)tid);
}

/* Stops waiting for the thread. Afterwards it is not taken out of its calls. */
static int leave_thread(struct flmem_borrow_state *borrow, pid_t tid, uint64_t spent_us)
{
	if (take_back(borrow, tid))
		return fail_abandoned(borrow, tid);
	rescue_signals_if_due(borrow, tid);
	return fail_timed_out(borrow, tid, spent_us);
}

static unsigned get_poll_us(const struct flmem_borrow_state *borrow, uint64_t spent_us)
{
	if (borrow->quota.least_ns != UINT64_MAX)
		return POLL_US_QUOTA;
	return spent_us < LONG_CALL_US ? POLL_US : POLL_US_LONG;
}

/*
 * Waits for the results, and reads them once more after the time limit: flmem may have been without
 * a processor.
 */
int flmem_borrow_await(struct flmem_borrow_state *borrow, pid_t tid)
{
	uint64_t start = flmem_clock_us(), spent, rescue_us = RESCUE_US;
	struct flmem_rescue_progress activity = {0};
	enum flmem_borrow_progress progress;

	for (;;) {
		spent = flmem_clock_us() - start;
		progress = flmem_borrow_read_results(borrow);
		if (progress != FLMEM_BORROW_RUNNING)
			break;
		if (borrow->options->observe)
			borrow->options->observe(borrow->options->observer, true);
		if (spent > rescue_us && rescue_if_due(borrow, tid, spent, &activity))
			return fail_abandoned(borrow, tid);
		if (flmem_tracee_thread_must_exit())
			return fail_timed_out(borrow, tid, spent);
		if (spent > rescue_us)
			rescue_us = spent + RESCUE_US;
		if (spent > borrow->options->timeout_us)
			return leave_thread(borrow, tid, spent);
		flmem_priority_pause(spent, get_poll_us(borrow, spent));
	}
	if (progress == FLMEM_BORROW_ENDED)
		return flmem_borrow_fail_ended(borrow);
	return progress == FLMEM_BORROW_LOST ? flmem_borrow_fail_lost(borrow) : 0;
}
