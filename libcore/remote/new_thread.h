/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_NEW_THREAD_H
#define FLMEM_REMOTE_NEW_THREAD_H

/*
 * A thread of its own in a live process, for calls that may wait for what the program's threads
 * hold. A borrowed thread starts it, by pthread_create() of the C library itself: no code of the
 * program runs on the borrowed one, which may be blocked with any of the program's locks held. The
 * new thread is detached, sleeps, has all signals blocked as a chain has, and belongs to nobody;
 * flmem_borrow_run() with `only` and `finish` makes calls on it, and its sleep then ends. One that
 * nobody comes for sleeps its few seconds out and exits.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "elf/view.h"
#include "proc/maps.h"
#include "remote/borrow.h"

/* How long it sleeps, for flmem to come back to it. */
#define FLMEM_NEW_THREAD_SECONDS 3

struct flmem_new_thread {
	pid_t tid;
	uint64_t pointer; /* its thread pointer, by which it is known when it is stopped */
	/* The thread that started it, as in flmem_borrow_result. */
	pid_t lender;
	const char *waited_in;
	uint64_t late_us, stopped_ns;
};

/* Functions of the target's own C library, which nothing stands in front of. */
struct flmem_thread_functions {
	uint64_t init, detach, create, sleep;
	uint64_t set_stack; /* 0: its own size is large enough */
	bool is_glibc;
};

/*
 * FLMEM_EUNSUPPORTED when the C library cannot be told or does not name them. Those of a preloaded
 * library are not taken: they may be code of the program, with locks of its own.
 */
int flmem_thread_functions_find(const struct flmem_view *view,
				struct flmem_thread_functions *ret_functions,
				struct flmem_error *err);

/*
 * Starts it; `options` are for the thread that does. FLMEM_EUNSAFE: no thread could be borrowed, or
 * none was started (limits), or it could not be told for certain; it then ends by itself. Otherwise
 * as flmem_borrow_run(). *ret_thread names the lender also on failure.
 */
int flmem_new_thread_start(const struct flmem_view *view,
			   const struct flmem_thread_functions *functions,
			   const struct flmem_borrow_options *options,
			   struct flmem_new_thread *ret_thread, struct flmem_error *err);

/*
 * Makes the calls on it and ends its sleep; the mappings of `view` may be older than the thread.
 * `filter` is asked as flmem_borrow_run() asks it, once it is certain that this is the thread.
 */
int flmem_new_thread_run(const struct flmem_view *view, const struct flmem_new_thread *thread,
			 const struct flmem_chain *chain,
			 const struct flmem_borrow_options *options,
			 struct flmem_borrow_result *ret_result, struct flmem_error *err);

/* Waits until it is gone, at most timeout_us; false when it is still there. */
bool flmem_new_thread_await_end(const struct flmem_view *view,
				const struct flmem_new_thread *thread, uint64_t timeout_us);

#endif
