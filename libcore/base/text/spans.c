/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/spans.h"

void flmem_span_absorb(struct flmem_span *span, const struct flmem_span *other)
{
	if (other->last_us > span->last_us)
		span->last_us = other->last_us;
	if (other->low_bytes < span->low_bytes)
		span->low_bytes = other->low_bytes;
	if (other->high_bytes > span->high_bytes)
		span->high_bytes = other->high_bytes;
}

bool flmem_spans_take(struct flmem_span *spans, size_t count, uint64_t width_us, uint64_t at_us,
		      uint64_t bytes, struct flmem_span *ret_span)
{
	struct flmem_span *last = count ? &spans[count - 1] : NULL;
	struct flmem_span sample = {at_us, at_us, bytes, bytes};

	if (last && at_us < last->last_us)
		sample.first_us = sample.last_us = last->last_us;
	if (last && sample.last_us - last->first_us < width_us) {
		flmem_span_absorb(last, &sample);
		return true;
	}
	*ret_span = sample;
	return false;
}

size_t flmem_spans_widen(struct flmem_span *spans, size_t count, uint64_t *width_us)
{
	size_t kept = 0;

	*width_us = *width_us > UINT64_MAX / 2 ? UINT64_MAX : *width_us * 2;
	for (size_t i = 1; i < count; i++) {
		if (spans[i].last_us - spans[kept].first_us < *width_us)
			flmem_span_absorb(&spans[kept], &spans[i]);
		else
			spans[++kept] = spans[i];
	}
	return count ? kept + 1 : 0;
}
