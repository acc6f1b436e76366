/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_VARINT_H
#define FLMEM_BASE_VARINT_H

/*
 * Numbers in seven bits per byte, lowest first; the eighth bit means that more bytes follow
 * (LEB128).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"

void flmem_varint_put(struct flmem_buf *buf, uint64_t number);

/*
 * Reads a number and moves *at past it; false when it does not end before `end` or exceeds 64 bits.
 */
bool flmem_varint_take(const char *bytes, size_t end, size_t *at, uint64_t *ret_number);

/* Maps small differences of either sign to small numbers: 0, -1, 1, -2 become 0, 1, 2, 3. */
static inline uint64_t flmem_varint_fold(uint64_t from, uint64_t to)
{
	int64_t difference = (int64_t)(to - from);

	return ((uint64_t)difference << 1) ^ (uint64_t)(difference >> 63);
}

static inline uint64_t flmem_varint_unfold(uint64_t from, uint64_t folded)
{
	return from + ((folded >> 1) ^ (0 - (folded & 1)));
}

#endif
