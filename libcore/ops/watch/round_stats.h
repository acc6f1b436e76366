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

/* Number of points kept; when there are more, pairs are averaged. */
#define FLMEM_ROUND_POINTS 128U

/*
 * Number of warm-up rounds at the start of a process, in which caches fill; the trend excludes
 * them.
 */
#define FLMEM_ROUND_WARM_UP 2U

struct flmem_round_stats {
	bool running, settling;
	uint64_t interval_us;
	struct flmem_watch_round now;  /* the running round */
	struct flmem_watch_round last; /* the last round, while its trough is measured */
	uint64_t settled_us;	       /* time at which that measurement ends */
	struct flmem_u64 trough_bytes; /* trough of the round before */
	uint64_t complete;
	uint64_t skipped; /* warm-up rounds that the trend still excludes */
	bool fresh;	  /* the process is younger than the watch */
	bool trims;	  /* memory is released after rounds; other rounds are not comparable */
	bool trimmed;	  /* memory was released after the last round */
	bool any;	  /* a round has started; `number` and `ordinal` belong to the last one */
	bool fell;	  /* `number` of the last round is lower than the one before */
	uint64_t number, ordinal;
	uint64_t changes;		  /* number of changes to the points */
	size_t count, per_point, in_last; /* points, rounds per point, rounds in the last point */
	struct flmem_trend_point points[FLMEM_ROUND_POINTS];
};

/*
 * Initialises the statistics. `fresh`: the process started during the watch, so its next rounds are
 * its first.
 */
void flmem_round_stats_init(struct flmem_round_stats *stats, uint64_t interval_us, bool fresh);

/*
 * The next functions return true, with the round, if they have completed one. Times never decrease.
 */
bool flmem_round_stats_sample(struct flmem_round_stats *stats, uint64_t now_us, uint64_t bytes,
			      struct flmem_watch_round *ret_round);
bool flmem_round_stats_start(struct flmem_round_stats *stats, uint64_t now_us, uint64_t number,
			     struct flmem_watch_round *ret_round);
bool flmem_round_stats_finish(struct flmem_round_stats *stats, uint64_t now_us,
			      struct flmem_watch_round *ret_round);

/* Sets the kernel's own peak since the start of the running round: no sample can be higher. */
void flmem_round_stats_exact_peak(struct flmem_round_stats *stats, uint64_t bytes);

/* Sets the kernel's peak of the process's control group since then. */
void flmem_round_stats_group_peak(struct flmem_round_stats *stats, struct flmem_u64 bytes);

/*
 * Notes that retained memory was just released. From now on only rounds that end with a release
 * become points, because the others end at another level.
 */
void flmem_round_stats_trimmed(struct flmem_round_stats *stats);

/* Notes that no more releases are expected. */
void flmem_round_stats_trims_stop(struct flmem_round_stats *stats);

/* Completes the round whose trough is being measured when the watch ends. */
bool flmem_round_stats_flush(struct flmem_round_stats *stats, struct flmem_watch_round *ret_round);

#endif
