/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_PYMALLOC_IMAGE_H
#define FLMEM_TESTS_PYMALLOC_IMAGE_H

/*
 * The memory of a made-up CPython with four arenas, for the reader of arenas: the data of the
 * interpreter, its table of arenas, and the heads of all pools. The rest of the pools is zeroes.
 */

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "proc/maps.h"
#include "proc/peek.h"
#include "runtimes/pymalloc.h"

#define IMAGE_DATA  UINT64_C(0x10000000)
#define IMAGE_TABLE UINT64_C(0x20000000)
#define IMAGE_POOLS UINT64_C(0x30000000)
#define IMAGE_PAGE  UINT64_C(4096)

#define IMAGE_ARENAS  4U
#define IMAGE_OBJECTS 32U
#define IMAGE_HEAD    48U /* length of a pool's head, and of an arena_object */

struct pymalloc_image {
	uint64_t large; /* odd: arenas of 1 MiB, else of 256 KiB */
	uint64_t data[8];
	unsigned char table[IMAGE_OBJECTS][IMAGE_HEAD];
	unsigned char heads[IMAGE_ARENAS][64][IMAGE_HEAD];
};

/* A reader of the image, with one page that seems swapped out. */
struct image_source {
	const struct pymalloc_image *image;
	uint64_t absent;
};

static inline uint64_t image_pool_bytes(const struct pymalloc_image *image)
{
	return image->large & 1 ? 16384 : 4096;
}

/* Returns the image's byte at this address; NULL: a zero. */
static inline const unsigned char *image_at(const struct pymalloc_image *image, uint64_t address)
{
	const uint64_t pool = image_pool_bytes(image);
	uint64_t offset = address - IMAGE_POOLS;

	if (address >= IMAGE_DATA && address < IMAGE_DATA + sizeof(image->data))
		return (const unsigned char *)image->data + (address - IMAGE_DATA);
	if (address >= IMAGE_TABLE && address < IMAGE_TABLE + sizeof(image->table))
		return &image->table[0][0] + (address - IMAGE_TABLE);
	if (address >= IMAGE_POOLS && offset < sizeof(image->heads) / IMAGE_HEAD * pool &&
	    offset % pool < IMAGE_HEAD)
		return &image->heads[0][0][0] + offset / pool * IMAGE_HEAD + offset % pool;
	return NULL;
}

static inline int image_read(void *context, const struct iovec *local, const struct iovec *remote,
			     size_t count)
{
	const struct image_source *source = context;

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < remote[i].iov_len; k++) {
			const unsigned char *byte = image_at(
				source->image, (uint64_t)(uintptr_t)remote[i].iov_base + k);

			((unsigned char *)local[i].iov_base)[k] = byte ? *byte : 0;
		}
	return 0;
}

static inline int image_each(void *context, uint64_t start, uint64_t end, flmem_pages_visit *visit,
			     void *visit_context)
{
	const struct image_source *source = context;
	const struct {
		uint64_t start, end;
	} regions[] = {
		{IMAGE_DATA, IMAGE_DATA + IMAGE_PAGE},
		{IMAGE_TABLE, IMAGE_TABLE + IMAGE_PAGE},
		{IMAGE_POOLS, IMAGE_POOLS + IMAGE_ARENAS * 64 * image_pool_bytes(source->image)},
	};

	for (size_t i = 0; i < sizeof(regions) / sizeof(regions[0]); i++)
		for (uint64_t at = regions[i].start; at < regions[i].end; at += IMAGE_PAGE)
			if (at >= start && at < end && at != source->absent)
				visit(visit_context, at, at + IMAGE_PAGE);
	return 0;
}

/* Searches with `place` as if in another process, or NULL. */
static inline int image_search_from(struct image_source *source, uint64_t *place,
				    struct flmem_pymalloc *ret_pymalloc)
{
	static const char text[] = "10000000-10001000 rw-p 00000000 08:01 7 /usr/bin/python3\n"
				   "20000000-20001000 rw-p 00000000 00:00 0 [heap]\n"
				   "30000000-30400000 rw-p 00000000 00:00 0 \n";
	const struct flmem_peek_source reader = {
		.page_bytes = IMAGE_PAGE,
		.each = image_each,
		.read = image_read,
		.context = source,
	};
	FLMEM_AUTO_PEEK struct flmem_peek *peek = flmem_peek_new(&reader);
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	const struct flmem_pymalloc_search search = {
		.peek = peek,
		.maps = &maps,
		.data_start = IMAGE_DATA,
		.data_end = IMAGE_DATA + IMAGE_PAGE,
		.budget_us = 1000000,
		.place = place,
	};

	if (!peek || flmem_maps_parse(strdup(text), &maps, NULL))
		return -ENOMEM;
	return flmem_pymalloc_read(&search, ret_pymalloc);
}

static inline int image_search(struct image_source *source, struct flmem_pymalloc *ret_pymalloc)
{
	return image_search_from(source, NULL, ret_pymalloc);
}

#endif
