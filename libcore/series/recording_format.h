/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_RECORDING_FORMAT_H
#define FLMEM_SERIES_RECORDING_FORMAT_H

/*
 * Constants and checks shared by the writer and the reader of recordings: see series/recording.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#define FLMEM_BLOCK_MAGIC      "FLMB"
#define FLMEM_BLOCK_MAGIC_SIZE (sizeof(FLMEM_BLOCK_MAGIC) - 1)
#define FLMEM_BLOCK_HEADER     12U
#define FLMEM_BLOCK_MAX	       ((size_t)1 << 20)
#define FLMEM_BLOCK_VERSION    1U

static inline uint32_t flmem_block_u32(const char *bytes)
{
	uint32_t number = 0;

	for (unsigned i = 4; i-- > 0;)
		number = number << 8 | (unsigned char)bytes[i];
	return number;
}

static inline void flmem_block_put_u32(char *bytes, uint32_t number)
{
	for (unsigned i = 0; i < 4; i++, number >>= 8)
		bytes[i] = (char)(number & 0xff);
}

static inline uint32_t flmem_block_sum(const char *bytes, size_t length)
{
	return (uint32_t)crc32(0, (const unsigned char *)bytes, (unsigned)length);
}

/*
 * Reports whether these first bytes of a file begin like a recording. A file shorter than a magic
 * counts if a killed writer could have left it.
 */
static inline bool flmem_block_may_begin(const char *bytes, size_t length)
{
	return memcmp(bytes, FLMEM_BLOCK_MAGIC,
		      length < FLMEM_BLOCK_MAGIC_SIZE ? length : FLMEM_BLOCK_MAGIC_SIZE) == 0;
}

/*
 * Returns the length of the records in the block that begins here; 0 when its header cannot be
 * right.
 */
static inline size_t flmem_block_length(const char *header)
{
	size_t length = flmem_block_u32(header + 4);

	if (!flmem_block_may_begin(header, FLMEM_BLOCK_HEADER) || length > FLMEM_BLOCK_MAX)
		return 0;
	return length;
}

static inline bool flmem_block_is_whole(const char *block, size_t length)
{
	return flmem_block_sum(block + FLMEM_BLOCK_HEADER, length) == flmem_block_u32(block + 8);
}

#endif
