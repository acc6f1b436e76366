/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_WATCHDOG_H
#define FLMEM_RUNTIMES_CPYTHON_WATCHDOG_H

/*
 * Finds the thread of faulthandler.dump_traceback_later(). At its timeout it walks over the states
 * of all threads without the interpreter's lock (Modules/faulthandler.c): a thread that starts or
 * exits at that moment may crash the program.
 */

#include "elf/view.h"
#include "runtimes/cpython.h"
#include "runtimes/cpython_state.h"

/*
 * FLMEM_EUNSAFE if there is such a thread. A thread that is printing at this moment may be missed.
 */
int flmem_cpython_watchdog_check(const struct flmem_view *view, const struct flmem_cpython *python,
				 const struct flmem_cpython_state *state, struct flmem_error *err);

#endif
