/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_PRIORITY_H
#define FLMEM_REMOTE_PRIORITY_H

/*
 * The scheduling of the calling thread while a thread of another process waits for it: exact
 * sleeps, and the highest share of the processor where the caller may have it (CAP_SYS_NICE or
 * RLIMIT_NICE), so that a busy machine does not make the other one wait. Undone by a destructor.
 *
 * Not a real-time class: at such a priority flmem cannot offer its processor to the thread that it
 * awaits, which the scheduler often puts behind it on the same one.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct flmem_priority {
	bool raised;
	int nice;		/* to go back to */
	unsigned long slack_ns; /* 0: it was not changed */
};

struct flmem_priority flmem_priority_raise(void);
void flmem_priority_restore(struct flmem_priority *priority);

#define FLMEM_AUTO_PRIORITY FLMEM_AUTO(flmem_priority_restore) __attribute__((unused))

/*
 * Waits a moment between two checks of something that has been awaited for `spent_us`: offers the
 * processor to others at first, and later sleeps for `sleep_us`.
 */
void flmem_priority_pause(uint64_t spent_us, uint64_t sleep_us);

#endif
