/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_INJECTED_SCRIPT_H
#define FLMEM_RUNTIMES_CPYTHON_INJECTED_SCRIPT_H

/*
 * Code that is stored in the process until the interpreter runs it, with a place for its answer, in
 * the padding of a library. For entry points that only register a request.
 */

#include "proc/task.h"
#include "runtimes/cpython_entry_points.h"

struct flmem_cpython_injected {
	uint64_t place;	  /* in the padding; 0: not written */
	uint64_t address; /* of the answer, whose cookie also marks the padding as used up */
	uint64_t source;  /* address of the text, or 0 when it is not kept in memory */
	size_t length;
	size_t answer_max;
	unsigned char cookie[FLMEM_CPYTHON_COOKIE];
	struct flmem_buf text;	   /* the source, for one that is not kept in memory */
	struct flmem_tasks before; /* the threads of the process when it was written */
};

/*
 * Creates it; `in_memory`: stores the source after the place of the answer, else that stays zero.
 * FLMEM_EUNSAFE when it does not fit. Always clear it.
 */
int flmem_cpython_injected_write(const struct flmem_cpython_session *session, bool in_memory,
				 struct flmem_cpython_injected *injected, struct flmem_error *err);

/*
 * Waits for the answer and stores it in session->result, then briefly for the end of its thread.
 * FLMEM_EFAILED: no answer in time.
 */
int flmem_cpython_injected_await(const struct flmem_cpython_session *session,
				 const struct flmem_cpython_injected *injected,
				 struct flmem_error *err);

/* Makes the padding zero again; not while the interpreter may still run the code. */
void flmem_cpython_injected_erase(const struct flmem_cpython_session *session,
				  const struct flmem_cpython_injected *injected);

void flmem_cpython_injected_clear(struct flmem_cpython_injected *injected);

#define FLMEM_AUTO_CPYTHON_INJECTED FLMEM_AUTO(flmem_cpython_injected_clear)

#endif
