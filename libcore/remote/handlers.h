/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_HANDLERS_H
#define FLMEM_REMOTE_HANDLERS_H

/*
 * Threads inside signal handlers. A handler may have interrupted anything, the allocator too, and
 * may wait: garbage collectors that stop their threads by signals (Boehm's, Mono's, D's) wait in
 * one until the collecting thread lets them go on. A call that waits for a lock of such a thread
 * ends only after that, and never when the borrowed thread is the collecting one.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "elf/view.h"
#include "remote/arch.h"

/*
 * Whether a signal frame lies between `sp` and `end` on a stack of the process, as far as that can
 * be read without a gap; true when nothing can.
 */
bool flmem_handlers_on_stack(const struct flmem_process *process, uint64_t restorer, uint64_t sp,
			     uint64_t end);

/*
 * The first thread that is in a signal handler, or about to be in one; 0 when none is. A thread on
 * a processor counts when it blocks a signal that the program handles, as a handler does, unless
 * flmem has started it. Only a handler that blocks no signal, not even its own (SA_NODEFER), is not
 * seen while it runs.
 */
pid_t flmem_handlers_find(const struct flmem_view *view, const struct flmem_gadgets *gadgets);

#endif
