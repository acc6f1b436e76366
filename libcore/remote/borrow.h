/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_BORROW_H
#define FLMEM_REMOTE_BORROW_H

/*
 * Runs a chain of calls on one borrowed thread of a live process, while all its other threads run.
 *
 * The thread is stopped for some ten microseconds to prepare it, makes the calls by itself, then
 * waits for 50 ms at the end of the chain. A living caller finds it there, reads the results and
 * restores the thread exactly, so that signals that came meanwhile and timeouts act as if nothing
 * had happened. If the caller dies at any instant, the thread goes on through the last frame and
 * restores itself.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "elf/view.h"
#include "remote/candidates.h"
#include "remote/chain.h"
#include "remote/syscalls.h"

/* Calls that a chain may hold when each is enclosed by two readings of the clock. */
#define FLMEM_BORROW_CALLS 8

struct flmem_borrow_options {
	uint64_t timeout_us; /* for finding a thread, and again for the calls */
	pid_t computing;     /* this thread while it computes, instead of a blocked one; 0: no */
	bool look_once;	     /* at all threads: none now is none at all */
	bool repeatable;     /* the calls are made again when what they left is lost */
	struct flmem_guard guard;
	const struct flmem_candidate_filter *filter; /* may be NULL: any thread that qualifies */
	size_t stack_bytes; /* that the calls may use; 0: what an allocator needs */
	pid_t only;	    /* this blocked thread and no other; 0: the most suitable one */
	bool finish; /* its wait then ends with the result 0: a sleeping thread of flmem's own */
	const struct flmem_syscall_list *syscalls; /* of the calls; NULL: they may make any */
	bool assume_seccomp;			   /* as in struct flmem_seccomp_calls */
};

struct flmem_borrow_result {
	pid_t tid;
	const char *waited_in; /* static: the system call that the thread was blocked in */
	uint64_t late_us;      /* its timeout may end up to this much later, 0: it does not */
	bool started;	       /* the calls were set off, whatever became of them */
	size_t returned;       /* calls that were seen to have returned, when not timed as one */
	bool complete;	       /* all calls returned; the fields below hold */
	bool self_restored;    /* so were they, but too long ago: what they left is lost */
	/* Inside each call, by the target's own clock; timed as one: the first is all of them. */
	uint64_t call_ns[FLMEM_BORROW_CALLS];
	uint64_t stopped_ns; /* from the interrupt until the thread was its own again */
	unsigned char data[FLMEM_CHAIN_DATA]; /* the chain's data after the calls */
};

/*
 * Tells which thread would be borrowed, without touching it. FLMEM_EUNSAFE: none now, and why;
 * FLMEM_EPERM with the gate that refuses.
 */
int flmem_borrow_plan(const struct flmem_view *view, const struct flmem_borrow_options *options,
		      struct flmem_borrow_result *ret_result, struct flmem_error *err);

/*
 * Runs the chain. FLMEM_EUNSAFE: no thread could be borrowed before the timeout, nothing was
 * touched; FLMEM_EFAILED: the calls were made but did not come to an end in time (they go on by
 * themselves), the caller was too late to read what they left, or the process ended. *ret_result is
 * filled as far as it got, also on failure.
 */
int flmem_borrow_run(const struct flmem_view *view, const struct flmem_chain *chain,
		     const struct flmem_borrow_options *options,
		     struct flmem_borrow_result *ret_result, struct flmem_error *err);

#endif
