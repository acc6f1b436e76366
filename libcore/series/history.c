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

/* Smaller movements are not phases of the job. */
#define PHASE_BYTES (UINT64_C(1) << 20)
#define PHASE_SHARE 100U

/* Counts how often memory rose and fell again. */
struct memory_phases {
	uint64_t low, high; /* extremes since the last turn */
	uint64_t least;	    /* smallest movement that counts */
	uint64_t count;
	bool fell; /* memory fell since the last rise */
};

/* Compares a span with earlier ones: the order of the extremes within one span is not known. */
static void count_phases(struct memory_phases *p, const struct flmem_span *span)
{
	if (p->fell && span->high_bytes > p->low && span->high_bytes - p->low >= p->least) {
		p->fell = false;
		p->high = span->high_bytes;
	} else if (!p->fell && p->high > span->low_bytes && p->high - span->low_bytes >= p->least) {
		p->fell = true;
		p->low = span->low_bytes;
		p->count++;
	} else {
		p->low = span->low_bytes < p->low ? span->low_bytes : p->low;
		p->high = span->high_bytes > p->high ? span->high_bytes : p->high;
	}
}

static struct memory_phases first_phase(const struct flmem_history *history)
{
	const struct flmem_span *first = history->spans;
	struct memory_phases p = {.least = PHASE_BYTES, .fell = true};

	if (!history->count)
		return p;
	p.low = first->low_bytes;
	p.high = first->high_bytes;
	if (first->low_bytes / PHASE_SHARE > p.least)
		p.least = first->low_bytes / PHASE_SHARE;
	return p;
}

size_t flmem_history_points(const struct flmem_history *history,
			    struct flmem_trend_point *ret_points)
{
	size_t count = history->samples / FLMEM_HISTORY_POINT_SAMPLES;
	struct memory_phases phases = first_phase(history);

	if (count > FLMEM_HISTORY_POINTS)
		count = FLMEM_HISTORY_POINTS;
	if (count > history->count)
		count = history->count;
	for (size_t i = 0; i < count; i++) {
		size_t first = i * history->count / count, end = (i + 1) * history->count / count;
		struct flmem_span group = history->spans[first];

		for (size_t k = first; k < end; k++) {
			flmem_span_absorb(&group, &history->spans[k]);
			count_phases(&phases, &history->spans[k]);
		}
		ret_points[i] = (struct flmem_trend_point){
			.at_us = group.first_us + (group.last_us - group.first_us) / 2,
			.round = phases.count,
			.bytes = group.low_bytes,
		};
	}
	return count;
}
