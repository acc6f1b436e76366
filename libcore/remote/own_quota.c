/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/own_quota.h"

#include "base/clock.h"
#include "proc/limits/cpu_quota.h"

/* The kernel allows no longer period. */
#define PERIOD_US_MAX 1000000U

#define NS_PER_US 1000U

uint64_t flmem_own_quota_await(void)
{
	const struct flmem_cpu_quota quota = flmem_cpu_quota_read_own();

	if (quota.longest_period_us)
		flmem_clock_sleep_us(quota.longest_period_us < PERIOD_US_MAX
					     ? quota.longest_period_us
					     : PERIOD_US_MAX);
	return quota.least_us < UINT64_MAX / NS_PER_US ? quota.least_us * NS_PER_US : UINT64_MAX;
}
