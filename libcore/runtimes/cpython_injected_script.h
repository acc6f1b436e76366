/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_INJECTED_SCRIPT_H
#define FLMEM_RUNTIMES_CPYTHON_INJECTED_SCRIPT_H

/*
 * Prepares code for an entry point that only registers a request, and a place for its answer in the
 * process, in the padding of a library.
 */

#include "proc/task.h"
#include "runtimes/cpython_entry_points.h"

struct flmem_cpython_injected {
	uint64_t place; /* address in the padding; 0: nothing was written */
	/* Address of the answer, whose cookie also marks the padding as used up. */
	uint64_t address;
	size_t length;
	size_t answer_max;
	unsigned char cookie[FLMEM_CPYTHON_COOKIE];
	struct flmem_buf text;	   /* source of the code */
	struct flmem_tasks before; /* threads of the process when the source was written */
	/*
	 * Called repeatedly while the answer is awaited; a result other than 0 ends the wait. NULL:
	 * no check.
	 */
	int (*check)(void *context, struct flmem_error *err);
	void *checker;
};

/*
 * Makes the source and reserves the place of the answer. FLMEM_EUNSAFE if there is no place. Always
 * clear it.
 */
int flmem_cpython_injected_write(const struct flmem_cpython_session *session,
				 struct flmem_cpython_injected *injected, struct flmem_error *err);

/*
 * Waits for the answer and stores it in session->result, then briefly for the end of its thread.
 * FLMEM_EFAILED if there is no answer in time; the result of `check` if that ended the wait.
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
