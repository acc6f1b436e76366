/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_CLOCK_H
#define FLMEM_BASE_CLOCK_H

/* Monotonic time, the same clock in every process of a host. */

#include <stdint.h>
#include <time.h>

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

static inline void flmem_clock_sleep_us(uint64_t us)
{
	struct timespec time = {.tv_sec = (time_t)(us / 1000000U),
				.tv_nsec = (long)(us % 1000000U) * 1000};

	nanosleep(&time, NULL);
}

#endif
