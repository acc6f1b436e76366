/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_AUTO_TRIM_H
#define FLMEM_OPS_WATCH_AUTO_TRIM_H

/*
 * Automatic trims of a watch: passes its events to the policy (series/policy.h), runs the trims
 * that the policy decides (ops/watch/trim_queue.h), and reports each decision.
 */

#include <flmem/watch.h>

#include "ops/watch/pressures.h"
#include "ops/watch/watch_state.h"

struct flmem_auto;

/* The current time on both clocks. */
struct flmem_clock_times {
	uint64_t now_us; /* since the watch began */
	uint64_t at_us;	 /* since 1970-01-01 UTC */
};

int flmem_auto_open(const struct flmem_watch_auto *options, struct flmem_auto **ret_auto,
		    struct flmem_error *err);
void flmem_auto_free(struct flmem_auto *automatic);

/* Called when the samples of a tick have been taken; also reports the results of earlier trims. */
void flmem_auto_tick(struct flmem_auto *automatic, struct flmem_watch_state *watch_state,
		     const struct flmem_pressures *pressures,
		     const struct flmem_clock_times *moment);

/* Called when a round of the process has ended. */
void flmem_auto_round(struct flmem_auto *automatic, struct flmem_watch_state *watch_state,
		      const struct flmem_pressures *pressures,
		      struct flmem_watched_process *watched,
		      const struct flmem_clock_times *moment);

/*
 * Called when the watch ends: waits for the running trim, reports its result, and starts no others.
 */
void flmem_auto_finish(struct flmem_auto *automatic, struct flmem_watch_state *watch_state,
		       const struct flmem_clock_times *moment);

#endif
