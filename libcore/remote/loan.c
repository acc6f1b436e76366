/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/loan.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "proc/process.h"
#include "remote/preflight.h"

/*
 * How long the thread sleeps at the end of the chain. A thread that flmem has started delays
 * nobody.
 */
#define PARK_NS	   50000000
#define PARK_OWN_S 2

static struct flmem_call *add_syscall(struct flmem_loan *loan, long number)
{
	struct flmem_call *call =
		flmem_chain_add(&loan->chain, "system call", loan->gadgets.syscall);

	call->number = (uint64_t)number;
	return call;
}

static void add_clock_reading(struct flmem_loan *loan, size_t index)
{
	struct flmem_call *call = add_syscall(loan, SYS_clock_gettime);

	call->args[0] = CLOCK_MONOTONIC;
	call->args[1] = loan->clocks + index * sizeof(struct timespec);
	call->data_args = 2U;
}

static void add_park(struct flmem_loan *loan)
{
	bool own = loan->options->finish;
	const struct timespec time = {own ? PARK_OWN_S : 0, own ? 0 : PARK_NS};
	uint64_t offset = flmem_chain_put(&loan->chain, &time, sizeof(time));
	struct flmem_call *call = add_syscall(loan, SYS_nanosleep);

	call->args[0] = offset;
	call->data_args = 1U;
}

void flmem_loan_renew_cookie(struct flmem_loan *loan)
{
	if (getrandom(&loan->cookie, sizeof(loan->cookie), GRND_NONBLOCK) < 0)
		loan->cookie = flmem_clock_ns();
	memcpy(loan->chain.data + loan->cookie_end, &loan->cookie, sizeof(loan->cookie));
}

int flmem_loan_wrap(struct flmem_loan *loan, const struct flmem_chain *chain)
{
	struct flmem_chain *whole = &loan->chain;
	size_t spans = chain->timed_as_one ? 1 : chain->count;

	if (chain->overflow || !chain->count || spans > FLMEM_BORROW_CALLS)
		return flmem_error_set(loan->err, FLMEM_EFAILED, 0,
				       "the calls do not fit into one chain");
	/* The data of the caller comes first, so that its offsets stay valid. */
	memcpy(whole->data, chain->data, chain->data_length);
	whole->data_length = chain->data_length;
	whole->area = chain->area;
	whole->unblocked = chain->unblocked;
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
	return whole->overflow ? flmem_error_set(loan->err, FLMEM_EFAILED, 0,
						 "the calls do not fit into one chain")
			       : 0;
}

int flmem_loan_remember_code(struct flmem_loan *loan)
{
	int rc = flmem_chain_code_read(loan->view->process, &loan->chain, &loan->code);

	if (rc == -EFAULT)
		return flmem_error_set(loan->err, FLMEM_EUNSAFE, 0,
				       "process %d changed while flmem read it: a function to call "
				       "is no longer mapped; try again",
				       (int)loan->view->process->pid);
	return rc ? flmem_preflight_explain(loan->view->process, rc, loan->err) : 0;
}

static struct timespec clock_reading(const struct flmem_loan *loan, size_t index)
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

enum flmem_loan_progress flmem_loan_read_results(struct flmem_loan *loan)
{
	struct timespec last;
	int rc = flmem_process_read_pinned(loan->view->process, loan->scratch.data, loan->seen,
					   loan->chain.data_length);

	if (rc)
		return rc == -ESRCH ? FLMEM_LOAN_ENDED : FLMEM_LOAN_RUNNING;
	if (memcmp(loan->seen + loan->cookie_end, &loan->cookie, sizeof(loan->cookie)) != 0)
		return FLMEM_LOAN_LOST;
	last = clock_reading(loan, loan->spans);
	return last.tv_sec || last.tv_nsec ? FLMEM_LOAN_FINISHED : FLMEM_LOAN_RUNNING;
}

void flmem_loan_take_results(struct flmem_loan *loan)
{
	struct flmem_borrow_result *result = loan->result;

	for (size_t i = 0; i < loan->spans; i++)
		result->call_ns[i] = elapsed_ns(clock_reading(loan, i), clock_reading(loan, i + 1));
	memcpy(result->data, loan->seen, sizeof(result->data));
	result->complete = true;
}

int flmem_loan_read_area(const struct flmem_loan *loan)
{
	const struct flmem_chain_area *area = &loan->chain.area;

	return area->length ? flmem_process_read_pinned(loan->view->process, loan->scratch.area,
							area->bytes, area->length)
			    : 0;
}

void flmem_loan_count_returned(struct flmem_loan *loan)
{
	for (size_t i = 1; i <= loan->spans; i++) {
		struct timespec time = clock_reading(loan, i);

		if (time.tv_sec || time.tv_nsec)
			loan->result->returned = i;
	}
}
