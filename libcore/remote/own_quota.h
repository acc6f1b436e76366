/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_OWN_QUOTA_H
#define FLMEM_REMOTE_OWN_QUOTA_H

#include <stdint.h>

/*
 * The control group of flmem may have a quota of processor time. Where flmem has used it, a thread
 * that it holds stands until the next period. Sleeps for one period, so that the quota is whole
 * when the hold begins. Returns at once if no quota is visible. Returns the quota in nanoseconds;
 * UINT64_MAX: none.
 */
uint64_t flmem_own_quota_await(void);

#endif
