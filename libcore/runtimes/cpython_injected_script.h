/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_CPYTHON_INJECTED_SCRIPT_H
#define FLMEM_RUNTIMES_CPYTHON_INJECTED_SCRIPT_H

/*
 * Code that waits in the process until the interpreter takes it up, with a place for its answer, in
 * the padding of a library. For entry points that only announce it.
 */

#include "proc/task.h"
#include "runtimes/cpython_entry_points.h"

struct flmem_cpython_injected {
	uint64_t place;	  /* in the padding; 0: not written */
	uint64_t address; /* of the answer, whose cookie tells the padding that it is used up */
	uint64_t source;  /* address of the text, or 0 when it is not kept in memory */
	size_t length;
	size_t answer_max;
	unsigned char cookie[FLMEM_CPYTHON_COOKIE];
	struct flmem_buf text;	   /* the source, for one that is not kept in memory */
	struct flmem_tasks before; /* the threads of the process when it was written */
};

/*
 * Makes it; `in_memory`: puts the source beside the place of the answer, else that stays zero.
 * FLMEM_EUNSAFE when it does not fit. Clear it in any case.
 */
int flmem_cpython_injected_write(const struct flmem_cpython_session *session, bool in_memory,
				 struct flmem_cpython_injected *injected, struct flmem_error *err);

/*
 * Waits for the answer and takes it into visit->result, then shortly for the end of the thread that
 * gave it. FLMEM_EFAILED: not in time.
 */
int flmem_cpython_injected_await(const struct flmem_cpython_session *session,
				 const struct flmem_cpython_injected *injected,
				 struct flmem_error *err);

/* Makes the padding zero again; not while the interpreter may still take the code up. */
void flmem_cpython_injected_erase(const struct flmem_cpython_session *session,
				  const struct flmem_cpython_injected *injected);

void flmem_cpython_injected_clear(struct flmem_cpython_injected *injected);

#define FLMEM_AUTO_CPYTHON_INJECTED FLMEM_AUTO(flmem_cpython_injected_clear)

#endif
