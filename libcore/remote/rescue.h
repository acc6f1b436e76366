/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_RESCUE_H
#define FLMEM_REMOTE_RESCUE_H

/*
 * Frees a thread from a lock wait in its chain. Programs that stop their threads by signals
 * (Boehm's collector, Mono, D) wait until each thread has answered, and the thread that stopped
 * them resumes them. A thread that waits for a lock in the middle of a chain cannot do either, and
 * the holder of the lock may be a thread stopped that way.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct flmem_call_return;
struct flmem_errno_value;
struct flmem_guard;
struct flmem_process;

/*
 * True if the thread waits for a lock and a signal is pending for this thread alone that it handles
 * and that its own mask does not block.
 */
bool flmem_rescue_is_due(const struct flmem_process *process, pid_t tid, uint64_t own_mask);

/*
 * What a chain leaves on the stack of its thread: its cookie, and the last clock reading, which is
 * 0 until its calls have returned.
 */
struct flmem_rescue_mark {
	uint64_t cookie_at, cookie, end_at;
};

/*
 * Restores the thread's own signal mask if it still waits for a lock in this chain: its handlers
 * run, and the wait continues.
 */
void flmem_rescue_signals(const struct flmem_process *process, pid_t tid, uint64_t own_mask,
			  const struct flmem_rescue_mark *mark);

/* Number of context switches, and when it last grew. */
struct flmem_rescue_activity {
	uint64_t switches, at_us;
};

/* Activity of the thread and of the others of its process, for flmem_rescue_is_stuck(). */
struct flmem_rescue_progress {
	struct flmem_rescue_activity own, others;
};

/*
 * True if the lock that the thread waits for has not been released for so long that its holder
 * seems to be stopped. Each release wakes one thread in turn, so a thread that was woken meanwhile
 * is only late. `at_us` is a clock that starts with the wait. Call it every few milliseconds, with
 * `progress` initialised to zero.
 */
bool flmem_rescue_is_stuck(const struct flmem_process *process, pid_t tid, uint64_t at_us,
			   struct flmem_rescue_progress *progress);

/*
 * Takes the thread out of its chain and restores it with its errno, if it waits for one of the lock
 * words of the guard: those of glibc's arenas. Only for calls that hold no lock meanwhile:
 * malloc_trim takes one after the other, but pthread_create() allocates with the dynamic linker's
 * lock held. A lock word of 2 only costs its holder a needless wake. False: it does not wait for
 * one, or not in its chain.
 */
bool flmem_rescue_abandon(pid_t tid, const struct flmem_guard *guard,
			  const struct flmem_call_return *back,
			  const struct flmem_rescue_mark *mark,
			  const struct flmem_errno_value *own_errno);

#endif
