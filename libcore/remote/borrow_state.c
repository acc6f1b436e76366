/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/borrow_state.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "proc/files/read_hazard.h"
#include "proc/process.h"
#include "remote/checks/locks.h"
#include "remote/checks/preflight.h"

/*
 * Time that the thread sleeps at the end of the chain. A thread that flmem has started delays no
 * other.
 */
#define PARK_NS	   50000000
#define PARK_OWN_S 2

/*
 * Time for which a check of the process stays valid. The check itself may take 20 ms for a large
 * heap.
 */
#define FRESH_US 60000U

/* Times that one run fetches memory: each of them stops a thread once more. */
#define FETCHES_MAX 8U

/* SIGSETXID of glibc (nptl/pthreadP.h): setuid() waits until every thread has handled it. */
#define SETXID_BIT (UINT64_C(1) << 32)

static struct flmem_call *add_syscall(struct flmem_borrow_state *borrow, long number)
{
	struct flmem_call *call =
		flmem_chain_add(&borrow->chain, "system call", borrow->gadgets.syscall);

	call->number = (uint64_t)number;
	return call;
}

static void add_clock_reading(struct flmem_borrow_state *borrow, size_t index)
{
	struct flmem_call *call = add_syscall(borrow, SYS_clock_gettime);

	call->args[0] = CLOCK_MONOTONIC;
	call->args[1] = borrow->clocks + index * sizeof(struct timespec);
	call->data_args = 2U;
}

/*
 * A thread inherits PR_SET_TSC from its creator: reading the time stamp counter may raise SIGSEGV,
 * and clock_gettime() reads it in user space. This call resets it before the first clock reading
 * and does not count among the calls.
 */
static void add_permission_for_clocks(struct flmem_borrow_state *borrow)
{
	struct flmem_call *call = add_syscall(borrow, SYS_prctl);

	call->args[0] = PR_SET_TSC;
	call->args[1] = PR_TSC_ENABLE;
}

static void add_park(struct flmem_borrow_state *borrow)
{
	bool own = borrow->options->finish;
	const struct timespec time = {own ? PARK_OWN_S : 0, own ? 0 : PARK_NS};
	uint64_t offset = flmem_chain_put(&borrow->chain, &time, sizeof(time));
	struct flmem_call *call = add_syscall(borrow, SYS_nanosleep);

	call->args[0] = offset;
	call->data_args = 1U;
}

static void shut_off_signals(struct flmem_chain *chain)
{
	for (size_t i = chain->count - 2; !chain->overflow && i < chain->count; i++) {
		chain->calls[i].has_mask = true;
		chain->calls[i].mask = ~(SETXID_BIT | chain->unblocked);
	}
}

void flmem_borrow_renew_cookie(struct flmem_borrow_state *borrow)
{
	if (getrandom(&borrow->cookie, sizeof(borrow->cookie), GRND_NONBLOCK) < 0)
		borrow->cookie = flmem_clock_ns();
	memcpy(borrow->chain.data + borrow->cookie_end, &borrow->cookie, sizeof(borrow->cookie));
}

int flmem_borrow_wrap(struct flmem_borrow_state *borrow, const struct flmem_chain *chain)
{
	struct flmem_chain *whole = &borrow->chain;
	size_t spans = chain->timed_as_one ? 1 : chain->count;

	if (chain->overflow || !chain->count || spans > FLMEM_BORROW_CALLS)
		return flmem_error_set(borrow->err, FLMEM_EFAILED, 0,
				       "the calls do not fit into one chain");
	/* The data of the caller comes first, so that its offsets stay valid. */
	memcpy(whole->data, chain->data, chain->data_length);
	whole->data_length = chain->data_length;
	whole->area = chain->area;
	whole->unblocked = chain->unblocked;
	borrow->spans = spans;
	borrow->clocks = flmem_chain_put(whole, NULL, (spans + 1) * sizeof(struct timespec));
	if (borrow->options->finish) /* a thread that flmem has started */
		add_permission_for_clocks(borrow);
	add_clock_reading(borrow, 0);
	for (size_t i = 0; i < chain->count; i++) {
		*flmem_chain_add(whole, NULL, 0) = chain->calls[i];
		if (!chain->timed_as_one)
			add_clock_reading(borrow, i + 1);
	}
	if (chain->timed_as_one)
		add_clock_reading(borrow, 1);
	add_park(borrow);
	shut_off_signals(whole);
	borrow->cookie_end = flmem_chain_put(whole, &borrow->cookie, sizeof(borrow->cookie));
	return whole->overflow ? flmem_error_set(borrow->err, FLMEM_EFAILED, 0,
						 "the calls do not fit into one chain")
			       : 0;
}

int flmem_borrow_remember_code(struct flmem_borrow_state *borrow)
{
	int rc = flmem_chain_code_read(borrow->view->process, &borrow->chain, &borrow->code);

	if (rc == -EFAULT)
		return flmem_error_set(borrow->err, FLMEM_EUNSAFE, 0,
				       "process %d changed while flmem read it: a function to call "
				       "is no longer mapped; try again",
				       (int)borrow->view->process->pid);
	return rc ? flmem_preflight_explain(borrow->view->process, rc, borrow->err) : 0;
}

bool flmem_borrow_may_fetch(const struct flmem_borrow_state *borrow)
{
	return flmem_read_hazard_missed().length && borrow->fetches < FETCHES_MAX;
}

void flmem_borrow_fetch(struct flmem_borrow_state *borrow, pid_t tid)
{
	if (!flmem_borrow_may_fetch(borrow) || !flmem_process_fetch_missed(borrow->view->process))
		return;
	borrow->fetches++;
	borrow->has_fetched = true;
	borrow->refused = "uses memory that had to be fetched first";
	borrow->refused_tid = tid;
}

int flmem_borrow_fail_last(struct flmem_borrow_state *borrow)
{
	return flmem_error_set(
		borrow->err, FLMEM_EUNSAFE, 0,
		"this flmem gets a processor only when nothing else runs (SCHED_IDLE), so it could "
		"hold a thread of process %d for long; run it without chrt --idle",
		(int)borrow->view->process->pid);
}

const struct flmem_guard *flmem_borrow_guard(const struct flmem_borrow_options *options)
{
	static const struct flmem_guard none;

	return options->guard ? options->guard : &none;
}

int flmem_borrow_check_locks(const struct flmem_process *process,
			     const struct flmem_borrow_options *options, struct flmem_error *err)
{
	return flmem_locks_check(process, flmem_borrow_guard(options), err);
}

int flmem_borrow_check_again(struct flmem_borrow_state *borrow)
{
	const struct flmem_borrow_options *options = borrow->options;
	int rc;

	if (!options->recheck || flmem_clock_us() - *options->checked_us < FRESH_US)
		return 0;
	rc = flmem_preflight_fixed(borrow->view, borrow->err);
	if (!rc)
		rc = options->recheck(options->rechecker, borrow->err);
	*options->checked_us = flmem_clock_us();
	if (rc)
		return rc;
	/* Check again, because the guard may have been renewed. */
	rc = flmem_borrow_check_locks(borrow->view->process, options, borrow->err);
	return rc == FLMEM_EUNSAFE ? 1 : rc;
}

int flmem_borrow_check_in_period(struct flmem_borrow_state *borrow)
{
	int rc;

	borrow->quota = flmem_own_quota_await();
	rc = flmem_borrow_check_again(borrow);
	/* The hold must not begin with the rest. */
	if (!rc && !flmem_own_quota_lasts(&borrow->quota))
		borrow->quota = flmem_own_quota_await();
	return rc;
}

static struct timespec clock_reading(const struct flmem_borrow_state *borrow, size_t index)
{
	struct timespec time;

	memcpy(&time, borrow->seen + borrow->clocks + index * sizeof(time), sizeof(time));
	return time;
}

static uint64_t elapsed_ns(struct timespec from, struct timespec to)
{
	int64_t ns = (to.tv_sec - from.tv_sec) * 1000000000 + (to.tv_nsec - from.tv_nsec);

	return ns > 0 ? (uint64_t)ns : 0;
}

enum flmem_borrow_progress flmem_borrow_read_results(struct flmem_borrow_state *borrow)
{
	struct timespec last;
	int rc = flmem_process_read_pinned(borrow->view->process, borrow->scratch.data,
					   borrow->seen, borrow->chain.data_length);

	if (rc)
		return rc == -ESRCH ? FLMEM_BORROW_ENDED : FLMEM_BORROW_RUNNING;
	if (memcmp(borrow->seen + borrow->cookie_end, &borrow->cookie, sizeof(borrow->cookie)) != 0)
		return FLMEM_BORROW_LOST;
	last = clock_reading(borrow, borrow->spans);
	return last.tv_sec || last.tv_nsec ? FLMEM_BORROW_FINISHED : FLMEM_BORROW_RUNNING;
}

void flmem_borrow_take_results(struct flmem_borrow_state *borrow)
{
	struct flmem_borrow_result *result = borrow->result;

	for (size_t i = 0; i < borrow->spans; i++)
		result->call_ns[i] =
			elapsed_ns(clock_reading(borrow, i), clock_reading(borrow, i + 1));
	memcpy(result->data, borrow->seen, sizeof(result->data));
	result->complete = true;
}

int flmem_borrow_read_area(const struct flmem_borrow_state *borrow)
{
	const struct flmem_chain_area *area = &borrow->chain.area;

	return area->length ? flmem_process_read_pinned(borrow->view->process, borrow->scratch.area,
							area->bytes, area->length)
			    : 0;
}

void flmem_borrow_count_returned(struct flmem_borrow_state *borrow)
{
	for (size_t i = 1; i <= borrow->spans; i++) {
		struct timespec time = clock_reading(borrow, i);

		if (time.tv_sec || time.tv_nsec)
			borrow->result->returned = i;
	}
}

struct flmem_call_return flmem_borrow_call_return(const struct flmem_borrow_state *borrow)
{
	return (struct flmem_call_return){.process = borrow->view->process,
					  .own = &borrow->state,
					  .scratch = &borrow->scratch,
					  .gadgets = &borrow->gadgets};
}
