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

/*
 * Whether a signal frame lies between `sp` and `end` on a stack of the process, up to the first
 * unreadable page; true when nothing is readable.
 */
bool flmem_handlers_on_stack(const struct flmem_process *process, uint64_t restorer, uint64_t sp,
			     uint64_t end);

/*
 * The first thread that is in a signal handler, or about to enter one; 0 when none is. A running
 * thread counts when it blocks a signal that the program handles, as a handler does, unless flmem
 * has started it. Only a running handler that blocks no signal, not even its own (SA_NODEFER), is
 * not detected.
 */
pid_t flmem_handlers_find(const struct flmem_view *view, const struct flmem_gadgets *gadgets);

#endif
