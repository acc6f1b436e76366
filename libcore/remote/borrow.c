/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/borrow.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "base/attempt.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/files/read_hazard.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task_scheduling.h"
#include "remote/borrow_restore.h"
#include "remote/borrow_state.h"
#include "remote/borrow_wait.h"
#include "remote/call_return.h"
#include "remote/chain_code.h"
#include "remote/checks/preflight.h"
#include "remote/checks/quiet_stop.h"
#include "remote/checks/stopped_thread.h"
#include "remote/gadgets.h"
#include "remote/interrupts.h"
#include "remote/own_code.h"
#include "remote/priority.h"
#include "remote/seccomp/seccomp.h"
#include "remote/tracee.h"

#define STOP_TIMEOUT_US 200000U
#define TRIES_PER_ROUND 4U
#define BACKOFF_US_MIN	1000U
#define BACKOFF_US_MAX	50000U
#define DENIALS_MAX	3U /* limit of refusals by the kernel without a visible reason */
#define DENIED_US	1000U
#define FAULT_STEP	4096U
#define HOLD_STACK	65536U /* more than flmem uses while it holds a thread */

/* The result of trying one thread. */
enum borrow_attempt {
	ATTEMPT_DONE,
	ATTEMPT_NEXT,	  /* the thread has moved on; try another one */
	ATTEMPT_FILTERED, /* seccomp may not allow this thread the calls; try another one */
	ATTEMPT_LATER,	  /* no thread may be borrowed now; the error says why */
	ATTEMPT_FATAL,
};

/* Writes the address of the area into it: as digits for a text that names it, or as a pointer. */
static void write_area_address(struct flmem_borrow_state *borrow)
{
	const struct flmem_chain_area *area = &borrow->chain.area;
	const uint64_t pointer = borrow->scratch.area + area->pointer_to;
	char digits[FLMEM_CHAIN_ADDRESS_DIGITS + 1];

	if (area->writes_pointer)
		memcpy(borrow->scratch.bytes + (borrow->scratch.area - borrow->scratch.address),
		       &pointer, sizeof(pointer));
	if (!area->writes_address)
		return;
	snprintf(digits, sizeof(digits), "%016llx", (unsigned long long)borrow->scratch.area);
	memcpy(borrow->scratch.bytes + (borrow->scratch.area - borrow->scratch.address) +
		       area->address_at,
	       digits, FLMEM_CHAIN_ADDRESS_DIGITS);
}

/*
 * Makes all steps between the stop and the armed thread; up to the last one the borrowing can be
 * cancelled.
 */
static int arm_thread(struct flmem_borrow_state *borrow, struct flmem_tracee *tracee)
{
	int rc;

	rc = flmem_arch_make_resumable(tracee->tid, &borrow->state);
	if (rc)
		return rc;
	tracee->resumable = true;
	rc = flmem_arch_read_rest(tracee->tid, &borrow->state);
	if (rc)
		return rc;
	if (borrow->options->finish)
		flmem_arch_finish_call(&borrow->state);
	borrow->own_errno = flmem_errno_read(borrow->view->process, &borrow->errno_place,
					     flmem_arch_thread_pointer(&borrow->state));
	rc = flmem_arch_build(&borrow->state, &borrow->chain, borrow->gadgets.restorer,
			      &borrow->scratch, borrow->err);
	if (rc)
		return -EFAULT;
	if (!flmem_chain_code_is_there(borrow->view->process, &borrow->chain, &borrow->code))
		return -EFAULT;
	write_area_address(borrow);
	rc = flmem_process_write_memory(borrow->view->process, borrow->scratch.address,
					borrow->scratch.bytes, borrow->scratch.length);
	if (!rc && (!flmem_borrow_sees_frames(borrow, tracee->tid) || flmem_attempt_is_lost()))
		rc = -ESRCH;
	borrow->armed_us = flmem_clock_us();
	if (!rc)
		rc = flmem_arch_arm(tracee->tid, &borrow->state, &borrow->scratch,
				    borrow->gadgets.restorer);
	tracee->armed = !rc;
	return rc;
}

/*
 * Returns why this thread alone may not be traced; NULL if the reason applies to the process. The
 * status of the process shows only the tracer of its main thread. The kernel also refuses, with
 * EPERM, to trace a thread that is ending (ptrace_attach() in kernel/ptrace.c).
 */
static const char *why_untraceable(const struct flmem_borrow_state *borrow, pid_t tid)
{
	struct flmem_status status;

	if (flmem_status_read_thread(borrow->view->process, tid, &status) || status.state == 'X')
		return "has ended";
	return !status.tracer.unknown && status.tracer.value ? "is traced" : NULL;
}

/*
 * Seizes the thread. Another tracer may have left between the refusal of the kernel and the search
 * for its reason.
 */
static int seize_thread(const struct flmem_borrow_state *borrow, struct flmem_tracee *tracee,
			const struct flmem_candidate *candidate, const char **ret_why)
{
	const pid_t tid = candidate->tid;

	for (unsigned denials = 0;; denials++) {
		int rc = flmem_tracee_seize(tracee, tid, borrow->view->process->pid);

		*ret_why = rc == -EPERM ? why_untraceable(borrow, tid) : NULL;
		if (rc != -EPERM || *ret_why || denials == DENIALS_MAX)
			return rc;
		flmem_clock_sleep_us(DENIED_US);
	}
}

static enum borrow_attempt refuse_seize(struct flmem_borrow_state *borrow, pid_t tid, int rc,
					const char *why)
{
	if (rc == -ESRCH)
		return ATTEMPT_NEXT;
	if (rc == -EAGAIN) {
		flmem_error_set(borrow->err, FLMEM_EFAILED, -rc,
				"no timer could be made that frees a thread of process %d if flmem "
				"is stopped; raise the number of pending signals (ulimit -i)",
				(int)borrow->view->process->pid);
		return ATTEMPT_FATAL;
	}
	if (why) {
		borrow->refused = why;
		borrow->refused_tid = tid;
		return ATTEMPT_NEXT;
	}
	flmem_preflight_explain(borrow->view->process, rc, borrow->err);
	return ATTEMPT_FATAL;
}

static enum borrow_attempt check_stopped(struct flmem_borrow_state *borrow,
					 struct flmem_candidate *candidate,
					 const struct flmem_seccomp_calls *calls, int status_fd,
					 struct flmem_tracee *tracee)
{
	struct flmem_status status;
	const bool accepted = flmem_stopped_thread_check(borrow, candidate, status_fd, &status);

	tracee->slept_on = flmem_stopped_thread_has_slept(candidate, &status);
	if (!accepted)
		return ATTEMPT_NEXT;
	if (flmem_seccomp_check_thread(borrow->view->process->pid, candidate->tid, &status, calls,
				       borrow->err))
		return ATTEMPT_FILTERED;
	return ATTEMPT_DONE;
}

/*
 * Stops a seized thread; between its last check and its stop nothing else is done. A thread that
 * has moved on is not stopped: the end of this thread of flmem releases it.
 */
static bool stop_thread(struct flmem_borrow_state *borrow, struct flmem_tracee *tracee,
			const struct flmem_candidate *candidate, int status_fd, int wait_fd)
{
	tracee->undisturbed = flmem_quiet_stop_sleeps_on(candidate, status_fd, wait_fd);
	if (tracee->undisturbed)
		return flmem_tracee_stop(tracee, STOP_TIMEOUT_US) == FLMEM_TRACEE_STOPPED;
	tracee->runs_on = true;
	borrow->refused = "ran for a moment while flmem read the other threads";
	borrow->refused_tid = candidate->tid;
	return false;
}

/* Checks the stopped thread, and points it at its calls. Nothing is fetched meanwhile. */
static enum borrow_attempt use_stopped(struct flmem_borrow_state *borrow,
				       struct flmem_candidate *candidate,
				       const struct flmem_seccomp_calls *calls, int status_fd,
				       struct flmem_tracee *tracee)
{
	FLMEM_AUTO_RESIDENT const bool hold = flmem_read_hazard_begin_hold();
	enum borrow_attempt attempt = check_stopped(borrow, candidate, calls, status_fd, tracee);

	tracee->filtered = attempt == ATTEMPT_FILTERED;
	if (attempt == ATTEMPT_DONE && !borrow->dry_run && arm_thread(borrow, tracee)) {
		borrow->refused = "could not be prepared for the calls";
		flmem_stopped_thread_spare(borrow, candidate, borrow->refused);
		attempt = ATTEMPT_NEXT;
	}
	return attempt;
}

/* Stops the thread, points it at its calls and releases it. */
static enum borrow_attempt start_calls(struct flmem_borrow_state *borrow,
				       struct flmem_candidate *candidate,
				       const struct flmem_seccomp_calls *calls,
				       uint64_t *ret_start_ns)
{
	FLMEM_AUTO_INTERRUPTS struct flmem_interrupts interrupts = flmem_interrupts_defer();
	FLMEM_AUTO_CLOSE int status_fd =
		flmem_status_open_thread(borrow->view->process, candidate->tid);
	FLMEM_AUTO_CLOSE int wait_fd = flmem_quiet_stop_open(borrow->view->process, candidate->tid);
	FLMEM_AUTO_TRACEE struct flmem_tracee tracee = {0};
	const char *why;
	int rc;

	if (!flmem_stopped_thread_prepare(borrow, candidate))
		return ATTEMPT_NEXT;
	flmem_borrow_renew_cookie(borrow);
	rc = seize_thread(borrow, &tracee, candidate, &why);
	if (rc)
		return refuse_seize(borrow, candidate->tid, rc, why);
	*ret_start_ns = flmem_clock_ns();
	if (!stop_thread(borrow, &tracee, candidate, status_fd, wait_fd))
		return ATTEMPT_NEXT;
	tracee.wait = candidate->at;
	return use_stopped(borrow, candidate, calls, status_fd, &tracee);
}

static void name_thread(struct flmem_borrow_state *borrow, const struct flmem_candidate *candidate)
{
	borrow->result->tid = candidate->tid;
	borrow->result->waited_in = candidate->wait.name;
	borrow->result->late_us = candidate->wait.late_us;
}

/* Waits while the thread makes its calls, reads their results and restores it. */
static enum borrow_attempt finish_calls(struct flmem_borrow_state *borrow,
					const struct flmem_candidate *candidate, uint64_t start_ns)
{
	int rc;

	name_thread(borrow, candidate);
	if (borrow->dry_run)
		return ATTEMPT_DONE;
	borrow->result->started = true;
	borrow->result->signal_mask = borrow->state.signal_mask;
	rc = flmem_borrow_await(borrow, candidate->tid);
	if (!rc)
		rc = flmem_borrow_read_area(borrow) ? flmem_borrow_fail_ended(borrow)
						    : flmem_borrow_restore(borrow, candidate->tid);
	borrow->result->stopped_ns = flmem_clock_ns() - start_ns;
	return rc ? ATTEMPT_FATAL : ATTEMPT_DONE;
}

static enum borrow_attempt refuse_uninterruptible(struct flmem_borrow_state *borrow, pid_t tid)
{
	flmem_error_set(borrow->err, FLMEM_EUNSAFE, 0,
			"thread %d of process %d could not be stopped: it entered an "
			"uninterruptible wait (for a vfork() child or for storage), or gets no "
			"processor; try again",
			(int)tid, (int)borrow->view->process->pid);
	return ATTEMPT_FATAL;
}

/* A dry run changes nothing: repeated often enough, it would keep a timeout from ever ending. */
static bool is_left_running(const struct flmem_borrow_state *borrow,
			    const struct flmem_candidate *candidate)
{
	return borrow->dry_run && candidate->wait.stop_restarts;
}

static enum borrow_attempt try_thread(struct flmem_borrow_state *borrow,
				      struct flmem_candidate *candidate)
{
	const struct flmem_seccomp_calls calls = flmem_seccomp_calls_of(
		candidate, borrow->options->syscalls, borrow->options->assume_seccomp);
	FLMEM_AUTO_PRIORITY struct flmem_priority priority = {0};
	enum borrow_attempt attempt;
	uint64_t start_ns = 0;
	int rc;

	if (flmem_seccomp_check_outside(borrow->view->process, candidate->tid, &calls, borrow->err))
		return ATTEMPT_FILTERED;
	if (is_left_running(borrow, candidate)) {
		name_thread(borrow, candidate);
		borrow->result->unstopped = true;
		return ATTEMPT_DONE;
	}
	if ((rc = flmem_borrow_check_in_period(borrow)) != 0)
		return rc > 0 ? ATTEMPT_LATER : ATTEMPT_FATAL;
	if (borrow->options->observe && !borrow->dry_run)
		borrow->options->observe(borrow->options->observer, false);
	flmem_own_code_fault_in();
	priority = flmem_priority_raise(borrow->view->process, candidate->tid);
	if (priority.is_last && flmem_borrow_fail_last(borrow))
		return ATTEMPT_FATAL;
	attempt = start_calls(borrow, candidate, &calls, &start_ns);
	if (flmem_tracee_is_stuck())
		return refuse_uninterruptible(borrow, candidate->tid);
	if (attempt == ATTEMPT_NEXT)
		flmem_borrow_fetch(borrow, candidate->tid);
	return attempt == ATTEMPT_DONE ? finish_calls(borrow, candidate, start_ns) : attempt;
}

static int find_candidates(const struct flmem_view *view, const struct flmem_candidate_needs *needs,
			   struct flmem_candidates *ret_found, struct flmem_error *err)
{
	int rc = flmem_candidates_find(view, needs, ret_found);

	return rc ? flmem_preflight_explain(view->process, rc, err) : 0;
}

/*
 * Tries the requested thread while it computes; if it were stopped in a system call, that call
 * could fail with EINTR. Returns 1 if the thread was not where it may be borrowed.
 */
static int try_computing(struct flmem_borrow_state *borrow)
{
	const char *why = flmem_quiet_stop_refuses_computing();
	pid_t tid = borrow->options->computing;
	struct flmem_candidate row = {
		.tid = tid, .computes = true, .leader = tid == borrow->view->process->pid};
	FLMEM_AUTO_TASK_GROUPS struct flmem_task_groups groups = FLMEM_TASK_GROUPS_INIT;
	enum borrow_attempt attempt = ATTEMPT_NEXT;
	struct flmem_task_wait wait;

	borrow->refused = why ? why : "is not running now";
	flmem_error_clear(borrow->err);
	if (!why && flmem_task_read_wait(borrow->view->process, tid, &wait) == 0 &&
	    !(borrow->refused = flmem_task_scheduling_refuses(borrow->view->process, tid, &groups)))
		attempt = try_thread(borrow, &row);
	if (attempt == ATTEMPT_NEXT)
		flmem_error_set(borrow->err, FLMEM_EUNSAFE, 0,
				"thread %d of process %d cannot be borrowed now: it %s; try again "
				"or give a longer --timeout",
				(int)tid, (int)borrow->view->process->pid,
				borrow->refused
					? borrow->refused
					: "left its system call before it could be stopped");
	return attempt == ATTEMPT_DONE ? 0 : attempt == ATTEMPT_NEXT ? 1 : borrow->err->code;
}

static bool refuses_new(struct flmem_borrow_state *borrow, pid_t tid)
{
	const char *why = borrow->options->finish ? NULL /* flmem has started it for this */
						  : flmem_quiet_stop_is_new(&borrow->sleepers, tid);

	if (!why)
		return false;
	borrow->refused = why;
	borrow->refused_tid = tid;
	return true;
}

/* Makes one pass over all threads. Returns 1 if none could be borrowed now. */
static int try_threads(struct flmem_borrow_state *borrow)
{
	FLMEM_AUTO_CANDIDATES struct flmem_candidates found = {0};
	const struct flmem_candidate_needs needs = flmem_stopped_thread_needs(
		borrow->options, &borrow->gadgets, borrow->chain.area.length);
	struct flmem_error filtered = {0};
	int rc = find_candidates(borrow->view, &needs, &found, borrow->err);

	if (rc)
		return rc;
	if (found.handling) {
		flmem_candidates_refuse(borrow->view->process, &found, borrow->err);
		return 1;
	}
	flmem_quiet_stop_note(&borrow->sleepers, &found);
	for (size_t i = 0, tries = 0;
	     i < found.count && tries < TRIES_PER_ROUND && !flmem_tracee_thread_must_exit(); i++) {
		enum borrow_attempt attempt;

		if (flmem_stopped_thread_is_spared(borrow, &found.rows[i]) ||
		    refuses_new(borrow, found.rows[i].tid))
			continue;
		tries++;
		flmem_error_clear(borrow->err);
		attempt = try_thread(borrow, &found.rows[i]);
		if (attempt == ATTEMPT_FATAL)
			return borrow->err->code;
		if (attempt == ATTEMPT_DONE || attempt == ATTEMPT_LATER)
			return attempt == ATTEMPT_LATER;
		if (attempt == ATTEMPT_FILTERED)
			filtered = *borrow->err;
	}
	if (filtered.code) {
		*borrow->err = filtered;
		return filtered.code;
	}
	if (borrow->refused) {
		found.rejected = borrow->refused;
		found.rejected_tid = borrow->refused_tid;
	}
	flmem_candidates_refuse(borrow->view->process, &found, borrow->err);
	return 1;
}

static int try_borrow(struct flmem_borrow_state *borrow)
{
	int rc = flmem_preflight_now(borrow->view->process, borrow->err);

	if (!rc)
		rc = flmem_borrow_check_locks(borrow->view->process, borrow->options, borrow->err);
	if (rc)
		return rc == FLMEM_EUNSAFE ? 1 : rc;
	*borrow->result = (struct flmem_borrow_result){0};
	return borrow->options->computing ? try_computing(borrow) : try_threads(borrow);
}

struct borrow_run {
	struct flmem_borrow_state *borrow;
	uint64_t start_us, backoff_us;
	uint64_t pause_us; /* time before the next pass; 0: no further pass */
	bool follows; /* the next pass follows immediately, on threads that this one found asleep */
	int rc;
};

/*
 * True if another pass follows, after `pause_us`. A pass that only waits until threads have slept
 * long enough counts as part of the one before.
 */
static bool passes_again(struct borrow_run *run)
{
	const struct flmem_borrow_state *borrow = run->borrow;
	const uint64_t due_us = flmem_quiet_stop_due_us(&borrow->sleepers);

	run->follows = (due_us && !run->follows) || borrow->has_fetched;
	run->pause_us = 0;
	if (flmem_tracee_is_stuck() ||
	    (run->rc <= 0 && !(borrow->result->self_restored && borrow->options->repeatable)))
		return false;
	run->pause_us = !run->follows ? run->backoff_us : due_us ? due_us : BACKOFF_US_MIN;
	if ((borrow->options->single_pass && !run->follows) ||
	    flmem_clock_us() - run->start_us + run->pause_us > borrow->options->timeout_us) {
		run->pause_us = 0;
		run->rc = run->rc < 0 ? run->rc : FLMEM_EUNSAFE;
		return false;
	}
	if (!run->follows)
		run->backoff_us =
			run->backoff_us * 2 < BACKOFF_US_MAX ? run->backoff_us * 2 : BACKOFF_US_MAX;
	return true;
}

/*
 * The first use of a page costs a fault, which a virtual machine may delay. Touch the pages now, so
 * that no thread is held meanwhile.
 */
__attribute__((noinline)) static void fault_in(volatile unsigned char *memory, size_t length)
{
	for (size_t at = 0; at < length; at += FAULT_STEP)
		memory[at] = memory[at];
}

__attribute__((noinline)) static void fault_in_stack(void)
{
	volatile unsigned char below[HOLD_STACK];

	for (size_t at = 0; at < sizeof(below); at += FAULT_STEP)
		below[at] = 0;
}

static void run_on_thread(void *context)
{
	struct borrow_run *run = context;

	fault_in_stack();
	fault_in((volatile unsigned char *)run->borrow, sizeof(*run->borrow));
	fault_in(run->borrow->scratch.bytes, run->borrow->scratch.capacity);
	for (;;) {
		run->borrow->has_fetched = false;
		run->rc = try_borrow(run->borrow);
		if (!passes_again(run) || flmem_tracee_thread_must_exit())
			break;
		flmem_clock_sleep_us(run->pause_us);
	}
	flmem_interrupts_end();
}

/*
 * Runs on a thread that exits afterwards: its exit releases a target thread that must not be
 * stopped.
 */
static int run_in_thread(struct flmem_borrow_state *borrow)
{
	struct borrow_run run = {
		.borrow = borrow, .start_us = flmem_clock_us(), .backoff_us = BACKOFF_US_MIN};

	for (;;) {
		int failed = flmem_attempt_run_on_thread(run_on_thread, &run);

		if (failed)
			return flmem_error_set(borrow->err, FLMEM_EFAILED, failed,
					       "cannot start a thread");
		if (!run.pause_us)
			return run.rc;
		flmem_clock_sleep_us(run.pause_us);
	}
}

static int begin_borrow(struct flmem_borrow_state *borrow, struct flmem_error *err)
{
	int rc;

	borrow->spared = borrow->options->spared ? borrow->options->spared : &borrow->own_spared;
	if (borrow->view->process->mem_fd < 0)
		return flmem_preflight_explain(borrow->view->process, -EACCES, err);
	rc = flmem_preflight_fixed(borrow->view, err);
	borrow->errno_place = flmem_errno_find(borrow->view);
	return rc ? rc : flmem_gadgets_find(borrow->view, &borrow->gadgets, err);
}

int flmem_borrow_run(const struct flmem_view *view, const struct flmem_chain *chain,
		     const struct flmem_borrow_options *options,
		     struct flmem_borrow_result *ret_result, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct flmem_borrow_state *borrow = calloc(1, sizeof(*borrow));
	size_t capacity = FLMEM_SCRATCH_MAX + chain->area.length;
	FLMEM_AUTO_FREE unsigned char *bytes = calloc(1, capacity);
	struct flmem_error local = {0};
	int rc;

	*ret_result = (struct flmem_borrow_result){0};
	if (!borrow || !bytes)
		return flmem_error_nomem(err, "cannot borrow a thread");
	borrow->view = view;
	borrow->options = options;
	borrow->result = ret_result;
	borrow->err = err ? err : &local;
	borrow->scratch.bytes = bytes;
	borrow->scratch.capacity = capacity;
	rc = begin_borrow(borrow, borrow->err);
	if (!rc)
		rc = flmem_chain_code_check(view, chain, borrow->err);
	if (!rc)
		rc = flmem_borrow_wrap(borrow, chain);
	if (!rc)
		rc = flmem_borrow_remember_code(borrow);
	return rc ? rc : run_in_thread(borrow);
}

int flmem_borrow_dry_run(const struct flmem_view *view, const struct flmem_borrow_options *options,
			 struct flmem_borrow_result *ret_result, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct flmem_borrow_state *borrow = calloc(1, sizeof(*borrow));
	struct flmem_error local = {0};
	int rc;

	*ret_result = (struct flmem_borrow_result){0};
	if (!borrow)
		return flmem_error_nomem(err, "cannot borrow a thread");
	borrow->view = view;
	borrow->options = options;
	borrow->result = ret_result;
	borrow->err = err ? err : &local;
	borrow->dry_run = true;
	rc = begin_borrow(borrow, borrow->err);
	return rc ? rc : run_in_thread(borrow);
}

int flmem_borrow_precheck(const struct flmem_view *view, const struct flmem_borrow_options *options,
			  struct flmem_error *err)
{
	FLMEM_AUTO_CANDIDATES struct flmem_candidates found = {0};
	struct flmem_gadgets gadgets = {0};
	const struct flmem_candidate_needs needs = flmem_stopped_thread_needs(options, &gadgets, 0);
	struct flmem_seccomp_calls calls;
	int rc = flmem_preflight_fixed(view, err);

	if (!rc)
		rc = flmem_gadgets_find(view, &gadgets, err);
	if (!rc)
		rc = flmem_preflight_now(view->process, err);
	if (!rc)
		rc = flmem_borrow_check_locks(view->process, options, err);
	if (!rc)
		rc = find_candidates(view, &needs, &found, err);
	if (rc)
		return rc;
	if (found.handling || !found.count)
		return flmem_candidates_refuse(view->process, &found, err);
	calls = flmem_seccomp_calls_of(&found.rows[0], options->syscalls, options->assume_seccomp);
	return flmem_seccomp_check_outside(view->process, found.rows[0].tid, &calls, err);
}
