/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_LITTLE_ENDIAN_H
#define FLMEM_BASE_LITTLE_ENDIAN_H

/* Numbers in files, least significant byte first, at any alignment. */

#include <stddef.h>
#include <stdint.h>

/* Reads a number of at most 8 bytes. */
static inline uint64_t flmem_read_little(const void *from, size_t bytes)
{
	const unsigned char *at = from;
	uint64_t value = 0;

	while (bytes-- > 0)
		value = value << 8 | at[bytes];
	return value;
}

static inline void flmem_write_little(void *to, uint64_t value, size_t bytes)
{
	unsigned char *at = to;

	for (; bytes-- > 0; value >>= 8)
		*at++ = (unsigned char)value;
}

#endif
