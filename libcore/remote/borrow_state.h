/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_BORROW_STATE_H
#define FLMEM_REMOTE_BORROW_STATE_H

/*
 * One run of a chain on a borrowed thread: the caller's calls with clock readings around them and a
 * park at the end, and the results that they leave on the thread's stack. remote/borrow.c chooses,
 * stops and restores the thread; nothing here touches it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "remote/arch.h"
#include "remote/borrow.h"
#include "remote/call_return.h"
#include "remote/chain.h"
#include "remote/chain_code.h"
#include "remote/checks/quiet_stop.h"
#include "remote/errno_place.h"
#include "remote/gadgets.h"
#include "remote/own_quota.h"

/* State of one run; allocated on the heap because of its size. */
struct flmem_borrow_state {
	struct flmem_thread_state state; /* first member: it has the largest alignment */
	const struct flmem_view *view;
	const struct flmem_borrow_options *options;
	struct flmem_borrow_result *result;
	struct flmem_error *err;
	struct flmem_gadgets gadgets;
	/* `spared` points to the caller's list, if any, else to `own_spared`. */
	struct flmem_spared_threads own_spared, *spared;
	struct flmem_quiet_sleepers sleepers;
	const char *refused; /* static: why a stopped thread was released without a call, or NULL */
	pid_t refused_tid;
	bool dry_run;		  /* stop the thread, check it, release it: no calls */
	struct flmem_chain chain; /* the caller's calls with the clock readings around them */
	size_t spans;	 /* number of timed calls: each call, or 1 for all of them together */
	uint64_t clocks; /* offset of the clock readings in the chain's data */
	/* Number at the end of the data, which shows whether anything has overwritten it. */
	uint64_t cookie;
	uint64_t cookie_end;
	struct flmem_chain_code code;
	struct flmem_errno_place errno_place;
	struct flmem_errno_value own_errno; /* errno of the thread before the calls */
	struct flmem_scratch scratch;
	unsigned fetches;	      /* times that missed memory was fetched after a hold */
	bool has_fetched;	      /* since the last pass began */
	uint64_t armed_us;	      /* time at which the thread was about to begin its calls */
	struct flmem_own_quota quota; /* of the time in which the thread was stopped first */
	unsigned char seen[FLMEM_CHAIN_DATA];
};

enum flmem_borrow_progress {
	FLMEM_BORROW_RUNNING,
	FLMEM_BORROW_FINISHED, /* the last clock reading is present: all calls have returned */
	FLMEM_BORROW_LOST,     /* the thread has restored itself and reused its stack */
	FLMEM_BORROW_ENDED,    /* the process has ended or executed another program */
};

/*
 * Wraps the caller's chain: each call (or all) between two clock readings, then the park. From the
 * last reading on the thread takes no signal but one of the C library: one that ends the process
 * would have this thread write the core dump, which the stop in the park would cut.
 */
int flmem_borrow_wrap(struct flmem_borrow_state *borrow, const struct flmem_chain *chain);

/*
 * Time after it was armed in which a thread is certainly in its calls or in the park, which lasts
 * twice as long.
 */
#define FLMEM_BORROW_PARKED_US 25000U

/* Draws a new cookie; called each time a thread is armed, so that chains cannot be confused. */
void flmem_borrow_renew_cookie(struct flmem_borrow_state *borrow);

/* Reads the first bytes of every function to call; FLMEM_EUNSAFE if one is no longer mapped. */
int flmem_borrow_remember_code(struct flmem_borrow_state *borrow);

/*
 * Has the caller check the process again if the last check is too old: the program may have changed
 * while flmem searched for a thread, or while flmem was stopped. Returns 1, with the reason, if no
 * thread may be borrowed now.
 */
int flmem_borrow_check_again(struct flmem_borrow_state *borrow);

/*
 * The same after the wait for a period of flmem's quota of processor time, which may be longer than
 * a check stays valid.
 */
int flmem_borrow_check_in_period(struct flmem_borrow_state *borrow);

/* True if the last hold has missed memory, and another one may follow after it is fetched. */
bool flmem_borrow_may_fetch(const struct flmem_borrow_state *borrow);

/* Fetches what the last hold has missed, which may take as long as another process likes. */
void flmem_borrow_fetch(struct flmem_borrow_state *borrow, pid_t tid);

/* Reports that this flmem would hold a thread for as long as other programs compute. */
int flmem_borrow_fail_last(struct flmem_borrow_state *borrow);

/* Returns the guard of the options, or an empty one; never NULL. */
const struct flmem_guard *flmem_borrow_guard(const struct flmem_borrow_options *options);

/* Calls flmem_locks_check() with that guard. */
int flmem_borrow_check_locks(const struct flmem_process *process,
			     const struct flmem_borrow_options *options, struct flmem_error *err);

/* Reads the results so far; they may be incomplete unless the thread is stopped. */
enum flmem_borrow_progress flmem_borrow_read_results(struct flmem_borrow_state *borrow);

/* Copies the area as the calls have left it into the caller's bytes. Returns 0 or -errno. */
int flmem_borrow_read_area(const struct flmem_borrow_state *borrow);

/* Stores the results, which must be known to be valid. */
void flmem_borrow_take_results(struct flmem_borrow_state *borrow);

/* Returns what is needed to restore the thread at the end of the chain. */
struct flmem_call_return flmem_borrow_call_return(const struct flmem_borrow_state *borrow);

/* Counts the calls of an unfinished chain that have returned. */
void flmem_borrow_count_returned(struct flmem_borrow_state *borrow);

#endif
