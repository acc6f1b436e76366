/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_GLIBC_LISTED_H
#define FLMEM_TESTS_GLIBC_LISTED_H

/* Free chunks of an image of glibc's heaps that a list of its main arena names. */

#include "glibc_image.h"

#define UNSORTED 0

/* Three free chunks of the image's heap, which the unsorted bin lists. */
struct listed {
	struct glibc_image *image;
	uint64_t offset[3];
};

static inline uint64_t image_word(const struct glibc_image *image, unsigned area, uint64_t offset)
{
	uint64_t value;

	memcpy(&value, image->areas[area] + offset, sizeof(value));
	return value;
}

static inline uint64_t image_size_at(const struct glibc_image *image, uint64_t offset)
{
	return image_word(image, IMAGE_BRK, offset + 8) & ~(uint64_t)FLMEM_GLIBC_SIZE_BITS;
}

/* Returns the offset in the library's data of the unsorted bin's fd. */
static inline uint64_t image_bin_at(const struct glibc_image *image)
{
	return IMAGE_ARENA_AT + image->layout->bins + 16 * UNSORTED;
}

static inline void listed_join(const struct listed *listed)
{
	const uint64_t head = image_start[IMAGE_DATA] + image_bin_at(listed->image) - 16;
	uint64_t before = head;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(listed->offset); i++) {
		const uint64_t chunk = image_start[IMAGE_BRK] + listed->offset[i];

		if (before == head)
			image_put(listed->image, IMAGE_DATA, image_bin_at(listed->image), chunk);
		else
			image_put(listed->image, IMAGE_BRK, listed->offset[i - 1] + 16, chunk);
		image_put(listed->image, IMAGE_BRK, listed->offset[i] + 16, head);
		image_put(listed->image, IMAGE_BRK, listed->offset[i] + 24, before);
		before = chunk;
	}
	image_put(listed->image, IMAGE_DATA, image_bin_at(listed->image) + 8, before);
}

static inline struct listed listed_make(const struct flmem_glibc_layout *layout)
{
	struct listed listed = {.image = image_new(layout)};
	uint64_t offset = layout->tcache.chunk_bytes;
	size_t count = 0;

	while (count < FLMEM_ARRAY_SIZE(listed.offset)) {
		const uint64_t next = offset + image_size_at(listed.image, offset);

		if (!(image_word(listed.image, IMAGE_BRK, next + 8) & FLMEM_GLIBC_PREV_INUSE))
			listed.offset[count++] = offset;
		offset = next;
	}
	listed_join(&listed);
	return listed;
}

#endif
