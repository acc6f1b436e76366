/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_ROUND_STATS_H
#define FLMEM_OPS_WATCH_ROUND_STATS_H

/*
 * The memory of one process in each round: its peak within the round, and its trough after the end,
 * when the round's memory has been released and that of the next one is not allocated yet. The
 * trend is computed on the troughs, which compare the same phase of each round.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/trend.h>
#include <flmem/watch.h>

/* Points kept; when there are more, pairs are averaged. */
#define FLMEM_ROUND_POINTS 128U

/* Warm-up rounds at the start of a process, in which caches fill; the trend excludes them. */
#define FLMEM_ROUND_WARM_UP 2U

struct flmem_round_stats {
	bool running, settling;
	uint64_t interval_us;
	struct flmem_watch_round now;  /* while it runs */
	struct flmem_watch_round last; /* while its trough is looked for */
	uint64_t settled_us;	       /* when that is over */
	struct flmem_u64 trough_bytes; /* of the round before */
	uint64_t complete;
	uint64_t skipped; /* rounds that are still to be left out as warm-up */
	bool fresh;	  /* the process is younger than the watch */
	bool trims;	  /* retained memory is given back after rounds: others are no like phase */
	bool trimmed;	  /* it was, after the last one */
	bool any;	  /* a round has started; `number` and `ordinal` are of the last one */
	uint64_t number, ordinal;
	uint64_t changes;		  /* of the points */
	size_t count, per_point, in_last; /* points, rounds in each, rounds in the last one */
	struct flmem_trend_point points[FLMEM_ROUND_POINTS];
};

/* `fresh`: the process came after the watch began, so its next rounds are its first. */
void flmem_round_stats_init(struct flmem_round_stats *stats, uint64_t interval_us, bool fresh);

/* Each gives true with the round that it completed. Times only go forward. */
bool flmem_round_stats_sample(struct flmem_round_stats *stats, uint64_t now_us, uint64_t bytes,
			      struct flmem_watch_round *ret_round);
bool flmem_round_stats_start(struct flmem_round_stats *stats, uint64_t now_us, uint64_t number,
			     struct flmem_watch_round *ret_round);
bool flmem_round_stats_finish(struct flmem_round_stats *stats, uint64_t now_us,
			      struct flmem_watch_round *ret_round);

/*
 * Retained memory was released just now: from now on only rounds that end with a release are
 * points, because the others end at another level.
 */
void flmem_round_stats_trimmed(struct flmem_round_stats *stats);

/* That does not happen any more. */
void flmem_round_stats_trims_stop(struct flmem_round_stats *stats);

/* The round whose trough was still looked for, as the watch ends. */
bool flmem_round_stats_flush(struct flmem_round_stats *stats, struct flmem_watch_round *ret_round);

#endif
