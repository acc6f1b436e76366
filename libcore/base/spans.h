/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_SPANS_H
#define FLMEM_BASE_SPANS_H

/* Samples of any length of time in bounded memory: spans, of each the lowest and the highest. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flmem_span {
	uint64_t first_us, last_us; /* of its first and last sample */
	uint64_t low_bytes, high_bytes;
};

/* Makes the span one that holds the other, too, which is the later one. */
void flmem_span_absorb(struct flmem_span *span, const struct flmem_span *other);

/*
 * Whether the last of `count` spans took the sample, as it is not wider than `width_us` with it.
 * If not, *ret_span is the sample as a span of its own. One from the past is taken for as new as
 * the last.
 */
bool flmem_spans_take(struct flmem_span *spans, size_t count, uint64_t width_us, uint64_t at_us,
		      uint64_t bytes, struct flmem_span *ret_span);

/*
 * Doubles the width (of at least 1 us); neighbours that fit into one span become one, those beside
 * a gap do not. Returns how many there are now.
 */
size_t flmem_spans_widen(struct flmem_span *spans, size_t count, uint64_t *width_us);

#endif
