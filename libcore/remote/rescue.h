/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_RESCUE_H
#define FLMEM_REMOTE_RESCUE_H

/*
 * Programs that stop their threads by signals (Boehm's collector, Mono, D) wait until each thread
 * has answered, and the thread that stopped them lets them go on. A thread that waits for a lock in
 * the middle of a chain may do neither, and the holder of the lock may be one that was stopped so.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct flmem_guard;
struct flmem_process;
struct flmem_thread_state;

/*
 * True when the thread waits for a lock and a signal is pending for it alone that it handles and
 * that its own mask does not block.
 */
bool flmem_rescue_is_due(const struct flmem_process *process, pid_t tid, uint64_t own_mask);

/* Gives it its own mask back if it still waits for a lock: its handlers run, the wait goes on. */
void flmem_rescue_signals(const struct flmem_process *process, pid_t tid, uint64_t own_mask);

/* Context switches, and when they last grew. */
struct flmem_rescue_activity {
	uint64_t switches, at_us;
};

/* What the thread and the others of its process did, for flmem_rescue_is_stuck(). */
struct flmem_rescue_progress {
	struct flmem_rescue_activity own, others;
};

/*
 * True when the lock that the thread waits for has not been released for so long that its holder
 * seems to be stopped. Each release wakes somebody, in turn, so a thread that was woken meanwhile
 * has only been late. `at_us` is a clock that begins with the wait; ask again every few
 * milliseconds, with a progress that begins as zero.
 */
bool flmem_rescue_is_stuck(const struct flmem_process *process, pid_t tid, uint64_t at_us,
			   struct flmem_rescue_progress *progress);

/*
 * Takes the thread out of its chain, back to its own state, if it waits for one of the lock words
 * of the guard: those of glibc's arenas. Who waits for one holds none (malloc_trim takes one after
 * the other), and a lock word of 2 costs its holder a needless wake. False: it does not wait so.
 */
bool flmem_rescue_abandon(const struct flmem_process *process, pid_t tid,
			  const struct flmem_guard *guard, const struct flmem_thread_state *own);

#endif
