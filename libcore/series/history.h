/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_HISTORY_H
#define FLMEM_SERIES_HISTORY_H

/*
 * Keeps a history of any length in bounded memory: equal time spans with the lowest and the highest
 * value of each. When there are too many spans, pairs are merged, so the span length doubles.
 */

#include <stddef.h>
#include <stdint.h>

#include <flmem/trend.h>

#include "base/text/spans.h"

/* Limit of spans; after a merge half of them are left. */
#define FLMEM_HISTORY_SPANS 96U

/* Maximum number of points for a trend; each is the lowest of several samples. */
#define FLMEM_HISTORY_POINTS	    48U
#define FLMEM_HISTORY_POINT_SAMPLES 4U

struct flmem_history {
	uint64_t width_us; /* length of a span */
	uint64_t samples;
	size_t count;
	struct flmem_span spans[FLMEM_HISTORY_SPANS];
};

/*
 * Initialises a history. `width_us` is the length of the first spans, ideally the sampling
 * interval; not 0.
 */
void flmem_history_init(struct flmem_history *history, uint64_t width_us);

/* Adds a sample. Samples are in order of time; an older one gets the time of the last one. */
void flmem_history_add(struct flmem_history *history, uint64_t at_us, uint64_t bytes);

/*
 * Fills in the lowest values of groups of spans, at most FLMEM_HISTORY_POINTS, so that most points
 * hold the bottom of a sawtooth. `round` of a point is the number of rises and falls until its end.
 * Returns the number of points.
 */
size_t flmem_history_points(const struct flmem_history *history,
			    struct flmem_trend_point *ret_points);

#endif
