/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_INJECTED_SCRIPT_H
#define FLMEM_RUNTIMES_CPYTHON_INJECTED_SCRIPT_H

/*
 * Code for an entry point that only registers a request, and a place for its answer in the process,
 * in the padding of a library.
 */

#include "proc/task.h"
#include "runtimes/cpython_entry_points.h"

struct flmem_cpython_injected {
	uint64_t place;	  /* in the padding; 0: not written */
	uint64_t address; /* of the answer, whose cookie also marks the padding as used up */
	size_t length;
	size_t answer_max;
	unsigned char cookie[FLMEM_CPYTHON_COOKIE];
	struct flmem_buf text;	   /* the source */
	struct flmem_tasks before; /* the threads of the process when it was written */
	/*
	 * Called repeatedly while the answer is awaited; a result other than 0 ends the wait. NULL:
	 * no check.
	 */
	int (*check)(void *context, struct flmem_error *err);
	void *checker;
};

/*
 * Makes the source and reserves the place of the answer. FLMEM_EUNSAFE when there is none. Always
 * clear it.
 */
int flmem_cpython_injected_write(const struct flmem_cpython_session *session,
				 struct flmem_cpython_injected *injected, struct flmem_error *err);

/*
 * Waits for the answer and stores it in session->result, then briefly for the end of its thread.
 * FLMEM_EFAILED: no answer in time. Or the result of `check`.
 */
int flmem_cpython_injected_await(const struct flmem_cpython_session *session,
				 const struct flmem_cpython_injected *injected,
				 struct flmem_error *err);

/*
 * Makes the padding zero again, unless another flmem has taken it since; not while the interpreter
 * may still run the code.
 */
void flmem_cpython_injected_erase(const struct flmem_cpython_session *session,
				  const struct flmem_cpython_injected *injected);

void flmem_cpython_injected_clear(struct flmem_cpython_injected *injected);

#define FLMEM_AUTO_CPYTHON_INJECTED FLMEM_AUTO(flmem_cpython_injected_clear)

#endif
