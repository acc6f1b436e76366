/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_FORK_GATE_H
#define FLMEM_OPS_PROFILE_FORK_GATE_H

/*
 * A gate that makes the forks of a process wait while it is closed. A child that is forked in the
 * middle of dlopen() has the dynamic linker in its state at that moment, and no thread of the child
 * finishes the work. The sampler's own fork handlers are in the library that is being loaded, so
 * the gate must not need the linker: it is two pages, with handlers that are registered as
 * pthread_atfork() does. The pages stay in the process, with the gate open.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>

#include "ops/target/inspection.h"
#include "preload/address_space.h"
#include "runtimes/cpython_call.h"

/* Size of the pages, which the code also knows. */
#define FLMEM_FORK_GATE_PAGE FLMEM_PAGE_MAX

/* The contents of the second page; the code in the first page knows its distance. */
struct flmem_fork_gate_data {
	uint64_t magic;
	uint32_t forks;	 /* number of forks that passed the gate and have not ended */
	uint32_t closed; /* 0: open; else the number that identifies this closing */
	uint32_t registered;
};

/* The code of the first page: its handlers in this order. It lies among the constants of flmem. */
extern const unsigned char flmem_fork_gate_prepare[], flmem_fork_gate_parent[],
	flmem_fork_gate_child[], flmem_fork_gate_end[];

struct flmem_fork_gate {
	struct flmem_target_inspection *target;
	uint64_t address;
	uint32_t number; /* number of the current closing */
};

/* Makes one call in a thread of the process. */
typedef int flmem_fork_gate_call(void *context, const struct flmem_cpython_function *function,
				 struct flmem_error *err);

/*
 * Makes an open gate, or finds one that an earlier attempt has made, and waits until every fork
 * calls it. Renews the inspection. FLMEM_EUNSUPPORTED if the process may map no executable memory.
 */
int flmem_fork_gate_make(struct flmem_fork_gate *gate, flmem_fork_gate_call *call, void *context,
			 struct flmem_error *err);

/*
 * Closes the gate and waits for forks that have passed it. FLMEM_EUNSAFE if one takes too long. If
 * flmem does not open the gate, the waiting forks do after about two seconds.
 */
int flmem_fork_gate_close(void *gate, struct flmem_error *err);

/* Opens the gate, unless the calls may still be made (`is_over` false). */
void flmem_fork_gate_open(void *gate, bool is_over);

#endif
