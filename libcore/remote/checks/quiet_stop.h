/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_QUIET_STOP_H
#define FLMEM_REMOTE_CHECKS_QUIET_STOP_H

/*
 * Whether a thread can be stopped without its program noticing. On x86-64 every wait of
 * remote/checks/waits.h goes on after a stop. On aarch64 the kernel decides before the stop: a call
 * that ends with plain EINTR has lost its first argument and cannot be made again
 * (docs/internals/borrowing-on-aarch64.md). So there only threads are stopped that sleep in a call
 * which the kernel itself makes again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "remote/checks/candidates.h"
#include "remote/gadgets.h"

struct flmem_maps;
struct flmem_process;

#ifdef __aarch64__

/*
 * Why a stop may end this wait with EINTR (static), or NULL. Without `maps` a wait that needs them
 * is refused.
 */
const char *flmem_quiet_stop_refuses(const struct flmem_process *process,
				     const struct flmem_maps *maps, pid_t tid,
				     const struct flmem_task_wait *at);

/* Why no thread is stopped while it computes, or NULL: the call that it makes next is unknown. */
const char *flmem_quiet_stop_refuses_computing(void);

/*
 * Waits some milliseconds; the reason if the thread has not slept all the time in the wait that it
 * was found in (static), or NULL. To be called right before it is seized and interrupted.
 */
const char *flmem_quiet_stop_awake(const struct flmem_process *process,
				   const struct flmem_candidate *candidate);

/* The same for a thread that is not a candidate; the wait that it sleeps in where that is asked. */
bool flmem_quiet_stop_is_safe(const struct flmem_process *process, pid_t tid,
			      struct flmem_task_wait *ret_at);

/* Waits until a thread sleeps in the park of its chain; false if not, or in another call. */
bool flmem_quiet_stop_await_park(const struct flmem_process *process, pid_t tid,
				 const struct flmem_gadgets *gadgets, uint64_t timeout_us);

#else

static inline const char *flmem_quiet_stop_refuses(const struct flmem_process *process,
						   const struct flmem_maps *maps, pid_t tid,
						   const struct flmem_task_wait *at)
{
	(void)process, (void)maps, (void)tid, (void)at;
	return NULL;
}

static inline const char *flmem_quiet_stop_refuses_computing(void)
{
	return NULL;
}

static inline const char *flmem_quiet_stop_awake(const struct flmem_process *process,
						 const struct flmem_candidate *candidate)
{
	(void)process, (void)candidate;
	return NULL;
}

static inline bool flmem_quiet_stop_is_safe(const struct flmem_process *process, pid_t tid,
					    struct flmem_task_wait *ret_at)
{
	(void)process, (void)tid, (void)ret_at;
	return true;
}

static inline bool flmem_quiet_stop_await_park(const struct flmem_process *process, pid_t tid,
					       const struct flmem_gadgets *gadgets,
					       uint64_t timeout_us)
{
	(void)process, (void)tid, (void)gadgets, (void)timeout_us;
	return true;
}

#endif

#endif
