/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CALL_RETURN_H
#define FLMEM_REMOTE_CALL_RETURN_H

/*
 * Returns a thread that flmem has stopped to its own system call, so that a signal that has arrived
 * meanwhile ends that call by the rules of signal(7). On x86-64 the kernel decides that after the
 * stop, from the registers, so the thread is only restored and detached. On aarch64 the kernel has
 * decided before: docs/internals/borrowing-on-aarch64.md.
 */

#include "remote/arch.h"
#include "remote/tracee.h"

struct flmem_process;

/* What is needed to return a thread to its call after a chain. */
struct flmem_call_return {
	const struct flmem_process *process;
	const struct flmem_thread_state *own; /* state of the thread before the calls */
	const struct flmem_scratch *scratch;
	const struct flmem_gadgets *gadgets;
};

/*
 * Restores the stopped thread after a chain; the caller then only has to release it. On any
 * failure, and if flmem dies, the thread has its own state or restores itself. Returns 0 or -errno.
 */
int flmem_call_return_restore(struct flmem_tracee *tracee, const struct flmem_call_return *back);

/* Restores a thread that was stopped and made no call, before it is detached. */
void flmem_call_return_release(struct flmem_tracee *tracee);

#endif
