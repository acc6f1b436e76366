/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_QUIET_STOP_H
#define FLMEM_REMOTE_CHECKS_QUIET_STOP_H

/*
 * Decides whether a thread can be stopped without its program noticing. On x86-64 every wait of
 * remote/checks/waits.h continues after a stop. On aarch64 the kernel decides before the stop: a
 * call that ends with plain EINTR hides its first argument
 * (docs/internals/borrowing-on-aarch64.md). So flmem stops only threads there that sleep in a call
 * which the kernel itself restarts, and that have slept for a while: the shorter a thread has
 * slept, the more likely it wakes between its last check and the stop. remote/call_return_aarch64.c
 * repeats calls that still end with EINTR.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "remote/checks/candidates.h"
#include "remote/gadgets.h"

struct flmem_maps;
struct flmem_process;

/* The threads that one borrowing has found asleep so far, and since when. */
struct flmem_quiet_sleepers {
	struct {
		pid_t tid;
		uint64_t sleeps, losses, since_us;
	} rows[FLMEM_CANDIDATES_MAX];
	size_t count;
};

#ifdef __aarch64__

/* True if a kernel of this release reports the argument that the stop of a call has hidden. */
bool flmem_quiet_stop_fits_kernel(const char *release);

/*
 * Returns why a stop may end this wait with EINTR (static), or NULL. Without `maps`, waits that
 * need them are refused.
 */
const char *flmem_quiet_stop_refuses(const struct flmem_process *process,
				     const struct flmem_maps *maps, pid_t tid,
				     const struct flmem_task_wait *at);

/*
 * Returns why no thread is stopped while it computes, or NULL: the call that it makes next is
 * unknown.
 */
const char *flmem_quiet_stop_refuses_computing(void);

/*
 * Records the threads that were found; those that have not moved keep the time they were first
 * seen.
 */
void flmem_quiet_stop_note(struct flmem_quiet_sleepers *sleepers,
			   const struct flmem_candidates *found);

/* Returns why this recorded thread must not be stopped yet, or NULL. */
const char *flmem_quiet_stop_is_new(const struct flmem_quiet_sleepers *sleepers, pid_t tid);

/*
 * Returns the time until one of the threads that have not slept long enough has done so; 0: there
 * is none.
 */
uint64_t flmem_quiet_stop_due_us(const struct flmem_quiet_sleepers *sleepers);

/*
 * Opens the file that shows the call of a thread, before it is seized, so that nothing else happens
 * between its last check and the stop. Returns the descriptor or -errno; -1 where nothing is
 * checked.
 */
int flmem_quiet_stop_open(const struct flmem_process *process, pid_t tid);

/*
 * Makes the last check of a seized thread: true if it has slept all the time in the wait in which
 * it was found. status_fd is the result of flmem_status_open_thread().
 */
bool flmem_quiet_stop_sleeps_on(const struct flmem_candidate *candidate, int status_fd,
				int wait_fd);

/*
 * Watches a thread that is not a candidate until it has slept long enough. False if it may not be
 * stopped; otherwise *ret_candidate has what the last check needs.
 */
bool flmem_quiet_stop_watch(const struct flmem_process *process, pid_t tid,
			    struct flmem_candidate *ret_candidate);

/*
 * Waits until a thread sleeps in the park of its chain. False if it does not, or sleeps in another
 * call.
 */
bool flmem_quiet_stop_await_park(const struct flmem_process *process, pid_t tid,
				 const struct flmem_gadgets *gadgets, uint64_t timeout_us);

#else

static inline bool flmem_quiet_stop_fits_kernel(const char *release)
{
	(void)release;
	return true;
}

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

static inline void flmem_quiet_stop_note(struct flmem_quiet_sleepers *sleepers,
					 const struct flmem_candidates *found)
{
	(void)sleepers, (void)found;
}

static inline const char *flmem_quiet_stop_is_new(const struct flmem_quiet_sleepers *sleepers,
						  pid_t tid)
{
	(void)sleepers, (void)tid;
	return NULL;
}

static inline uint64_t flmem_quiet_stop_due_us(const struct flmem_quiet_sleepers *sleepers)
{
	(void)sleepers;
	return 0;
}

static inline int flmem_quiet_stop_open(const struct flmem_process *process, pid_t tid)
{
	(void)process, (void)tid;
	return -1;
}

static inline bool flmem_quiet_stop_sleeps_on(const struct flmem_candidate *candidate,
					      int status_fd, int wait_fd)
{
	(void)candidate, (void)status_fd, (void)wait_fd;
	return true;
}

static inline bool flmem_quiet_stop_watch(const struct flmem_process *process, pid_t tid,
					  struct flmem_candidate *ret_candidate)
{
	(void)process;
	*ret_candidate = (struct flmem_candidate){.tid = tid, .at.number = -1};
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
