/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_tcache.h"

#include <string.h>

#define SMALL_BINS 64U /* those with one size each */

static unsigned count_at(const struct flmem_glibc_layout *layout, uint64_t places,
			 const unsigned char *bytes, unsigned bin)
{
	uint16_t count = bytes[bin];

	if (layout->tcache.count_bytes == 2)
		memcpy(&count, bytes + 2 * bin, sizeof(count));
	/* As a thread starts with all places free, more than that comes out as absurd. */
	return layout->tcache.counts_free ? (unsigned)(places - count) : count;
}

static uint64_t entry_at(const struct flmem_glibc_layout *layout, const unsigned char *bytes,
			 unsigned bin)
{
	uint64_t entry;

	memcpy(&entry, bytes + layout->tcache.bins * layout->tcache.count_bytes + 8 * bin,
	       sizeof(entry));
	return entry;
}

/* Size of the list's first chunk; 0 when there is none of a size that belongs there. */
static uint64_t first_size(struct flmem_peek *peek, uint64_t entry, unsigned bin)
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
		unsigned count = count_at(layout, places, bytes, bin);
		bool empty = entry_at(layout, bytes, bin) == 0;

		if (count > places || empty != (count == 0))
			return false;
	}
	for (unsigned bin = 0; bin < layout->tcache.bins; bin++) {
		uint64_t entry = entry_at(layout, bytes, bin);
		uint64_t size = entry ? first_size(peek, entry, bin) : 0;

		if (entry && !size)
			return false;
		sum += size * count_at(layout, places, bytes, bin);
	}
	*cached_bytes += sum;
	return sum > 0;
}
