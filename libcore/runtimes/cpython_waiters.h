/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_WAITERS_H
#define FLMEM_RUNTIMES_CPYTHON_WAITERS_H

/*
 * Finds threads that wait for the lock of an interpreter. The thread that releases it on request
 * waits until another one has taken it (drop_gil() in Python/ceval_gil.c): if the thread that made
 * the request is borrowed, both are blocked for as long as the calls take, and so are all threads
 * that need the interpreter.
 */

#include <stdbool.h>

#include "elf/view.h"
#include "remote/checks/candidates.h"
#include "runtimes/cpython_state.h"

struct flmem_cpython_waiters {
	struct flmem_cpython_gil gil;
	/* Filter that refuses these threads; its context is this structure. */
	struct flmem_candidate_filter filter;
};

/*
 * Finds the lock of the main interpreter; others may have a separate one. False if the process has
 * no CPython whose lock can be read.
 */
bool flmem_cpython_waiters_find(const struct flmem_view *view,
				struct flmem_cpython_waiters *ret_waiters);

#endif
