/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_HANDLERS_H
#define FLMEM_REMOTE_HANDLERS_H

/*
 * Threads inside signal handlers. A handler may have interrupted any code, also the allocator, and
 * may block: garbage collectors that stop their threads by signals (Boehm's, Mono's, D's) block
 * them in a handler until the collecting thread resumes them. A call that waits for a lock of such
 * a thread returns only after that, and never if the borrowed thread is the collecting one.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "elf/view.h"
#include "remote/arch.h"

struct flmem_handler_search {
	const struct flmem_process *process;
	uint64_t restorer; /* of the C library: struct flmem_gadgets */
	/* A frame counts when one of these signals is blocked now, and not after its return. */
	uint64_t blocked;
};

/*
 * Whether a signal frame lies between `sp` and `end` on a stack of the process, as far as that can
 * be read without a gap; true when nothing can.
 */
bool flmem_handlers_on_stack(const struct flmem_handler_search *search, uint64_t sp, uint64_t end);

/*
 * The first thread that waits in a signal handler, or is about to be in one; 0 when none is. A
 * computing thread that blocks a signal which the program handles is read again for two
 * milliseconds. Not seen: a handler that still computes then, and one that waits with nothing
 * blocked (SA_NODEFER) other than in sigsuspend().
 */
pid_t flmem_handlers_find(const struct flmem_view *view, const struct flmem_gadgets *gadgets);

#endif
