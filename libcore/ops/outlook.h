/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_OUTLOOK_H
#define FLMEM_OPS_OUTLOOK_H

/* What a watch has learnt: trend, nearest limit, forecast, and limits of the options passed. */

#include <flmem/watch.h>

#include "ops/followed.h"

/*
 * Fills a result for each followed process. Limits are looked up now, so for those that still run.
 * Command and site move from the process into its result.
 */
int flmem_outlook_make(const struct flmem_watch_options *options,
		       struct flmem_followed *const *followed, size_t count,
		       struct flmem_watch_result *ret_results, struct flmem_error *err);

#endif
