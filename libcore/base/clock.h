/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_CLOCK_H
#define FLMEM_BASE_CLOCK_H

/* Monotonic time, the same clock in every process of a host, unless noted otherwise. */

#include <stdint.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/cleanup.h"

static inline uint64_t flmem_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static inline uint64_t flmem_clock_us(void)
{
	return flmem_clock_ns() / 1000U;
}

/* Processor time of the calling thread: time in which the scheduler runs others does not count. */
static inline uint64_t flmem_clock_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* Time since 1970-01-01 UTC; it may jump. */
static inline uint64_t flmem_clock_wall_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000U + (uint64_t)now.tv_nsec / 1000U;
}

/* End of a wait on CLOCK_MONOTONIC (flmem_cond_init_monotonic()). */
static inline struct timespec flmem_clock_after_us(uint64_t us)
{
	uint64_t end = flmem_clock_ns() + us * 1000U;

	return (struct timespec){.tv_sec = (time_t)(end / 1000000000U),
				 .tv_nsec = (long)(end % 1000000000U)};
}

static inline void flmem_clock_sleep_us(uint64_t us)
{
	struct timespec time = {.tv_sec = (time_t)(us / 1000000U),
				.tv_nsec = (long)(us % 1000000U) * 1000};

	nanosleep(&time, NULL);
}

/*
 * Sets the timer slack of this thread to the minimum, while a borrowed thread waits for it. Returns
 * the previous value to restore; 0: nothing was changed.
 */
static inline unsigned long flmem_clock_minimise_slack(void)
{
	int slack = prctl(PR_GET_TIMERSLACK);

	if (slack > 1)
		prctl(PR_SET_TIMERSLACK, 1UL);
	return slack > 1 ? (unsigned long)slack : 0;
}

static inline void flmem_cleanup_timer_slack(const unsigned long *slack)
{
	if (*slack)
		prctl(PR_SET_TIMERSLACK, *slack);
}

/* clang 14 warns about a variable that only its cleanup reads as unused. */
#define FLMEM_AUTO_TIMER_SLACK FLMEM_AUTO(flmem_cleanup_timer_slack) __attribute__((unused))

#endif
