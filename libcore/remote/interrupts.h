/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_INTERRUPTS_H
#define FLMEM_REMOTE_INTERRUPTS_H

/*
 * Delays interruptions of flmem while it has stopped a thread of another process: signals are
 * blocked from the stop to the detach, so that nothing stops or ends the calling thread in between.
 * Undone by a destructor.
 */

#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "base/cleanup.h"

struct flmem_interrupts {
	sigset_t before; /* the signal mask to restore */
	timer_t timer;
	bool limited;
};

/*
 * Sets whether the kernel may kill this process once it has held a thread for three seconds, which
 * frees the thread. This works even if this process is stopped (SIGSTOP) or frozen (cgroup v2). Off
 * by default, because a library must not risk the program that uses it.
 */
void flmem_interrupts_limit_hold(bool limited);

/* Blocks every signal in the calling thread; starts the limit if this process has one. */
struct flmem_interrupts flmem_interrupts_defer(void);

/*
 * Returns false if this process has a limit that could not be set for this thread: timers count as
 * pending signals of the user, whose number is limited (ulimit -i).
 */
bool flmem_interrupts_may_hold(void);

/* Restarts the limit: the caller runs, and holds no thread yet. */
void flmem_interrupts_renew(void);

/* Restores the signal mask. The timer is kept for the next hold of this thread. */
void flmem_interrupts_restore(struct flmem_interrupts *interrupts);

/* Releases the timer, before a thread ends that has held threads. */
void flmem_interrupts_end(void);

#define FLMEM_AUTO_INTERRUPTS FLMEM_AUTO(flmem_interrupts_restore) __attribute__((unused))

#endif
