/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_TESTS_GLIBC_IMAGE_H
#define FLMEM_TESTS_GLIBC_IMAGE_H

/*
 * A process image with glibc's heaps in it, made by the layout of any release: main_arena and
 * malloc_par in a library's data, a heap with chunks in use, free, and in a fastbin, a second arena
 * in its own heap, a block with its own mapping. Its content is known exactly.
 */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "allocators/glibc/glibc_heap.h"

#define IMAGE_PAGE  4096U
#define IMAGE_PAGES 64U

enum {
	IMAGE_DATA,
	IMAGE_BRK,
	IMAGE_HEAP,
	IMAGE_BLOCK,
	IMAGE_AREAS
};

struct glibc_image {
	const struct flmem_glibc_layout *layout;
	unsigned char areas[IMAGE_AREAS][IMAGE_PAGES * IMAGE_PAGE];
	uint64_t absent[IMAGE_AREAS];  /* bit per page */
	uint64_t swapped[IMAGE_AREAS]; /* pages of `absent` that the kernel has swapped out */
	unsigned touched; /* pages of the heap that the program touches between two queries */
	bool kept;	  /* the caller asked to read swapped pages */
	bool changing;	  /* main_arena changes between any two queries */
	struct flmem_map maps[IMAGE_AREAS];
	struct flmem_maps list;
	/* The amounts that the image contains. */
	uint64_t free, trimmable, cached, mmapped;
};

static const uint64_t image_start[IMAGE_AREAS] = {
	[IMAGE_DATA] = UINT64_C(0x7f0010000000),
	[IMAGE_BRK] = UINT64_C(0x550000001000),
	[IMAGE_HEAP] = UINT64_C(0x7e0000000000),
	[IMAGE_BLOCK] = UINT64_C(0x7d0000000000),
};

#define IMAGE_ARENA_AT	0x100U
#define IMAGE_PARAMS_AT 0x4000U
#define IMAGE_USED	((uint64_t)IMAGE_PAGES * IMAGE_PAGE)

static inline void image_put(struct glibc_image *image, unsigned area, uint64_t offset,
			     uint64_t value)
{
	if (offset <= IMAGE_USED - sizeof(value))
		memcpy(image->areas[area] + offset, &value, sizeof(value));
}

static inline void image_put_half(struct glibc_image *image, unsigned area, uint64_t offset,
				  uint32_t value)
{
	memcpy(image->areas[area] + offset, &value, sizeof(value));
}

static inline uint64_t image_main(void)
{
	return image_start[IMAGE_DATA] + IMAGE_ARENA_AT;
}

/* Initialises an arena: empty lists, a top, its place in the ring. */
static inline void image_arena(struct glibc_image *image, unsigned area, uint64_t offset,
			       uint64_t top, uint64_t next)
{
	const unsigned bins = image->layout->bins;
	const uint64_t at = image_start[area] + offset + bins;
	/* 2.22 and before have no count of threads. */
	const uint64_t memory = image->layout->minor >= 24 ? 2072 : 2064;

	for (uint64_t i = 0; i < FLMEM_GLIBC_BINS; i++) {
		image_put(image, area, offset + bins + 16 * i, at + 16 * i - 16);
		image_put(image, area, offset + bins + 16 * i + 8, at + 16 * i - 16);
	}
	image_put(image, area, offset + bins - 16, top);
	image_put(image, area, offset + bins + FLMEM_GLIBC_FROM_BINS_NEXT, next);
	if (memory == 2072)
		image_put(image, area, offset + bins + 2064, 1);
	image_put(image, area, offset + bins + memory, IMAGE_USED);
	image_put(image, area, offset + bins + memory + 8, IMAGE_USED);
}

static inline void image_params(struct glibc_image *image)
{
	const struct flmem_glibc_layout *l = image->layout;
	const uint64_t at = IMAGE_PARAMS_AT;

	image_put(image, IMAGE_DATA, at, 128 << 10);
	image_put(image, IMAGE_DATA, at + 8, 128 << 10);
	image_put(image, IMAGE_DATA, at + 16, 128 << 10);
	image_put(image, IMAGE_DATA, at + 24, 8);
	image_put_half(image, IMAGE_DATA, at + l->mp.n_mmaps, 1);
	image_put_half(image, IMAGE_DATA, at + l->mp.n_mmaps + 4, 65536);
	image_put_half(image, IMAGE_DATA, at + l->mp.n_mmaps + 8, 1);
	image_put(image, IMAGE_DATA, at + l->mp.mmapped_mem, IMAGE_USED);
	image_put(image, IMAGE_DATA, at + l->mp.mmapped_mem + 8, IMAGE_USED);
	image_put(image, IMAGE_DATA, at + l->mp.sbrk_base, image_start[IMAGE_BRK]);
	if (l->mp.tcache_count)
		image_put(image, IMAGE_DATA, at + l->mp.tcache_count, 7);
}

/* Makes it a process in which no block has, or had, its own mapping. */
static inline void image_no_mappings(struct glibc_image *image)
{
	const struct flmem_glibc_layout *l = image->layout;
	const uint64_t at = IMAGE_PARAMS_AT;

	image_put(image, IMAGE_DATA, at, 192 << 10);
	image_put_half(image, IMAGE_DATA, at + l->mp.n_mmaps, 0);
	image_put_half(image, IMAGE_DATA, at + l->mp.n_mmaps + 8, 0);
	image_put(image, IMAGE_DATA, at + l->mp.mmapped_mem, 0);
	image_put(image, IMAGE_DATA, at + l->mp.mmapped_mem + 8, 0);
	image_put(image, IMAGE_BLOCK, 8, 0);
	image->mmapped = 0;
}

/*
 * Marks a chunk as free. It counts trimmable bytes by malloc_trim's rule, implemented once more
 * here: whole pages after the chunk's first 48 bytes.
 */
static inline void image_free(struct glibc_image *image, uint64_t offset, uint64_t size)
{
	uint64_t first = (offset + 48 + IMAGE_PAGE - 1) / IMAGE_PAGE,
		 last = (offset + size) / IMAGE_PAGE;

	image->free += size;
	if (size > IMAGE_PAGE - 1 + 48 && last > first)
		image->trimmable += (last - first) * IMAGE_PAGE;
}

/* A tcache with two chunks of 32 bytes, the first of which is the next chunk on the heap. */
static inline uint64_t image_tcache(struct glibc_image *image)
{
	const struct flmem_glibc_layout *l = image->layout;
	const uint64_t size = l->tcache.chunk_bytes;
	const uint64_t entries = 16 + l->tcache.bins * l->tcache.count_bytes;

	if (!size)
		return 0;
	image_put(image, IMAGE_BRK, 8, size | 1);
	for (uint64_t i = 0; i < l->tcache.bins && l->tcache.counts_free; i++)
		image->areas[IMAGE_BRK][16 + 2 * i] = 7;
	image->areas[IMAGE_BRK][16] = l->tcache.counts_free ? 5 : 2;
	image_put(image, IMAGE_BRK, entries, image_start[IMAGE_BRK] + size + 16);
	image_put(image, IMAGE_BRK, size + 8, 0x21);
	image->cached = 64;
	return size + 0x20;
}

/*
 * Fills a heap with chunks of sizes in turn; every third chunk is free, every fifth small one is in
 * a fastbin.
 */
static inline uint64_t image_chunks(struct glibc_image *image, unsigned area, uint64_t offset,
				    uint64_t mark)
{
	static const uint64_t sizes[] = {0x40, 0x2350, 0x90, 0x1000, 0x20, 0x40, 0x5010, 0x400};
	const bool lists = area == IMAGE_BRK && image->layout->fastbins;
	uint64_t head = 0, before = 0;

	for (unsigned i = 0; offset < IMAGE_USED - 0x8000; i++) {
		const uint64_t size = sizes[i % 8], at = image_start[area] + offset;
		const bool freed = i % 8 == 1 || i % 8 == 6;

		image_put(image, area, offset + 8, size | mark | (before ? 0 : 1));
		if (before)
			image_put(image, area, offset, before);
		before = freed ? size : 0;
		if (freed)
			image_free(image, offset, size);
		/* This chunk is alone: both neighbours are in use. */
		if (lists && i % 8 == 4) {
			image_put(image, area, offset + 16,
				  image->layout->mangles ? (at + 16) >> 12 ^ head : head);
			head = at;
			image_free(image, offset, size);
		}
		offset += size;
	}
	if (lists)
		image_put(image, IMAGE_DATA, IMAGE_ARENA_AT + image->layout->fastbins, head);
	/* The last chunk before the top is in use. */
	image_put(image, area, offset, before);
	image_put(image, area, offset + 8, 0x20 | mark | (before ? 0 : 1));
	return offset + 0x20;
}

static inline uint64_t image_top(struct glibc_image *image, unsigned area, uint64_t offset)
{
	const uint64_t size = IMAGE_USED - offset;

	image_put(image, area, offset + 8, size | 1);
	image->free += size;
	if (area == IMAGE_BRK)
		image->trimmable += (size - 33) / IMAGE_PAGE * IMAGE_PAGE;
	return image_start[area] + offset;
}

static inline void image_maps(struct glibc_image *image)
{
	static const unsigned ascending[] = {IMAGE_BRK, IMAGE_BLOCK, IMAGE_HEAP, IMAGE_DATA};

	for (unsigned i = 0; i < IMAGE_AREAS; i++) {
		const unsigned area = ascending[i];

		image->maps[i] = (struct flmem_map){
			.start = image_start[area],
			.end = image_start[area] + IMAGE_USED,
			.flags = FLMEM_MAP_READ | FLMEM_MAP_WRITE,
			.inode = area == IMAGE_DATA,
			.name = area == IMAGE_BRK ? "[heap]" : "",
		};
	}
	image->list = (struct flmem_maps){.rows = image->maps, .count = IMAGE_AREAS};
}

static inline struct glibc_image *image_new(const struct flmem_glibc_layout *layout)
{
	struct glibc_image *image = calloc(1, sizeof(*image));
	const unsigned info = layout->minor >= 35 ? 48 : 32;
	const uint64_t arena = image_start[IMAGE_HEAP] + info;
	uint64_t state, offset;

	if (!image)
		abort();
	image->layout = layout;
	image_maps(image);
	image_params(image);
	image_put(image, IMAGE_BLOCK, 8, IMAGE_USED | FLMEM_GLIBC_IS_MMAPPED);
	image->mmapped = IMAGE_USED;
	offset = image_chunks(image, IMAGE_BRK, image_tcache(image), 0);
	image_arena(image, IMAGE_DATA, IMAGE_ARENA_AT, image_top(image, IMAGE_BRK, offset), arena);
	image_put(image, IMAGE_HEAP, 0, arena);
	image_put(image, IMAGE_HEAP, 16, IMAGE_USED);
	state = layout->bins + (layout->minor >= 24 ? 2088U : 2080U);
	offset = image_chunks(image, IMAGE_HEAP, (info + state + 15) / 16 * 16,
			      FLMEM_GLIBC_NON_MAIN);
	image_arena(image, IMAGE_HEAP, info, image_top(image, IMAGE_HEAP, offset), image_main());
	return image;
}

static inline bool image_is_present(const struct glibc_image *image, unsigned area, uint64_t page)
{
	return !(image->absent[area] >> page & 1);
}

/*
 * Lets the program run between two queries: main_arena's maximum grows, absent pages become
 * resident.
 */
static inline void image_run(struct glibc_image *image, bool heap_queried)
{
	const unsigned most = image->layout->bins + (image->layout->minor >= 24 ? 2080U : 2072U);

	if (image->changing)
		image->areas[IMAGE_DATA][IMAGE_ARENA_AT + most]++;
	for (unsigned i = 0; i < image->touched && heap_queried; i++)
		image->absent[IMAGE_BRK] &= image->absent[IMAGE_BRK] - 1;
}

static inline int image_each(void *context, uint64_t start, uint64_t end, flmem_pages_visit *visit,
			     void *visit_context)
{
	struct glibc_image *image = context;

	for (unsigned area = 0; area < IMAGE_AREAS; area++)
		for (uint64_t page = 0; page < IMAGE_PAGES; page++) {
			const uint64_t at = image_start[area] + page * IMAGE_PAGE;

			if (at >= start && at < end && image_is_present(image, area, page))
				visit(visit_context, at, at + IMAGE_PAGE);
		}
	image_run(image, start <= image_start[IMAGE_BRK] && end > image_start[IMAGE_BRK]);
	return 0;
}

static inline int image_each_kept(void *context, uint64_t start, uint64_t end,
				  flmem_pages_visit *visit, void *visit_context)
{
	struct glibc_image *image = context;

	image->kept = true;
	for (unsigned area = 0; area < IMAGE_AREAS; area++)
		for (uint64_t page = 0; page < IMAGE_PAGES; page++) {
			const uint64_t at = image_start[area] + page * IMAGE_PAGE;

			if (at >= start && at < end &&
			    (image_is_present(image, area, page) ||
			     image->swapped[area] >> page & 1))
				visit(visit_context, at, at + IMAGE_PAGE);
		}
	return 0;
}

static inline bool image_is_swapped(void *context, uint64_t address)
{
	const struct glibc_image *image = context;

	for (unsigned area = 0; area < IMAGE_AREAS; area++)
		if (address - image_start[area] < IMAGE_USED)
			return image->swapped[area] >>
				       ((address - image_start[area]) / IMAGE_PAGE) &
			       1;
	return false;
}

/* Fails if memory is requested that does not exist. */
static inline int image_read(void *context, const struct iovec *local, const struct iovec *remote,
			     size_t count)
{
	const struct glibc_image *image = context;

	for (size_t i = 0; i < count; i++) {
		const uint64_t from = (uint64_t)(uintptr_t)remote[i].iov_base;
		unsigned area = 0;

		while (area < IMAGE_AREAS &&
		       (from < image_start[area] || from - image_start[area] >= IMAGE_USED))
			area++;
		if (area == IMAGE_AREAS || remote[i].iov_len != local[i].iov_len ||
		    remote[i].iov_len > image_start[area] + IMAGE_USED - from)
			abort();
		for (uint64_t at = from & ~(uint64_t)(IMAGE_PAGE - 1);
		     at < from + remote[i].iov_len; at += IMAGE_PAGE) {
			const uint64_t page = (at - image_start[area]) / IMAGE_PAGE;

			if (!image_is_present(image, area, page) &&
			    !(image->kept && image->swapped[area] >> page & 1))
				abort();
		}
		memcpy(local[i].iov_base, image->areas[area] + (from - image_start[area]),
		       local[i].iov_len);
	}
	return 0;
}

static inline struct flmem_peek *image_peek(struct glibc_image *image)
{
	const struct flmem_peek_source source = {
		.page_bytes = IMAGE_PAGE,
		.each = image_each,
		.each_kept = image_each_kept,
		.read = image_read,
		.swapped = image_is_swapped,
		.context = image,
	};
	struct flmem_peek *peek = flmem_peek_new(&source);

	if (!peek)
		abort();
	return peek;
}

static inline struct flmem_glibc_space image_space(const struct glibc_image *image, int minor,
						   struct flmem_peek *peek)
{
	return (struct flmem_glibc_space){
		.peek = peek,
		.maps = &image->list,
		.module_start = image_start[IMAGE_DATA],
		.module_end = image_start[IMAGE_DATA] + IMAGE_USED,
		.minor = minor,
	};
}

static inline struct flmem_heap_report image_report(struct glibc_image *image, int minor,
						    const struct flmem_glibc_effort *effort)
{
	FLMEM_AUTO_PEEK struct flmem_peek *peek = image_peek(image);
	const struct flmem_glibc_space space = image_space(image, minor, peek);
	struct flmem_heap_report heap;

	flmem_glibc_heap_read(&space, effort, &heap);
	return heap;
}

#endif
