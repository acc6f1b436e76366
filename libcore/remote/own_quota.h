/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_OWN_QUOTA_H
#define FLMEM_REMOTE_OWN_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

/* A quota of processor time of the control group of flmem, at the beginning of a period. */
struct flmem_own_quota {
	uint64_t least_ns; /* UINT64_MAX: no quota is visible */
	uint64_t period_us;
	uint64_t begun_us, begun_cpu_ns;
};

/*
 * The control group of flmem may have a quota of processor time. Where flmem has used it, a thread
 * that it holds stands until the next period. Sleeps for one period, so that the quota is whole
 * when the hold begins. Returns at once if no quota is visible.
 */
struct flmem_own_quota flmem_own_quota_await(void);

/* Returns true if the calling thread has used at most half of the quota in each period since. */
bool flmem_own_quota_lasts(const struct flmem_own_quota *quota);

#endif
