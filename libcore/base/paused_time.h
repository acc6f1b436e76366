/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_PAUSED_TIME_H
#define FLMEM_BASE_PAUSED_TIME_H

/*
 * Time in which this process did not run: stopped by a signal (Ctrl-Z), a frozen control group, a
 * virtual machine that was paused, or waiting for a disk. Limits for others must not count it.
 */

#include "base/clock.h"

/* A turn of a loop that takes longer was interrupted. */
#define FLMEM_PAUSED_LEAST_US UINT64_C(2000000)

struct flmem_paused_time {
	uint64_t last_us; /* zero-initialised: the first turn has no pause */
};

/* Called in each turn of a loop: the time since the last turn if it is a pause, else 0. */
static inline uint64_t flmem_paused_time_take(struct flmem_paused_time *paused)
{
	uint64_t now_us = flmem_clock_us();
	uint64_t passed_us = paused->last_us ? now_us - paused->last_us : 0;

	paused->last_us = now_us;
	return passed_us >= FLMEM_PAUSED_LEAST_US ? passed_us : 0;
}

/* A time of the past that is later by a pause, and not in the future. */
static inline uint64_t flmem_paused_time_later(uint64_t time_us, uint64_t paused_us)
{
	uint64_t now_us = flmem_clock_us();

	return time_us + paused_us < now_us ? time_us + paused_us : now_us;
}

#endif
