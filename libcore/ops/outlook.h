/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_OUTLOOK_H
#define FLMEM_OPS_OUTLOOK_H

/* What a watch has learnt: trend, nearest limit, forecast, and limits of the options passed. */

#include "ops/watching.h"

/*
 * Fills a result for each followed process. With `live` limits are looked up, as they are now, of
 * those that still run. Command and site move from the process into its result.
 */
int flmem_outlook_make(const struct flmem_watching *watching, bool live,
		       struct flmem_watch_result *ret_results, struct flmem_error *err);

#endif
