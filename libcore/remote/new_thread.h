/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_NEW_THREAD_H
#define FLMEM_REMOTE_NEW_THREAD_H

/*
 * Starts a new thread in a live process, for calls that may wait for what the program's threads
 * hold. A borrowed thread starts it by pthread_create() of the C library: no code of the program
 * runs on the borrowed thread, which may be blocked with any lock of the program held. The new
 * thread is detached, sleeps, and has all signals blocked as a chain has, except in calls that have
 * their own mask; flmem_borrow_run() with `only` and `finish` makes calls on it, and its sleep then
 * ends. Without such a call it exits after a few seconds.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "elf/view.h"
#include "proc/maps.h"
#include "remote/borrow.h"

/* Time that the new thread sleeps, so that flmem can borrow it. */
#define FLMEM_NEW_THREAD_SECONDS 3

struct flmem_new_thread {
	bool is_started; /* also set if the thread cannot be used */
	pid_t tid;
	uint64_t pointer; /* its thread pointer, which identifies it when it is stopped */
	/* Signal mask of the first thread of the process, for code that starts others. */
	uint64_t signal_mask;
	uint64_t unblocked; /* signals that its calls must not block */
	/* The thread that started the new one, as in flmem_borrow_result. */
	pid_t borrowed_tid;
	const char *waited_in;
	uint64_t late_us, stopped_ns;
};

/* Functions of the target's own C library, never those of a library that overrides them. */
struct flmem_thread_functions {
	uint64_t init, detach, set_stack, create, sleep;
	/* memccpy(), and a lock whose first word is 0 while it is open; both 0: not found */
	uint64_t copy, lock;
	bool is_glibc;
};

/*
 * FLMEM_EUNSUPPORTED if the C library is not recognised or does not export the functions. Those of
 * a preloaded library are not used: they may be code of the program, with their own locks.
 */
int flmem_thread_functions_find(const struct flmem_view *view,
				struct flmem_thread_functions *ret_functions,
				struct flmem_error *err);

/*
 * Returns the module that has pthread_create(): the C library itself, or before glibc 2.34 a second
 * one. NULL if neither has it.
 */
const struct flmem_module *flmem_thread_library(const struct flmem_modules *modules,
						const struct flmem_module *library);

/*
 * Starts a thread. `options` apply to the thread that starts it: a blocked one, or with `computing`
 * that thread, whose `filter` then has to exclude the C library and the loader, which may hold
 * locks. FLMEM_EUNSAFE: no thread could be borrowed, none was started (limits), or the new one
 * could not be identified with certainty; it then ends by itself. Other errors as of
 * flmem_borrow_run(). *ret_thread names the borrowed thread also on failure.
 */
int flmem_new_thread_start(const struct flmem_view *view,
			   const struct flmem_thread_functions *functions,
			   const struct flmem_borrow_options *options,
			   struct flmem_new_thread *ret_thread, struct flmem_error *err);

/*
 * Makes the calls on the new thread and ends its sleep; the mappings of `view` may be older than
 * the thread. `filter` is called as by flmem_borrow_run(), after the thread was identified.
 */
int flmem_new_thread_run(const struct flmem_view *view, const struct flmem_new_thread *thread,
			 const struct flmem_chain *chain,
			 const struct flmem_borrow_options *options,
			 struct flmem_borrow_result *ret_result, struct flmem_error *err);

/* Waits at most timeout_us until the new thread has exited; false if it still exists. */
bool flmem_new_thread_await_end(const struct flmem_view *view,
				const struct flmem_new_thread *thread, uint64_t timeout_us);

#endif
