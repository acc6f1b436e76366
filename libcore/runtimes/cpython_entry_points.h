/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_ENTRY_POINTS_H
#define FLMEM_RUNTIMES_CPYTHON_ENTRY_POINTS_H

/* The entry points into an interpreter; cpython_call.c chooses one. */

#include "remote/borrow.h"
#include "runtimes/cpython_call.h"
#include "runtimes/cpython_state.h"

/* State of one call into one interpreter. */
struct flmem_cpython_session {
	const struct flmem_view *view;
	const struct flmem_cpython_call *call;
	struct flmem_cpython_result *result;
	struct flmem_cpython python;
	struct flmem_cpython_place place;
	/* State of the interpreter when the entry point was chosen. */
	struct flmem_cpython_state state;
	unsigned threads_started; /* number of threads started so far, which are all unusable */
	size_t calls_locked; /* number of returned calls with which the new thread holds the lock */
	unsigned stopping_calls; /* calls among these that may never return, one bit each */
	char unusable[FLMEM_ERROR_MESSAGE_MAX]; /* why the last of these threads was unusable */
	bool cannot_start; /* no thread can be started through the functions of the C library */
	struct flmem_spared_threads spared; /* threads to spare, in all tries */
	struct flmem_syscall_list syscalls; /* system calls of a new thread and of what it runs */
};

/*
 * Runs the code in a new thread that a blocked thread starts (remote/new_thread.h).
 * PyGILState_Ensure (from 3.14 on after PyThreadState_New), PyRun_SimpleString and
 * PyGILState_Release run in it: it holds no locks of the program, so the code waits for locks as in
 * any thread. The interpreter gives it a thread state of the main interpreter. Tested with 3.8 to
 * 3.15. FLMEM_EUNSAFE if no thread can be borrowed now, or none can be started; FLMEM_EUNSUPPORTED
 * if a needed function is not found.
 */
int flmem_cpython_entry_new_thread(struct flmem_cpython_session *session, struct flmem_error *err);

/*
 * Starts the new thread from the main thread, stopped while it computes in the interpreter's own
 * code. The main thread runs no Python code: in a pending call, exceptions of the program's signal
 * handlers would be lost. FLMEM_EUNSAFE if it is elsewhere now; `err` is unchanged if it is
 * blocked.
 */
int flmem_cpython_entry_computing(struct flmem_cpython_session *session, struct flmem_error *err);

/* Returns true if this interpreter accepts code from debuggers: 3.14 and later, unless disabled. */
bool flmem_cpython_has_debugger_entry(const struct flmem_cpython_session *session);

/*
 * Uses PEP 768: leaves a script for the main thread while it computes, without stopping a thread.
 * FLMEM_EUNSAFE if that thread is blocked, if there is no place for the script, or if another
 * request is pending.
 */
int flmem_cpython_entry_debugger(struct flmem_cpython_session *session, struct flmem_error *err);

/*
 * Plans the calls of a function; `area` gets the place of the answer, then the text, if it has one.
 */
int flmem_cpython_function_plan(const struct flmem_cpython_function *function,
				struct flmem_buf *area, struct flmem_chain *chain,
				struct flmem_error *err);

#endif
