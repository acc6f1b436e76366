/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_FORK_GATE_H
#define FLMEM_OPS_PROFILE_FORK_GATE_H

/*
 * A gate for the forks of a process: while it is closed they wait. A child that is forked in the
 * middle of dlopen() has the linker as it is at that moment, and no thread of the child finishes
 * it. The sampler's own handlers of forks are in the library that is loaded then, so this gate
 * comes without the linker: two pages, and handlers in them that are registered as pthread_atfork()
 * does. They stay there, open.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>

#include "ops/target/inspection.h"
#include "preload/address_space.h"
#include "runtimes/cpython_call.h"

/* Also known to the code. */
#define FLMEM_FORK_GATE_PAGE FLMEM_PAGE_MAX

/* The second page; the code in the first one knows its distance. */
struct flmem_fork_gate_data {
	uint64_t magic;
	uint32_t forks;	 /* forks that went through the gate and have not ended */
	uint32_t closed; /* 0: open; else the number of this closing */
	uint32_t registered;
};

/* The code of the first page, by its handlers in this order. It lies among constants. */
extern const unsigned char flmem_fork_gate_prepare[], flmem_fork_gate_parent[],
	flmem_fork_gate_child[], flmem_fork_gate_end[];

struct flmem_fork_gate {
	struct flmem_target_inspection *target;
	uint64_t address;
	uint32_t number; /* of the present closing */
};

/* Makes calls in a thread of the process. */
typedef int flmem_fork_gate_call(void *context, const struct flmem_cpython_function *function,
				 struct flmem_error *err);

/*
 * Makes an open gate, or finds one that an earlier attempt has made, and waits until every fork
 * calls it; renews the inspection. FLMEM_EUNSUPPORTED: the process may map no executable memory.
 */
int flmem_fork_gate_make(struct flmem_fork_gate *gate, flmem_fork_gate_call *call, void *context,
			 struct flmem_error *err);

/*
 * Closes it and waits for forks that are on their way; FLMEM_EUNSAFE where one takes too long. The
 * forks that wait open it after about two seconds, if flmem does not.
 */
int flmem_fork_gate_close(void *gate, struct flmem_error *err);

/* Opens it, unless the calls may still be made. */
void flmem_fork_gate_open(void *gate, bool is_over);

#endif
