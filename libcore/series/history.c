/* SPDX-License-Identifier: Apache-2.0 */
#include "series/history.h"

void flmem_history_init(struct flmem_history *history, uint64_t width_us)
{
	history->width_us = width_us;
	history->samples = 0;
	history->count = 0;
}

static void absorb(struct flmem_span *span, const struct flmem_span *other)
{
	if (other->last_us > span->last_us)
		span->last_us = other->last_us;
	if (other->low_bytes < span->low_bytes)
		span->low_bytes = other->low_bytes;
	if (other->high_bytes > span->high_bytes)
		span->high_bytes = other->high_bytes;
}

/* Neighbours that fit into one span of twice the width; after a gap they do not. */
static void widen(struct flmem_history *h)
{
	size_t kept = 0;

	h->width_us = h->width_us > UINT64_MAX / 2 ? UINT64_MAX : h->width_us * 2;
	for (size_t i = 1; i < h->count; i++) {
		struct flmem_span *last = &h->spans[kept];

		if (h->spans[i].last_us - last->first_us < h->width_us)
			absorb(last, &h->spans[i]);
		else
			h->spans[++kept] = h->spans[i];
	}
	h->count = kept + 1;
}

void flmem_history_add(struct flmem_history *history, uint64_t at_us, uint64_t bytes)
{
	struct flmem_span *last = history->count ? &history->spans[history->count - 1] : NULL;
	struct flmem_span sample = {at_us, at_us, bytes, bytes};

	history->samples++;
	if (last && at_us < last->last_us)
		sample.first_us = sample.last_us = last->last_us;
	if (last && sample.last_us - last->first_us < history->width_us) {
		absorb(last, &sample);
		return;
	}
	while (history->count == FLMEM_HISTORY_SPANS)
		widen(history);
	history->spans[history->count++] = sample;
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
			absorb(&group, &history->spans[k]);
		ret_points[i] = (struct flmem_trend_point){
			.at_us = group.first_us + (group.last_us - group.first_us) / 2,
			.bytes = group.low_bytes,
		};
	}
	return count;
}
