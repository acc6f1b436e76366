/* SPDX-License-Identifier: Apache-2.0 */
#include "series/history.h"

void flmem_history_init(struct flmem_history *history, uint64_t width_us)
{
	history->width_us = width_us;
	history->samples = 0;
	history->count = 0;
}

void flmem_history_add(struct flmem_history *history, uint64_t at_us, uint64_t bytes)
{
	struct flmem_span span;

	history->samples++;
	if (flmem_spans_take(history->spans, history->count, history->width_us, at_us, bytes,
			     &span))
		return;
	while (history->count == FLMEM_HISTORY_SPANS)
		history->count =
			flmem_spans_widen(history->spans, history->count, &history->width_us);
	history->spans[history->count++] = span;
}

size_t flmem_history_points(const struct flmem_history *history,
			    struct flmem_trend_point *ret_points)
{
	size_t count = history->samples / FLMEM_HISTORY_POINT_SAMPLES;

	if (count > FLMEM_HISTORY_POINTS)
		count = FLMEM_HISTORY_POINTS;
	if (count > history->count)
		count = history->count;
	for (size_t i = 0; i < count; i++) {
		size_t first = i * history->count / count, end = (i + 1) * history->count / count;
		struct flmem_span group = history->spans[first];

		for (size_t k = first + 1; k < end; k++)
			flmem_span_absorb(&group, &history->spans[k]);
		ret_points[i] = (struct flmem_trend_point){
			.at_us = group.first_us + (group.last_us - group.first_us) / 2,
			.bytes = group.low_bytes,
		};
	}
	return count;
}
