/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/own_quota.h"

#include "base/clock.h"
#include "proc/limits/cpu_quota.h"

/* The kernel allows no longer period. */
#define PERIOD_US_MAX 1000000U

#define NS_PER_US 1000U

struct flmem_own_quota flmem_own_quota_await(void)
{
	const struct flmem_cpu_quota quota = flmem_cpu_quota_read_own();
	struct flmem_own_quota own = {.least_ns = UINT64_MAX};

	if (quota.longest_period_us) {
		own.period_us = quota.longest_period_us < PERIOD_US_MAX ? quota.longest_period_us
									: PERIOD_US_MAX;
		flmem_clock_sleep_us(own.period_us);
	}
	if (quota.least_us < UINT64_MAX / NS_PER_US)
		own.least_ns = quota.least_us * NS_PER_US;
	own.begun_us = flmem_clock_us();
	own.begun_cpu_ns = flmem_clock_cpu_ns();
	return own;
}

bool flmem_own_quota_lasts(const struct flmem_own_quota *quota)
{
	const uint64_t used_ns = flmem_clock_cpu_ns() - quota->begun_cpu_ns;
	uint64_t periods = 1;

	if (quota->period_us)
		periods += (flmem_clock_us() - quota->begun_us) / quota->period_us;
	return used_ns / periods <= quota->least_ns / 2;
}
