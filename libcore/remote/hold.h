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
 * Blocks every signal in the calling thread. `expendable`: the kernel kills this process when it has
 * held the thread for three seconds, which frees it: that works on a process that is stopped
 * (SIGSTOP) or frozen (cgroup v2) meanwhile. Not for libraries in programs of others.
 */
struct flmem_hold flmem_hold_begin(bool expendable);
void flmem_hold_end(struct flmem_hold *hold);

#define FLMEM_AUTO_HOLD FLMEM_AUTO(flmem_hold_end) __attribute__((unused))

#endif
