/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/borrow.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "proc/status.h"
#include "remote/chain_code.h"
#include "remote/gadgets.h"
#include "remote/locks.h"
#include "remote/preflight.h"
#include "remote/rseq.h"
#include "remote/seccomp.h"
#include "remote/tracee.h"

#define STOP_TIMEOUT_US 200000U
#define PARK_NS		50000000 /* how long the thread waits for us at the end of the chain */
#define PARK_OWN_S	2
#define TRIES_PER_ROUND 4U
#define BACKOFF_US_MIN	1000U
#define BACKOFF_US_MAX	50000U
#define SPIN_US		2000U
#define POLL_US		50U
#define POLL_US_LONG	500U
#define LONG_CALL_US	1000000U

/* What trying one thread led to. */
enum attempt {
	ATTEMPT_DONE,
	ATTEMPT_NEXT, /* the thread had moved on; another may do */
	ATTEMPT_FATAL,
};

/* Everything about one run; lives on the heap because of the state and the scratch area. */
struct loan {
	const struct flmem_view *view;
	const struct flmem_borrow_options *options;
	struct flmem_borrow_result *result;
	struct flmem_error *err;
	struct flmem_gadgets gadgets;
	const char *refused; /* static: why a thread was let go again, or NULL */
	pid_t refused_tid;
	bool check_seccomp;	  /* the filters of the thread have to be read */
	struct flmem_chain chain; /* the caller's calls with the clock readings around them */
	size_t spans;	 /* between the clock readings: the calls, or all of them together */
	uint64_t clocks; /* offset of the clock readings in the chain's data */
	uint64_t cookie; /* at the end of the data: nothing has overwritten it */
	uint64_t cookie_end;
	struct flmem_chain_code code;
	struct flmem_thread_state state;
	struct flmem_scratch scratch;
	unsigned char seen[FLMEM_CHAIN_DATA];
};

static struct flmem_call *add_syscall(struct loan *loan, long number)
{
	struct flmem_call *call =
		flmem_chain_add(&loan->chain, "system call", loan->gadgets.syscall);

	call->number = (uint64_t)number;
	return call;
}

static void add_clock_reading(struct loan *loan, size_t index)
{
	struct flmem_call *call = add_syscall(loan, SYS_clock_gettime);

	call->args[0] = CLOCK_MONOTONIC;
	call->args[1] = loan->clocks + index * sizeof(struct timespec);
	call->data_args = 2U;
}

static void add_park(struct loan *loan)
{
	bool own = loan->options->finish; /* keeps nobody waiting */
	const struct timespec time = {own ? PARK_OWN_S : 0, own ? 0 : PARK_NS};
	uint64_t offset = flmem_chain_put(&loan->chain, &time, sizeof(time));
	struct flmem_call *call = add_syscall(loan, SYS_nanosleep);

	call->args[0] = offset;
	call->data_args = 1U;
}

/* The caller's chain, each call (or all) between two readings of the clock, then the park. */
static int wrap_chain(struct loan *loan, const struct flmem_chain *chain)
{
	struct flmem_chain *whole = &loan->chain;
	size_t spans = chain->timed_as_one ? 1 : chain->count;

	if (chain->overflow || !chain->count || spans > FLMEM_BORROW_CALLS)
		return flmem_error_set(loan->err, FLMEM_EFAILED, 0, "the calls do not fit");
	if (getrandom(&loan->cookie, sizeof(loan->cookie), GRND_NONBLOCK) < 0)
		loan->cookie = flmem_clock_ns();
	/* The caller's data keeps its offsets: it comes first. */
	memcpy(whole->data, chain->data, chain->data_length);
	whole->data_length = chain->data_length;
	whole->area = chain->area;
	loan->spans = spans;
	loan->clocks = flmem_chain_put(whole, NULL, (spans + 1) * sizeof(struct timespec));
	add_clock_reading(loan, 0);
	for (size_t i = 0; i < chain->count; i++) {
		*flmem_chain_add(whole, NULL, 0) = chain->calls[i];
		if (!chain->timed_as_one)
			add_clock_reading(loan, i + 1);
	}
	if (chain->timed_as_one)
		add_clock_reading(loan, 1);
	add_park(loan);
	loan->cookie_end = flmem_chain_put(whole, &loan->cookie, sizeof(loan->cookie));
	return whole->overflow
		       ? flmem_error_set(loan->err, FLMEM_EFAILED, 0, "the calls do not fit")
		       : 0;
}

static int remember_code(struct loan *loan)
{
	int rc = flmem_chain_code_read(loan->view->process, &loan->chain, &loan->code);

	if (rc == -EFAULT)
		return flmem_error_set(loan->err, FLMEM_EUNSAFE, 0,
				       "process %d has changed while it was looked at: what was to "
				       "be called is not there any more; try again",
				       (int)loan->view->process->pid);
	return rc ? flmem_preflight_explain(loan->view->process, rc, loan->err) : 0;
}

static struct timespec clock_reading(const struct loan *loan, size_t index)
{
	struct timespec time;

	memcpy(&time, loan->seen + loan->clocks + index * sizeof(time), sizeof(time));
	return time;
}

static uint64_t elapsed_ns(struct timespec from, struct timespec to)
{
	int64_t ns = (to.tv_sec - from.tv_sec) * 1000000000 + (to.tv_nsec - from.tv_nsec);

	return ns > 0 ? (uint64_t)ns : 0;
}

enum progress {
	PROGRESS_RUNNING,
	PROGRESS_FINISHED, /* the last reading of the clock is there: all calls have returned */
	PROGRESS_LOST,	   /* the thread has restored itself and used its stack again */
};

static enum progress look_at_data(struct loan *loan)
{
	struct timespec last;

	if (flmem_process_read_memory(loan->view->process, loan->scratch.data, loan->seen,
				      loan->chain.data_length))
		return PROGRESS_RUNNING;
	if (memcmp(loan->seen + loan->cookie_end, &loan->cookie, sizeof(loan->cookie)) != 0)
		return PROGRESS_LOST;
	last = clock_reading(loan, loan->spans);
	return last.tv_sec || last.tv_nsec ? PROGRESS_FINISHED : PROGRESS_RUNNING;
}

static void take_results(struct loan *loan)
{
	struct flmem_borrow_result *result = loan->result;

	for (size_t i = 0; i < loan->spans; i++)
		result->call_ns[i] = elapsed_ns(clock_reading(loan, i), clock_reading(loan, i + 1));
	memcpy(result->data, loan->seen, sizeof(result->data));
	result->complete = true;
}

/* The area as the calls have left it, in the caller's own bytes. */
static int read_area(const struct loan *loan)
{
	const struct flmem_chain_area *area = &loan->chain.area;

	return area->length ? flmem_process_read_memory(loan->view->process, loan->scratch.area,
							area->bytes, area->length)
			    : 0;
}

/* How far a chain has come that is not done. */
static void count_returned(struct loan *loan)
{
	for (size_t i = 1; i <= loan->spans; i++) {
		struct timespec time = clock_reading(loan, i);

		if (time.tv_sec || time.tv_nsec)
			loan->result->returned = i;
	}
}

static int ended(struct loan *loan)
{
	return flmem_error_set(loan->err, FLMEM_ENOPROC, 0, "process %d ended during the call",
			       (int)loan->view->process->pid);
}

static int lost(struct loan *loan)
{
	loan->result->self_restored = true;
	return flmem_error_set(loan->err, FLMEM_EFAILED, 0,
			       "the calls have returned, but flmem had no processor for so long "
			       "that process %d went on before it could read what came of them; "
			       "try again when this machine is less busy",
			       (int)loan->view->process->pid);
}

/*
 * Waits until the calls have returned. Short calls are awaited spinning, since the thread stands
 * still from then until we restore it.
 */
static int await(struct loan *loan, struct flmem_tracee *tracee)
{
	uint64_t start = flmem_clock_us(), spent;
	enum progress progress;

	while ((progress = look_at_data(loan)) == PROGRESS_RUNNING) {
		enum flmem_tracee_event event = flmem_tracee_poll(tracee);

		if (event == FLMEM_TRACEE_GONE)
			return ended(loan);
		if (event == FLMEM_TRACEE_GROUP)
			flmem_tracee_listen(tracee);
		else if (event == FLMEM_TRACEE_STOPPED)
			flmem_tracee_continue(tracee);
		spent = flmem_clock_us() - start;
		if (spent > loan->options->timeout_us) {
			count_returned(loan);
			return flmem_error_set(loan->err, FLMEM_EFAILED, 0,
					       "the call has not ended after %llu ms; thread %d "
					       "goes on with it and then restores itself",
					       (unsigned long long)(spent / 1000U),
					       (int)tracee->tid);
		}
		if (spent < SPIN_US)
			sched_yield();
		else
			flmem_clock_sleep_us(spent < LONG_CALL_US ? POLL_US : POLL_US_LONG);
	}
	return progress == PROGRESS_LOST ? lost(loan) : 0;
}

/* Behind the last call, and not yet its own: where its stack pointer is tells nothing. */
static bool is_parked(const struct loan *loan, const struct flmem_thread_state *now)
{
	size_t park = loan->chain.count - 1;

	/* The reading of the clock before the park shows before that call has returned. */
	return flmem_arch_is_in_call(now, &loan->chain, park, &loan->scratch, &loan->gadgets) ||
	       flmem_arch_is_in_call(now, &loan->chain, park - 1, &loan->scratch, &loan->gadgets);
}

/*
 * The thread stands in the park at the end of its chain. If we come later than its sleep lasts it
 * has restored itself: it is left alone, and what was read of its stack may be anything.
 */
static int give_back(struct loan *loan, struct flmem_tracee *tracee)
{
	struct flmem_thread_state now;

	if (flmem_tracee_stop(tracee, STOP_TIMEOUT_US) == FLMEM_TRACEE_GONE)
		return ended(loan);
	if (!tracee->stopped || flmem_arch_read_registers(tracee->tid, &now) ||
	    !is_parked(loan, &now))
		return lost(loan);
	/* A failure leaves it to its own last frame. */
	tracee->resumable = flmem_arch_restore(tracee->tid, &loan->state) == 0;
	take_results(loan);
	return 0;
}

/* Digits, so that a text in the area can name it. */
static void tell_address(struct loan *loan)
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
static int arm(struct loan *loan, struct flmem_tracee *tracee)
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
	rc = flmem_arch_build(&loan->state, &loan->chain, loan->gadgets.restorer, &loan->scratch,
			      loan->err);
	if (rc)
		return -EFAULT;
	if (!flmem_chain_code_is_there(loan->view->process, &loan->chain, &loan->code))
		return -EFAULT;
	tell_address(loan);
	rc = flmem_process_write_memory(loan->view->process, loan->scratch.address,
					loan->scratch.bytes, loan->scratch.length);
	if (rc)
		return rc;
	rc = flmem_arch_arm(tracee->tid, &loan->state, &loan->scratch, loan->gadgets.restorer);
	return rc ? rc : flmem_tracee_continue(tracee);
}

/* The process as a whole tells only of the tracer of its main thread. */
static bool is_traced(const struct loan *loan, pid_t tid)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_status status;
	char name[40];

	snprintf(name, sizeof(name), "task/%d/status", (int)tid);
	return flmem_process_read(loan->view->process, name, &text) == 0 &&
	       flmem_status_parse(text.data, &status, NULL) == 0 && !status.tracer.unknown &&
	       status.tracer.value;
}

static enum attempt refuse_seize(struct loan *loan, pid_t tid, int rc)
{
	if (rc == -ESRCH)
		return ATTEMPT_NEXT;
	if (rc == -EPERM && tid != loan->view->process->pid && is_traced(loan, tid)) {
		loan->refused = "is being traced";
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
static bool is_on_own_stack(const struct loan *loan, const struct flmem_candidate *candidate)
{
	const struct flmem_map *stack = flmem_maps_find(loan->view->maps, candidate->at.sp);
	uint64_t block = flmem_arch_thread_pointer(&loan->state);

	return candidate->leader || (stack && block > candidate->at.sp && block < stack->end);
}

/* What can only be told when the thread stands still. */
static bool is_accepted(struct loan *loan, const struct flmem_candidate *candidate)
{
	const struct flmem_candidate_filter *filter = loan->options->filter;
	uint64_t pointer = flmem_arch_thread_pointer(&loan->state);
	const char *reason = NULL;

	if (!is_on_own_stack(loan, candidate))
		reason = "runs on a stack that the program made itself";
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

/* A computing thread is nowhere before it is stopped; a blocked one must still be where it was. */
static bool is_in_place(struct loan *loan, struct flmem_candidate *candidate)
{
	const struct flmem_candidate_needs needs =
		needs_of(loan->options, &loan->gadgets, loan->chain.area.length);

	if (!candidate->computes)
		return flmem_arch_interrupted_in(&loan->state, &candidate->at);
	candidate->at.sp = flmem_arch_sp(&loan->state);
	candidate->at.pc = flmem_arch_pc(&loan->state);
	loan->refused_tid = candidate->tid;
	if (!flmem_arch_in_program(&loan->state) ||
	    flmem_rseq_is_inside(loan->view->process, candidate->tid, candidate->at.pc))
		loan->refused = "is in a system call or a restartable sequence";
	else
		loan->refused = flmem_candidate_check_computing(loan->view, &needs, candidate);
	return !loan->refused;
}

static enum attempt try_thread(struct loan *loan, struct flmem_candidate *candidate)
{
	FLMEM_AUTO_TIMER_SLACK const unsigned long slack = flmem_clock_sharpen();
	FLMEM_AUTO_TRACEE struct flmem_tracee tracee = {0};
	uint64_t start;
	int rc = flmem_tracee_seize(&tracee, candidate->tid);

	if (rc)
		return refuse_seize(loan, candidate->tid, rc);
	start = flmem_clock_ns();
	if (flmem_tracee_stop(&tracee, STOP_TIMEOUT_US) != FLMEM_TRACEE_STOPPED)
		return ATTEMPT_NEXT;
	if (flmem_arch_read_registers(tracee.tid, &loan->state) || !is_in_place(loan, candidate) ||
	    !is_accepted(loan, candidate))
		return ATTEMPT_NEXT;
	if (loan->check_seccomp && flmem_seccomp_check_thread(tracee.tid, loan->err)) {
		flmem_error_prefix(loan->err, "process %d", (int)loan->view->process->pid);
		return ATTEMPT_FATAL;
	}
	if (arm(loan, &tracee))
		return ATTEMPT_NEXT;
	loan->result->started = true;
	loan->result->tid = candidate->tid;
	loan->result->waited_in = candidate->wait.name;
	loan->result->late_us = candidate->wait.late_us;
	rc = await(loan, &tracee);
	if (!rc)
		rc = read_area(loan) ? ended(loan) : give_back(loan, &tracee);
	flmem_tracee_release(&tracee);
	loan->result->stopped_ns = flmem_clock_ns() - start;
	return rc ? ATTEMPT_FATAL : ATTEMPT_DONE;
}

static int no_thread(const struct flmem_view *view, const struct flmem_candidates *found,
		     struct flmem_error *err)
{
	int pid = (int)view->process->pid;

	if (found->rejected)
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "no thread of process %d can be borrowed now: of %zu, %zu "
				       "are running, and thread %d %s; try again or give a longer "
				       "--timeout",
				       pid, found->threads, found->running,
				       (int)found->rejected_tid, found->rejected);
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "no thread of process %d can be borrowed now: all %zu are running; "
			       "try again or give a longer --timeout",
			       pid, found->threads);
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
static int try_computing(struct loan *loan)
{
	pid_t tid = loan->options->computing;
	struct flmem_candidate row = {
		.tid = tid, .computes = true, .leader = tid == loan->view->process->pid};
	enum attempt attempt = ATTEMPT_NEXT;
	struct flmem_task_wait wait;

	loan->refused = "is not computing now";
	flmem_error_clear(loan->err);
	if (flmem_task_read_wait(loan->view->process, tid, &wait) == 0)
		attempt = try_thread(loan, &row);
	if (attempt == ATTEMPT_NEXT)
		flmem_error_set(loan->err, FLMEM_EUNSAFE, 0,
				"thread %d of process %d cannot be borrowed now: it %s; try again "
				"or give a longer --timeout",
				(int)tid, (int)loan->view->process->pid,
				loan->refused ? loan->refused : "went on meanwhile");
	return attempt == ATTEMPT_DONE ? 0 : attempt == ATTEMPT_FATAL ? loan->err->code : 1;
}

/* One look at all threads; 1 when none could be borrowed now. */
static int try_round(struct loan *loan)
{
	FLMEM_AUTO_CANDIDATES struct flmem_candidates found = {0};
	const struct flmem_candidate_needs needs =
		needs_of(loan->options, &loan->gadgets, loan->chain.area.length);
	int rc = find_candidates(loan->view, &needs, &found, loan->err);

	if (rc)
		return rc;
	for (size_t i = 0; i < found.count && i < TRIES_PER_ROUND; i++) {
		flmem_error_clear(loan->err);
		switch (try_thread(loan, &found.rows[i])) {
		case ATTEMPT_DONE:
			return 0;
		case ATTEMPT_FATAL:
			return loan->err->code;
		case ATTEMPT_NEXT:
			break;
		}
	}
	if (loan->refused) {
		found.rejected = loan->refused;
		found.rejected_tid = loan->refused_tid;
	}
	no_thread(loan->view, &found, loan->err);
	return 1;
}

static int try_once(struct loan *loan)
{
	int rc = flmem_preflight_now(loan->view->process, loan->err);

	if (!rc)
		rc = flmem_locks_check(loan->view->process, &loan->options->guard, loan->err);
	if (rc)
		return rc == FLMEM_EUNSAFE ? 1 : rc;
	*loan->result = (struct flmem_borrow_result){0};
	return loan->options->computing ? try_computing(loan) : try_round(loan);
}

static int run(struct loan *loan)
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
	FLMEM_AUTO_FREE struct loan *loan = calloc(1, sizeof(*loan));
	size_t capacity = FLMEM_SCRATCH_MAX + chain->area.length;
	FLMEM_AUTO_FREE unsigned char *bytes = malloc(capacity);
	struct flmem_error local = {0};
	int rc;

	*ret_result = (struct flmem_borrow_result){0};
	if (!loan || !bytes)
		return flmem_error_set(err, FLMEM_EFAILED, ENOMEM, "cannot borrow a thread");
	loan->view = view;
	loan->options = options;
	loan->result = ret_result;
	loan->err = err ? err : &local;
	loan->scratch.bytes = bytes;
	loan->scratch.capacity = capacity;
	rc = flmem_preflight_fixed(view, &loan->check_seccomp, loan->err);
	if (!rc)
		rc = flmem_gadgets_find(view, &loan->gadgets, loan->err);
	if (!rc)
		rc = wrap_chain(loan, chain);
	if (!rc)
		rc = remember_code(loan);
	return rc ? rc : run(loan);
}

int flmem_borrow_plan(const struct flmem_view *view, const struct flmem_borrow_options *options,
		      struct flmem_borrow_result *ret_result, struct flmem_error *err)
{
	FLMEM_AUTO_CANDIDATES struct flmem_candidates found = {0};
	struct flmem_gadgets gadgets = {0};
	const struct flmem_candidate_needs needs = needs_of(options, &gadgets, 0);
	bool check_seccomp;
	int rc = flmem_preflight_fixed(view, &check_seccomp, err);

	*ret_result = (struct flmem_borrow_result){0};
	if (!rc)
		rc = flmem_gadgets_find(view, &gadgets, err);
	if (!rc)
		rc = flmem_preflight_now(view->process, err);
	if (!rc)
		rc = find_candidates(view, &needs, &found, err);
	if (rc)
		return rc;
	if (!found.count)
		return no_thread(view, &found, err);
	ret_result->tid = found.rows[0].tid;
	ret_result->waited_in = found.rows[0].wait.name;
	ret_result->late_us = found.rows[0].wait.late_us;
	return 0;
}
