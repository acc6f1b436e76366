/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_PRIORITY_H
#define FLMEM_REMOTE_PRIORITY_H

/*
 * The scheduling of the calling thread while a thread of another process waits for it: exact
 * sleeps, and the lowest real-time priority where the caller may have it (CAP_SYS_NICE or
 * RLIMIT_RTPRIO), so that a busy machine does not make the other one wait. Undone by a destructor.
 */

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct flmem_priority {
	bool raised;
	int policy; /* to go back to; so the next */
	struct sched_param param;
	unsigned long slack_ns; /* 0: it was not changed */
};

struct flmem_priority flmem_priority_raise(void);
void flmem_priority_restore(struct flmem_priority *priority);

#define FLMEM_AUTO_PRIORITY FLMEM_AUTO(flmem_priority_restore) __attribute__((unused))

/*
 * Waits a moment between two checks of something that has been awaited for `spent_us`: the processor
 * is offered to others at first, later the thread sleeps, at most `longest_us`. At real-time
 * priority it always sleeps: spinning would keep the awaited thread from this processor.
 */
void flmem_priority_pause(const struct flmem_priority *priority, uint64_t spent_us,
			  uint64_t longest_us);

#endif
