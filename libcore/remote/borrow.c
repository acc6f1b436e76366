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
#include "proc/maps.h"
#include "proc/process.h"
#include "proc/status.h"
#include "remote/chain_code.h"
#include "remote/gadgets.h"
#include "remote/hold.h"
#include "remote/loan.h"
#include "remote/locks.h"
#include "remote/preflight.h"
#include "remote/priority.h"
#include "remote/rescue.h"
#include "remote/rseq.h"
#include "remote/seccomp.h"
#include "remote/tracee.h"

#define STOP_TIMEOUT_US 200000U
#define TRIES_PER_ROUND 4U
#define BACKOFF_US_MIN	1000U
#define BACKOFF_US_MAX	50000U
#define POLL_US		50U
#define POLL_US_LONG	500U
#define LONG_CALL_US	1000000U
#define RESCUE_US	20000U

/* What trying one thread led to. */
enum attempt {
	ATTEMPT_DONE,
	ATTEMPT_NEXT,	  /* the thread had moved on; another may do */
	ATTEMPT_FILTERED, /* seccomp may not allow this thread the calls; another may do */
	ATTEMPT_FATAL,
};

static int ended(struct flmem_loan *loan)
{
	const bool assumed = loan->options->assume_seccomp;

	return flmem_error_set(loan->err, FLMEM_ENOPROC, 0, "process %d ended during the call%s",
			       (int)loan->view->process->pid,
			       assumed ? "; if one of its seccomp filters killed it, "
					 "--assume-seccomp does not fit this process"
				       : "");
}

static int lost(struct flmem_loan *loan)
{
	loan->result->self_restored = true;
	return flmem_error_set(
		loan->err, FLMEM_EFAILED, 0,
		"the calls have returned, but process %d ran on before flmem got CPU time to read "
		"their results; try again when this machine is less busy",
		(int)loan->view->process->pid);
}

/* True when the thread was taken out of its calls: it waited for who may be waiting for it. */
static bool rescue_if_due(const struct flmem_loan *loan, pid_t tid, uint64_t spent_us,
			  struct flmem_rescue_progress *progress)
{
	const struct flmem_process *process = loan->view->process;

	if (loan->options->finish)
		return false;
	if (flmem_rescue_is_stuck(process, tid, spent_us, progress) &&
	    flmem_rescue_abandon(process, tid, &loan->options->guard, &loan->state))
		return true;
	if (flmem_rescue_is_due(process, tid, loan->state.signal_mask))
		flmem_rescue_signals(process, tid, loan->state.signal_mask);
	return false;
}

static int late(struct flmem_loan *loan, pid_t tid, uint64_t spent_us)
{
	flmem_loan_count_returned(loan);
	return flmem_error_set(loan->err, FLMEM_EFAILED, 0,
			       "the call has not ended after %llu ms; thread %d continues it and "
			       "then restores itself",
			       (unsigned long long)(spent_us / 1000U), (int)tid);
}

static int abandoned(struct flmem_loan *loan, pid_t tid)
{
	return flmem_error_set(
		loan->err, FLMEM_EUNSAFE, 0,
		"a lock of the allocator of process %d was not released because the thread that "
		"holds it makes no progress; the call on thread %d was cancelled; try again",
		(int)loan->view->process->pid, (int)tid);
}

/* Nobody traces the thread meanwhile: what becomes of flmem now does not hold it up. */
static int await(struct flmem_loan *loan, pid_t tid)
{
	uint64_t start = flmem_clock_us(), spent, rescue_us = RESCUE_US;
	struct flmem_rescue_progress activity = {0};
	enum flmem_loan_progress progress;

	while ((progress = flmem_loan_read_results(loan)) == FLMEM_LOAN_RUNNING) {
		spent = flmem_clock_us() - start;
		if (spent > rescue_us && rescue_if_due(loan, tid, spent, &activity))
			return abandoned(loan, tid);
		if (spent > rescue_us)
			rescue_us = spent + RESCUE_US;
		if (spent > loan->options->timeout_us)
			return late(loan, tid, spent);
		flmem_priority_pause(spent, spent < LONG_CALL_US ? POLL_US : POLL_US_LONG);
	}
	if (progress == FLMEM_LOAN_ENDED)
		return ended(loan);
	return progress == FLMEM_LOAN_LOST ? lost(loan) : 0;
}

/* Behind the last call, and not yet its own: where its stack pointer is tells nothing. */
static bool is_parked(const struct flmem_loan *loan, const struct flmem_thread_state *now)
{
	size_t park = loan->chain.count - 1;

	/* The reading of the clock before the park shows before that call has returned. */
	return flmem_arch_is_in_call(now, &loan->chain, park, &loan->scratch, &loan->gadgets) ||
	       flmem_arch_is_in_call(now, &loan->chain, park - 1, &loan->scratch, &loan->gadgets);
}

/*
 * What was written is what the stopped thread finds on its stack: it lives in the address space
 * that was pinned and checked, and not in that of a program that was executed meanwhile.
 */
static bool sees_frames(const struct flmem_loan *loan, pid_t tid)
{
	uintptr_t address = loan->scratch.data + loan->cookie_end;
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, tid, (void *)address, NULL);
	return !errno && memcmp(&word, &loan->cookie, sizeof(word)) == 0;
}

/*
 * The thread waits in the park at the end of its chain, where a second stop finds it. If we come
 * later than its sleep lasts it has restored itself: it is not touched, and what was read of its
 * stack may be anything.
 */
static int give_back(struct flmem_loan *loan, pid_t tid)
{
	FLMEM_AUTO_HOLD struct flmem_hold hold = flmem_hold_begin();
	FLMEM_AUTO_TRACEE struct flmem_tracee tracee = {0};
	struct flmem_thread_state now;

	if (flmem_tracee_seize(&tracee, tid, loan->view->process->pid) ||
	    flmem_tracee_stop(&tracee, STOP_TIMEOUT_US) == FLMEM_TRACEE_EXEC)
		return lost(loan);
	if (!tracee.tid)
		return ended(loan);
	/* The park of another flmem, which borrowed it meanwhile, lies in the same place. */
	if (!tracee.stopped || flmem_arch_read_registers(tid, &now) || !is_parked(loan, &now) ||
	    !sees_frames(loan, tid))
		return lost(loan);
	/* A failure leaves it to its own last frame. */
	tracee.resumable = true;
	(void)flmem_arch_restore(tid, &loan->state);
	flmem_loan_take_results(loan);
	return 0;
}

/* Digits, so that a text in the area can name it. */
static void tell_address(struct flmem_loan *loan)
{
	const struct flmem_chain_area *area = &loan->chain.area;
	char digits[FLMEM_CHAIN_ADDRESS_DIGITS + 1];

	if (!area->tells_address)
		return;
	snprintf(digits, sizeof(digits), "%016llx", (unsigned long long)loan->scratch.area);
	memcpy(loan->scratch.bytes + (loan->scratch.area - loan->scratch.address) +
		       area->address_at,
	       digits, FLMEM_CHAIN_ADDRESS_DIGITS);
}

/* From the stop to the armed thread: everything that can still be called off. */
static int arm(struct flmem_loan *loan, struct flmem_tracee *tracee)
{
	int rc;

	rc = flmem_arch_make_resumable(tracee->tid, &loan->state);
	if (rc)
		return rc;
	tracee->resumable = true;
	rc = flmem_arch_read_rest(tracee->tid, &loan->state);
	if (rc)
		return rc;
	if (loan->options->finish)
		flmem_arch_finish_call(&loan->state);
	flmem_loan_renew_cookie(loan);
	rc = flmem_arch_build(&loan->state, &loan->chain, loan->gadgets.restorer, &loan->scratch,
			      loan->err);
	if (rc)
		return -EFAULT;
	if (!flmem_chain_code_is_there(loan->view->process, &loan->chain, &loan->code))
		return -EFAULT;
	tell_address(loan);
	rc = flmem_process_write_memory(loan->view->process, loan->scratch.address,
					loan->scratch.bytes, loan->scratch.length);
	if (!rc && (!sees_frames(loan, tracee->tid) || flmem_attempt_is_lost()))
		rc = -ESRCH;
	return rc ? rc
		  : flmem_arch_arm(tracee->tid, &loan->state, &loan->scratch,
				   loan->gadgets.restorer);
}

/* The process as a whole tells only of the tracer of its main thread. */
static bool is_traced(const struct flmem_loan *loan, pid_t tid)
{
	struct flmem_status status;

	return flmem_status_read_thread(loan->view->process, tid, &status) == 0 &&
	       !status.tracer.unknown && status.tracer.value;
}

static enum attempt refuse_seize(struct flmem_loan *loan, pid_t tid, int rc)
{
	if (rc == -ESRCH)
		return ATTEMPT_NEXT;
	if (rc == -EPERM && tid != loan->view->process->pid && is_traced(loan, tid)) {
		loan->refused = "is traced";
		loan->refused_tid = tid;
		return ATTEMPT_NEXT;
	}
	flmem_preflight_explain(loan->view->process, rc, loan->err);
	return ATTEMPT_FATAL;
}

/*
 * C libraries put the control block of a thread that they start at the upper end of its stack. A
 * stack without one was made by the program itself, and nobody knows where it ends.
 */
static bool is_on_own_stack(const struct flmem_loan *loan, const struct flmem_candidate *candidate)
{
	const struct flmem_map *stack = flmem_maps_find(loan->view->maps, candidate->at.sp);
	uint64_t block = flmem_arch_thread_pointer(&loan->state);

	return candidate->leader || (stack && block > candidate->at.sp && block < stack->end);
}

/* What can only be told when the thread stands still. */
static bool is_accepted(struct flmem_loan *loan, const struct flmem_candidate *candidate)
{
	const struct flmem_candidate_filter *filter = loan->options->filter;
	uint64_t pointer = flmem_arch_thread_pointer(&loan->state);
	const char *reason = NULL;

	if (!is_on_own_stack(loan, candidate))
		reason = "runs on a stack that the program allocated itself";
	else if (!filter || filter->accepts(filter->context, candidate, pointer, &reason))
		return true;
	loan->refused = reason;
	loan->refused_tid = candidate->tid;
	return false;
}

static struct flmem_candidate_needs needs_of(const struct flmem_borrow_options *options,
					     const struct flmem_gadgets *gadgets, size_t area_bytes)
{
	return (struct flmem_candidate_needs){
		.guard = &options->guard,
		.gadgets = gadgets,
		.filter = options->filter,
		.area_bytes = area_bytes,
		.stack_bytes = options->stack_bytes,
		.only = options->only,
	};
}

/* Remembered, so that its timeout starts again once and not in each round. */
static bool refuse_timed(struct flmem_loan *loan, pid_t tid)
{
	if (loan->timed_count < FLMEM_ARRAY_SIZE(loan->timed))
		loan->timed[loan->timed_count++] = tid;
	loan->refused = "is in a wait with a timeout of unknown length, which would start again";
	loan->refused_tid = tid;
	return false;
}

static bool is_known_timed(const struct flmem_loan *loan, pid_t tid)
{
	for (size_t i = 0; i < loan->timed_count; i++)
		if (loan->timed[i] == tid)
			return true;
	return false;
}

/*
 * A computing thread is nowhere before it is stopped; a blocked one must still be where it was. Its
 * stack is checked again: it may have come back to the same call from elsewhere.
 */
static bool is_in_place(struct flmem_loan *loan, struct flmem_candidate *candidate)
{
	const struct flmem_candidate_needs needs =
		needs_of(loan->options, &loan->gadgets, loan->chain.area.length);

	if (!candidate->computes && !flmem_arch_interrupted_in(&loan->state, &candidate->at))
		return false;
	if (!candidate->computes && candidate->wait.eintr_refutes &&
	    flmem_arch_gave_eintr(&loan->state))
		return refuse_timed(loan, candidate->tid);
	candidate->at.sp = flmem_arch_sp(&loan->state);
	candidate->at.pc = flmem_arch_pc(&loan->state);
	loan->refused_tid = candidate->tid;
	if (candidate->computes &&
	    (!flmem_arch_in_program(&loan->state) ||
	     flmem_rseq_is_inside(loan->view->process, candidate->tid, candidate->at.pc)))
		loan->refused = "is in a system call or a restartable sequence";
	else
		loan->refused = flmem_candidate_check_stack(loan->view, &needs, candidate);
	return !loan->refused;
}

/* The thread that has this number now is one of the process; it keeps the number while seized. */
static bool is_of_process(const struct flmem_loan *loan, pid_t tid)
{
	char name[32];

	snprintf(name, sizeof(name), "task/%d", (int)tid);
	return faccessat(loan->view->process->dirfd, name, F_OK, 0) == 0;
}

/*
 * The thread went to sleep only once since it was found: for the stop. One that was awake in
 * between may have sent a signal whose handler blocks another thread inside the allocator until
 * this one resumes it.
 */
static bool has_slept(struct flmem_loan *loan, const struct flmem_candidate *candidate,
		      const struct flmem_status *status)
{
	if (candidate->computes || (!status->voluntary_switches.unknown &&
				    status->voluntary_switches.value == candidate->sleeps + 1))
		return true;
	loan->refused = "was awake for a moment while flmem read the other threads";
	loan->refused_tid = candidate->tid;
	return false;
}

/* What is known of the stopped thread: that it is where it was, and may be borrowed there. */
static enum attempt check_stopped(struct flmem_loan *loan, struct flmem_candidate *candidate,
				  const struct flmem_seccomp_calls *calls, int status_fd)
{
	struct flmem_status status;

	/* The kernel answers the first request when the thread has left its processor. */
	if (!is_of_process(loan, candidate->tid) ||
	    flmem_arch_read_registers(candidate->tid, &loan->state) ||
	    flmem_status_read_open(status_fd, &status) || !is_in_place(loan, candidate) ||
	    !has_slept(loan, candidate, &status) || !is_accepted(loan, candidate))
		return ATTEMPT_NEXT;
	if (flmem_seccomp_check_thread(loan->view->process->pid, candidate->tid, &status, calls,
				       loan->err))
		return ATTEMPT_FILTERED;
	return ATTEMPT_DONE;
}

/* Stops the thread, points it at its calls and lets go of it. */
static enum attempt set_off(struct flmem_loan *loan, struct flmem_candidate *candidate,
			    const struct flmem_seccomp_calls *calls, uint64_t *ret_start_ns)
{
	FLMEM_AUTO_HOLD struct flmem_hold hold = flmem_hold_begin();
	FLMEM_AUTO_CLOSE int status_fd =
		flmem_status_open_thread(loan->view->process, candidate->tid);
	FLMEM_AUTO_TRACEE struct flmem_tracee tracee = {0};
	enum attempt attempt;
	int rc = flmem_tracee_seize(&tracee, candidate->tid, loan->view->process->pid);

	if (rc)
		return refuse_seize(loan, candidate->tid, rc);
	*ret_start_ns = flmem_clock_ns();
	if (flmem_tracee_stop(&tracee, STOP_TIMEOUT_US) != FLMEM_TRACEE_STOPPED)
		return ATTEMPT_NEXT;
	attempt = check_stopped(loan, candidate, calls, status_fd);
	if (attempt == ATTEMPT_DONE && arm(loan, &tracee))
		attempt = ATTEMPT_NEXT;
	return attempt;
}

/* The thread makes its calls by itself; takes their results and restores it. */
static enum attempt see_through(struct flmem_loan *loan, const struct flmem_candidate *candidate,
				uint64_t start_ns)
{
	int rc;

	loan->result->started = true;
	loan->result->tid = candidate->tid;
	loan->result->waited_in = candidate->wait.name;
	loan->result->late_us = candidate->wait.late_us;
	rc = await(loan, candidate->tid);
	if (!rc)
		rc = flmem_loan_read_area(loan) ? ended(loan) : give_back(loan, candidate->tid);
	loan->result->stopped_ns = flmem_clock_ns() - start_ns;
	return rc ? ATTEMPT_FATAL : ATTEMPT_DONE;
}

static enum attempt try_thread(struct flmem_loan *loan, struct flmem_candidate *candidate)
{
	const struct flmem_seccomp_calls calls = flmem_seccomp_calls_of(
		candidate, loan->options->syscalls, loan->options->assume_seccomp);
	FLMEM_AUTO_PRIORITY struct flmem_priority priority = {0};
	enum attempt attempt;
	uint64_t start_ns = 0;

	if (flmem_seccomp_check_outside(loan->view->process, candidate->tid, &calls, loan->err))
		return ATTEMPT_FILTERED;
	priority = flmem_priority_raise(loan->view->process, candidate->tid);
	attempt = set_off(loan, candidate, &calls, &start_ns);
	return attempt == ATTEMPT_DONE ? see_through(loan, candidate, start_ns) : attempt;
}

static int find_candidates(const struct flmem_view *view, const struct flmem_candidate_needs *needs,
			   struct flmem_candidates *ret_found, struct flmem_error *err)
{
	int rc = flmem_candidates_find(view, needs, ret_found);

	return rc ? flmem_preflight_explain(view->process, rc, err) : 0;
}

/*
 * The one thread that is asked for, caught while it runs: stopped in a system call it might get an
 * EINTR out of that. 1 when it was not where it may be borrowed.
 */
static int try_computing(struct flmem_loan *loan)
{
	pid_t tid = loan->options->computing;
	struct flmem_candidate row = {
		.tid = tid, .computes = true, .leader = tid == loan->view->process->pid};
	enum attempt attempt = ATTEMPT_NEXT;
	struct flmem_task_wait wait;

	loan->refused = "is not running now";
	flmem_error_clear(loan->err);
	if (flmem_task_read_wait(loan->view->process, tid, &wait) == 0)
		attempt = try_thread(loan, &row);
	if (attempt == ATTEMPT_NEXT)
		flmem_error_set(loan->err, FLMEM_EUNSAFE, 0,
				"thread %d of process %d cannot be borrowed now: it %s; try again "
				"or give a longer --timeout",
				(int)tid, (int)loan->view->process->pid,
				loan->refused ? loan->refused
					      : "left its system call before it could be stopped");
	return attempt == ATTEMPT_DONE ? 0 : attempt == ATTEMPT_NEXT ? 1 : loan->err->code;
}

/* One look at all threads; 1 when none could be borrowed now. */
static int try_round(struct flmem_loan *loan)
{
	FLMEM_AUTO_CANDIDATES struct flmem_candidates found = {0};
	const struct flmem_candidate_needs needs =
		needs_of(loan->options, &loan->gadgets, loan->chain.area.length);
	struct flmem_error filtered = {0};
	int rc = find_candidates(loan->view, &needs, &found, loan->err);

	if (rc)
		return rc;
	if (found.handling) {
		flmem_candidates_refuse(loan->view->process, &found, loan->err);
		return 1;
	}
	for (size_t i = 0, tries = 0; i < found.count && tries < TRIES_PER_ROUND; i++) {
		enum attempt attempt;

		if (is_known_timed(loan, found.rows[i].tid))
			continue;
		tries++;
		flmem_error_clear(loan->err);
		attempt = try_thread(loan, &found.rows[i]);
		if (attempt == ATTEMPT_DONE || attempt == ATTEMPT_FATAL)
			return attempt == ATTEMPT_DONE ? 0 : loan->err->code;
		if (attempt == ATTEMPT_FILTERED)
			filtered = *loan->err;
	}
	if (filtered.code) {
		*loan->err = filtered;
		return filtered.code;
	}
	if (loan->refused) {
		found.rejected = loan->refused;
		found.rejected_tid = loan->refused_tid;
	}
	flmem_candidates_refuse(loan->view->process, &found, loan->err);
	return 1;
}

static int try_once(struct flmem_loan *loan)
{
	int rc = flmem_preflight_now(loan->view->process, loan->err);

	if (!rc)
		rc = flmem_locks_check(loan->view->process, &loan->options->guard, loan->err);
	if (rc)
		return rc == FLMEM_EUNSAFE ? 1 : rc;
	*loan->result = (struct flmem_borrow_result){0};
	return loan->options->computing ? try_computing(loan) : try_round(loan);
}

static int run(struct flmem_loan *loan)
{
	uint64_t start = flmem_clock_us(), backoff = BACKOFF_US_MIN;

	for (;;) {
		int rc = try_once(loan);

		if (rc <= 0 && !(loan->result->self_restored && loan->options->repeatable))
			return rc;
		if (loan->options->look_once ||
		    flmem_clock_us() - start + backoff > loan->options->timeout_us)
			return rc < 0 ? rc : FLMEM_EUNSAFE;
		flmem_clock_sleep_us(backoff);
		backoff = backoff * 2 < BACKOFF_US_MAX ? backoff * 2 : BACKOFF_US_MAX;
	}
}

int flmem_borrow_run(const struct flmem_view *view, const struct flmem_chain *chain,
		     const struct flmem_borrow_options *options,
		     struct flmem_borrow_result *ret_result, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct flmem_loan *loan = calloc(1, sizeof(*loan));
	size_t capacity = FLMEM_SCRATCH_MAX + chain->area.length;
	FLMEM_AUTO_FREE unsigned char *bytes = malloc(capacity);
	struct flmem_error local = {0};
	int rc;

	*ret_result = (struct flmem_borrow_result){0};
	if (!loan || !bytes)
		return flmem_error_nomem(err, "cannot borrow a thread");
	loan->view = view;
	loan->options = options;
	loan->result = ret_result;
	loan->err = err ? err : &local;
	loan->scratch.bytes = bytes;
	loan->scratch.capacity = capacity;
	if (view->process->mem_fd < 0)
		return flmem_preflight_explain(view->process, -EACCES, loan->err);
	rc = flmem_preflight_fixed(view, loan->err);
	if (!rc)
		rc = flmem_gadgets_find(view, &loan->gadgets, loan->err);
	if (!rc)
		rc = flmem_loan_wrap(loan, chain);
	if (!rc)
		rc = flmem_loan_remember_code(loan);
	return rc ? rc : run(loan);
}

int flmem_borrow_plan(const struct flmem_view *view, const struct flmem_borrow_options *options,
		      struct flmem_borrow_result *ret_result, struct flmem_error *err)
{
	FLMEM_AUTO_CANDIDATES struct flmem_candidates found = {0};
	struct flmem_gadgets gadgets = {0};
	const struct flmem_candidate_needs needs = needs_of(options, &gadgets, 0);
	struct flmem_seccomp_calls calls;
	int rc = flmem_preflight_fixed(view, err);

	*ret_result = (struct flmem_borrow_result){0};
	if (!rc)
		rc = flmem_gadgets_find(view, &gadgets, err);
	if (!rc)
		rc = flmem_preflight_now(view->process, err);
	if (!rc)
		rc = find_candidates(view, &needs, &found, err);
	if (rc)
		return rc;
	if (found.handling || !found.count)
		return flmem_candidates_refuse(view->process, &found, err);
	calls = flmem_seccomp_calls_of(&found.rows[0], options->syscalls, options->assume_seccomp);
	rc = flmem_seccomp_check_outside(view->process, found.rows[0].tid, &calls, err);
	if (rc)
		return rc;
	ret_result->tid = found.rows[0].tid;
	ret_result->waited_in = found.rows[0].wait.name;
	ret_result->late_us = found.rows[0].wait.late_us;
	return 0;
}
