/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_FORECAST_STATE_H
#define FLMEM_OPS_WATCH_FORECAST_STATE_H

/* What a watch has learnt: trend, nearest limit, forecast, and limits of the options passed. */

#include "ops/watch/gpu_use.h"
#include "ops/watch/watch_state.h"

/*
 * The trend of what has been seen of the process so far. It is kept in `followed`, for it takes a
 * million instructions and is asked for more often than there are samples.
 */
void flmem_forecast_trend(struct flmem_watched_process *watched, struct flmem_trend *ret_trend);

struct flmem_cgroups;

/* Where limits come from, looked up once for all processes; all zero: none can be told. */
struct flmem_forecast_limits {
	struct flmem_cgroups *cgroups;
	struct flmem_u64 host_total, host_left;
	struct flmem_gpu_use gpus;
};

int flmem_forecast_limits_open(struct flmem_forecast_limits *ret_limits, struct flmem_error *err);
void flmem_forecast_limits_close(struct flmem_forecast_limits *limits);

/*
 * What has been learnt of one process so far. Its command and site move into the result. `options`
 * may be NULL: then nothing is found.
 */
void flmem_forecast_of(struct flmem_forecast_limits *limits,
		       const struct flmem_watch_options *options,
		       struct flmem_watched_process *watched,
		       struct flmem_watch_result *ret_result);

/*
 * Fills a result for each followed process. With `live` limits are looked up, as they are now, of
 * those that still run. Command and site move from the process into its result.
 */
int flmem_forecast_make(const struct flmem_watch_state *watch_state, bool live,
			struct flmem_watch_result *ret_results, struct flmem_error *err);

#endif
