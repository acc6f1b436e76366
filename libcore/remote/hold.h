/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_HOLD_H
#define FLMEM_REMOTE_HOLD_H

/*
 * What protects a stopped thread of another process from its tracer: between the interrupt and the
 * detach nothing may stop the calling thread. Undone by a destructor.
 */

#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "base/cleanup.h"

struct flmem_hold {
	sigset_t before; /* signal mask to go back to */
	timer_t timer;
	bool limited;
};

/*
 * Whether the kernel may kill this process when it has held a thread for three seconds, which frees
 * the thread. That works on a process that is stopped (SIGSTOP) or frozen (cgroup v2) meanwhile.
 * Not for a library in a program of others; off at first.
 */
void flmem_hold_expend_process(bool expendable);

/* Blocks every signal in the calling thread; sets the limit where this process is expendable. */
struct flmem_hold flmem_hold_begin(void);
void flmem_hold_end(struct flmem_hold *hold);

#define FLMEM_AUTO_HOLD FLMEM_AUTO(flmem_hold_end) __attribute__((unused))

#endif
