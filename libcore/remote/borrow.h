/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_BORROW_H
#define FLMEM_REMOTE_BORROW_H

/*
 * Runs a chain of calls on one borrowed thread of a live process, while all its other threads run.
 * The thread is stopped for some ten microseconds to prepare it, makes the calls by itself, then
 * sleeps for 50 ms at the end of the chain. During that sleep the caller reads the results and
 * restores the thread exactly, so that signals that arrived meanwhile and timeouts act as if
 * nothing had happened. If the caller dies at any instant, the thread continues through the last
 * frame and restores itself.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "elf/view.h"
#include "remote/chain.h"
#include "remote/checks/candidates.h"
#include "remote/seccomp/syscalls.h"

/* Calls that a chain may hold if each is enclosed by two clock readings. */
#define FLMEM_BORROW_CALLS 9

#define FLMEM_SPARED_MAX 64

/*
 * Threads that were stopped and cannot be borrowed, and whose timeout each stop restarts: they are
 * not stopped again. A caller that borrows several times keeps one of these.
 */
struct flmem_spared_threads {
	struct {
		pid_t tid;
		const char *why; /* static: why it cannot be borrowed */
	} rows[FLMEM_SPARED_MAX];
	size_t count;
};

/* Called while no thread is stopped: before each attempt to start the calls, and while they run. */
typedef void flmem_borrow_observe(void *context, bool running);

/*
 * Repeats, before a thread is stopped, the caller's checks of the process, and renews the guard:
 * both may have changed during the search for a thread. The code of the error ends the search.
 */
typedef int flmem_borrow_recheck(void *context, struct flmem_error *err);

struct flmem_borrow_options {
	uint64_t timeout_us; /* limit for finding a thread, and again for the calls */
	pid_t computing;     /* borrow this thread while it computes, not a blocked one; 0: no */
	bool single_pass;    /* make one pass over all threads; fail if none can be borrowed now */
	bool repeatable;     /* make the calls again if their results are lost */
	/* The calls may wait for a lock in guard.words, and then hold none themselves. */
	bool cancels;
	const struct flmem_guard *guard; /* NULL: an empty one; a recheck may renew it */
	/* May be NULL: any thread that passes the general checks. */
	const struct flmem_candidate_filter *filter;
	size_t stack_bytes; /* stack that the calls need; 0: what an allocator needs */
	pid_t only;	    /* only this blocked thread; 0: the most suitable one */
	bool finish; /* its wait then returns 0; for a sleeping thread that flmem has started */
	/* System calls that the calls make; NULL: unknown. */
	const struct flmem_syscall_list *syscalls;
	bool assume_seccomp; /* as in struct flmem_seccomp_calls */
	/* Threads to spare, known to several borrowings; NULL: only this one. */
	struct flmem_spared_threads *spared;
	flmem_borrow_observe *observe; /* may be NULL; must be brief */
	void *observer;		       /* context of `observe` */
	flmem_borrow_recheck *recheck; /* may be NULL */
	void *rechecker;	       /* context of `recheck` */
	uint64_t *checked_us;	       /* time of the last such check */
};

struct flmem_borrow_result {
	pid_t tid;
	const char *waited_in; /* static: the system call that the thread was blocked in */
	/* The timeout of its wait may end up to this much later; 0: it does not. */
	uint64_t late_us;
	bool unstopped; /* dry run: the thread was not stopped, as that would restart its timeout */
	bool started;	/* the calls were started, whatever happened afterwards */
	size_t returned;    /* calls that were observed to return, unless timed as one */
	bool complete;	    /* all calls returned; the fields below are valid */
	bool self_restored; /* all calls returned, but too long ago: the results are lost */
	/*
	 * Time inside each call, by the clock of the target; if timed as one, the first entry is
	 * the sum.
	 */
	uint64_t call_ns[FLMEM_BORROW_CALLS];
	uint64_t signal_mask; /* signal mask of the thread, in the program */
	uint64_t stopped_ns;  /* time from the interrupt until the thread was restored */
	unsigned char data[FLMEM_CHAIN_DATA]; /* the chain's data after the calls */
};

/*
 * Makes all checks of flmem_borrow_run(), with its retries and its errors, but no call: the thread
 * is stopped and released as it was. Only a stopped thread shows some refusals (seccomp filters,
 * thread-local data that is not the C library's). A thread whose timeout a stop would restart is
 * not stopped, and those refusals are then unknown. Fills tid, waited_in, late_us and unstopped.
 */
int flmem_borrow_dry_run(const struct flmem_view *view, const struct flmem_borrow_options *options,
			 struct flmem_borrow_result *ret_result, struct flmem_error *err);

/*
 * Makes those of these checks that stop no thread, in one pass. FLMEM_EUNSAFE: no thread could be
 * borrowed now.
 */
int flmem_borrow_precheck(const struct flmem_view *view, const struct flmem_borrow_options *options,
			  struct flmem_error *err);

/*
 * Runs the chain. FLMEM_EUNSAFE: no thread could be borrowed before the timeout, and nothing was
 * touched. FLMEM_EFAILED: the calls were made but did not return in time (they continue by
 * themselves), the caller was too late to read their results, or the process ended. *ret_result is
 * filled as far as known, also on failure.
 */
int flmem_borrow_run(const struct flmem_view *view, const struct flmem_chain *chain,
		     const struct flmem_borrow_options *options,
		     struct flmem_borrow_result *ret_result, struct flmem_error *err);

#endif
