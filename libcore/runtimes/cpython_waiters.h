/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_WAITERS_H
#define FLMEM_RUNTIMES_CPYTHON_WAITERS_H

/*
 * Threads that wait for the lock of an interpreter. The thread that releases it on request waits
 * until another one has taken it (drop_gil() in Python/ceval_gil.c): if the thread that made the
 * request is borrowed, both are blocked for as long as the calls take, and so are all threads that
 * need the interpreter.
 */

#include <stdbool.h>

#include "elf/view.h"
#include "remote/checks/candidates.h"
#include "runtimes/cpython_state.h"

struct flmem_cpython_waiters {
	struct flmem_cpython_gil gil;
	struct flmem_candidate_filter filter; /* refuses them; its context is this structure */
};

/*
 * False if the process has no CPython whose lock can be read. The lock of the main interpreter
 * only: others may have a separate one.
 */
bool flmem_cpython_waiters_find(const struct flmem_view *view,
				struct flmem_cpython_waiters *ret_waiters);

#endif
