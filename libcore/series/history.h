/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_HISTORY_H
#define FLMEM_SERIES_HISTORY_H

/*
 * A history of any length in bounded memory: equal time spans with the lowest and the highest value
 * of each. When there are too many, pairs are merged, so the span length doubles.
 */

#include <stddef.h>
#include <stdint.h>

#include <flmem/trend.h>

#include "base/text/spans.h"

/* Spans kept: from half of it, after a merge, to all. */
#define FLMEM_HISTORY_SPANS 96U

/* Maximum number of points for a trend; each is the lowest of several samples. */
#define FLMEM_HISTORY_POINTS	    48U
#define FLMEM_HISTORY_POINT_SAMPLES 4U

struct flmem_history {
	uint64_t width_us; /* of a span */
	uint64_t samples;
	size_t count;
	struct flmem_span spans[FLMEM_HISTORY_SPANS];
};

/* `width_us` is the length of the first spans, ideally the sampling interval; not 0. */
void flmem_history_init(struct flmem_history *history, uint64_t width_us);

/* Samples are in order of time; an older one gets the time of the last one. */
void flmem_history_add(struct flmem_history *history, uint64_t at_us, uint64_t bytes);

/*
 * The lowest values of groups of spans, at most FLMEM_HISTORY_POINTS, so that most points hold the
 * bottom of a sawtooth, with the rises and falls seen before their end as `round`. Returns how many
 * there are.
 */
size_t flmem_history_points(const struct flmem_history *history,
			    struct flmem_trend_point *ret_points);

#endif
