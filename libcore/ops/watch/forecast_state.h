/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_FORECAST_STATE_H
#define FLMEM_OPS_WATCH_FORECAST_STATE_H

/*
 * Computes the results of a watch: trend, nearest limit, forecast, and exceeded limits of the
 * options.
 */

#include "ops/watch/gpu_use.h"
#include "ops/watch/watch_state.h"

/*
 * Measures the trend of the process so far. It is cached in `watched`, because it costs a million
 * instructions and is requested more often than samples are taken.
 */
void flmem_forecast_trend(struct flmem_watched_process *watched, struct flmem_trend *ret_trend);

struct flmem_cgroups;

/* Sources of limits, opened once for all processes; all zero: no limit can be read. */
struct flmem_forecast_limits {
	struct flmem_cgroups *cgroups;
	struct flmem_u64 host_total, host_left;
	struct flmem_gpu_use gpus;
};

int flmem_forecast_limits_open(struct flmem_forecast_limits *ret_limits, struct flmem_error *err);
void flmem_forecast_limits_close(struct flmem_forecast_limits *limits);

/*
 * Computes the result for one process so far. Its command and site move into the result. `options`
 * may be NULL: then there are no findings.
 */
void flmem_forecast_of(struct flmem_forecast_limits *limits,
		       const struct flmem_watch_options *options,
		       struct flmem_watched_process *watched,
		       struct flmem_watch_result *ret_result);

/*
 * Fills a result for each process of the watch. With `live`, reads the current limits of those that
 * still run. Command and site move from the process into its result.
 */
int flmem_forecast_make(const struct flmem_watch_state *watch_state, bool live,
			struct flmem_watch_result *ret_results, struct flmem_error *err);

#endif
