/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_tcache.h"

#include <string.h>

#define SMALL_BINS 64U /* lists that hold chunks of one size each */

static unsigned read_tcache_count(const struct flmem_glibc_layout *layout, uint64_t places,
				  const unsigned char *bytes, unsigned bin)
{
	uint16_t count = bytes[bin];

	if (layout->tcache.count_bytes == 2)
		memcpy(&count, bytes + 2 * bin, sizeof(count));
	/* A thread starts with all places free, so a larger count is invalid. */
	return layout->tcache.counts_free ? (unsigned)(places - count) : count;
}

static uint64_t read_tcache_entry(const struct flmem_glibc_layout *layout,
				  const unsigned char *bytes, unsigned bin)
{
	uint64_t entry;

	memcpy(&entry, bytes + layout->tcache.bins * layout->tcache.count_bytes + 8 * bin,
	       sizeof(entry));
	return entry;
}

/* Returns the size of the list's first chunk; 0 when the chunk is missing or has a wrong size. */
static uint64_t read_first_size(struct flmem_peek *peek, uint64_t entry, unsigned bin)
{
	uint64_t size;

	if (entry % FLMEM_GLIBC_ALIGNMENT || entry < 16 ||
	    flmem_peek_read(peek, entry - 8, &size, sizeof(size)))
		return 0;
	size &= ~(uint64_t)FLMEM_GLIBC_SIZE_BITS;
	if (bin < SMALL_BINS)
		return size == 16U * bin + FLMEM_GLIBC_MIN_CHUNK ? size : 0;
	return size > 16U * SMALL_BINS ? size : 0;
}

bool flmem_glibc_tcache_read(struct flmem_peek *peek, const struct flmem_glibc_layout *layout,
			     uint64_t places, const unsigned char *bytes, uint64_t *cached_bytes)
{
	uint64_t sum = 0;

	for (unsigned bin = 0; bin < layout->tcache.bins; bin++) {
		unsigned count = read_tcache_count(layout, places, bytes, bin);
		bool empty = read_tcache_entry(layout, bytes, bin) == 0;

		if (count > places || empty != (count == 0))
			return false;
	}
	for (unsigned bin = 0; bin < layout->tcache.bins; bin++) {
		uint64_t entry = read_tcache_entry(layout, bytes, bin);
		uint64_t size = entry ? read_first_size(peek, entry, bin) : 0;

		if (entry && !size)
			return false;
		sum += size * read_tcache_count(layout, places, bytes, bin);
	}
	*cached_bytes += sum;
	return sum > 0;
}
