/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_AMOUNTS_H
#define FLMEM_PROFILER_AMOUNTS_H

/* Sums up amounts. A sum beyond 64 bits, which only a hostile file has, stays at the maximum. */

#include <flmem/heap_profile.h>

static inline uint64_t flmem_amount_sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline void flmem_amounts_add(struct flmem_heap_amounts *sum,
				     const struct flmem_heap_amounts *more)
{
	for (size_t i = 0; i < FLMEM_HEAP_MEASURE_COUNT; i++) {
		sum->bytes[i] = flmem_amount_sum(sum->bytes[i], more->bytes[i]);
		sum->count[i] = flmem_amount_sum(sum->count[i], more->count[i]);
	}
}

#endif
