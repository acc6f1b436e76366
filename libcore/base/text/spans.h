/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_SPANS_H
#define FLMEM_BASE_SPANS_H

/*
 * Keeps samples over any length of time in bounded memory, as spans with the lowest and the highest
 * value.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flmem_span {
	uint64_t first_us, last_us; /* times of the span's first and last sample */
	uint64_t low_bytes, high_bytes;
};

/* Merges the other, later span into this one. */
void flmem_span_absorb(struct flmem_span *span, const struct flmem_span *other);

/*
 * Adds the sample to the last of `count` spans, if that span stays within `width_us`, and returns
 * true. Otherwise returns false, and *ret_span is a new span for the sample. A sample earlier than
 * the last one gets the time of the last one.
 */
bool flmem_spans_take(struct flmem_span *spans, size_t count, uint64_t width_us, uint64_t at_us,
		      uint64_t bytes, struct flmem_span *ret_span);

/*
 * Doubles the width (of at least 1 us). Neighbours that fit into one span are merged, unless there
 * is a gap between them. Returns the new count.
 */
size_t flmem_spans_widen(struct flmem_span *spans, size_t count, uint64_t *width_us);

#endif
