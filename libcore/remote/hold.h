/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_HOLD_H
#define FLMEM_REMOTE_HOLD_H

/*
 * Protects a stopped thread of another process from delays in its tracer: nothing may stop the
 * calling thread between the interrupt and the detach. Undone by a destructor.
 */

#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "base/cleanup.h"

struct flmem_hold {
	sigset_t before; /* the signal mask to restore */
	timer_t timer;
	bool limited;
};

/*
 * Whether the kernel may kill this process if it has held a thread for three seconds, which frees
 * the thread. That works even if this process is stopped (SIGSTOP) or frozen (cgroup v2). Not for a
 * library inside another program; off by default.
 */
void flmem_hold_expend_process(bool expendable);

/* Blocks every signal in the calling thread; sets the limit if this process is expendable. */
struct flmem_hold flmem_hold_begin(void);
void flmem_hold_end(struct flmem_hold *hold);

#define FLMEM_AUTO_HOLD FLMEM_AUTO(flmem_hold_end) __attribute__((unused))

#endif
