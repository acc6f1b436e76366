/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_ENTRY_POINTS_H
#define FLMEM_RUNTIMES_CPYTHON_ENTRY_POINTS_H

/* The ways into an interpreter; cpython_call.c chooses among them. */

#include "runtimes/cpython_call.h"
#include "runtimes/cpython_state.h"

/* One visit to one interpreter. */
struct flmem_cpython_session {
	const struct flmem_view *view;
	const struct flmem_cpython_call *call;
	struct flmem_cpython_result *result;
	struct flmem_cpython python;
	struct flmem_cpython_place place;
	struct flmem_cpython_state state; /* as it was when the entry point was chosen */
	unsigned threads_started;	  /* of which none could be used, so far */
};

/*
 * A blocked thread starts a new one (remote/new_thread.h), in which PyGILState_Ensure,
 * PyRun_SimpleString and PyGILState_Release run: it belongs to nobody and holds nothing, so that
 * what the code waits for, it waits for as any thread does. The interpreter gives it a state of the
 * main interpreter. Proven with 3.8 to 3.13. FLMEM_EUNSAFE when no thread can be borrowed for it
 * now, or none be started; FLMEM_EUNSUPPORTED when a function for it cannot be found.
 */
int flmem_cpython_entry_new_thread(struct flmem_cpython_session *session, struct flmem_error *err);

/*
 * Py_AddPendingCall on the main thread, caught while it computes: the interpreter runs the code
 * between two instructions of Python. Called there, since 3.9 to 3.12 do not wake the main thread
 * for another one's call (cpython#95820). FLMEM_EUNSAFE when it could not be caught.
 */
int flmem_cpython_entry_pending_call(struct flmem_cpython_session *session,
				     struct flmem_error *err);

/* Whether this interpreter takes code from debuggers: 3.14 and later, unless it is switched off. */
bool flmem_cpython_has_debugger_entry(const struct flmem_cpython_session *session);

/*
 * PEP 768: leaves a script for the main thread while it computes, and stops nothing. FLMEM_EUNSAFE
 * when it waits, when there is no place for the script, or one is there already.
 */
int flmem_cpython_entry_debugger(struct flmem_cpython_session *session, struct flmem_error *err);

#endif
