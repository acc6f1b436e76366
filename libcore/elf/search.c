/* SPDX-License-Identifier: Apache-2.0 */
/* Searches the read-only data of an image for bytes that identify a build. */
#include <string.h>

#include "elf/image.h"
#include "elf/image_private.h"

#define SEARCH_MAX ((uint64_t)256 << 20)
#define NEEDLE_MAX 256U

bool flmem_image_search_extent(
	struct flmem_image *image, struct flmem_extent where, const void *bytes, size_t length,
	bool (*visit)(struct flmem_image *image, uint64_t offset, void *data), void *data)
{
	FLMEM_AUTO_FREE unsigned char *chunk = malloc(IMAGE_CHUNK_SIZE);
	uint64_t at = where.offset, end = where.offset + where.size;

	if (!chunk || !length || length > NEEDLE_MAX)
		return false;
	while (end - at >= length) {
		size_t step = end - at < IMAGE_CHUNK_SIZE ? (size_t)(end - at) : IMAGE_CHUNK_SIZE;
		const unsigned char *from = chunk, *hit;

		if (!flmem_image_read(image, at, chunk, step))
			return false;
		while ((hit = memmem(from, step - (size_t)(from - chunk), bytes, length))) {
			if (visit(image, at + (uint64_t)(hit - chunk), data))
				return true;
			from = hit + 1;
		}
		if (step < IMAGE_CHUNK_SIZE)
			break;
		at += step - (length - 1); /* a match may lie across two chunks */
	}
	return false;
}

/* Limits the bytes to search: a sparse file of any length costs nothing to the user who maps it. */
static void limit_extents(struct flmem_extent *extents, size_t count)
{
	uint64_t left = SEARCH_MAX;

	for (size_t i = 0; i < count; i++) {
		if (extents[i].size > left)
			extents[i].size = left;
		left -= extents[i].size;
	}
}

static size_t list_code_extents(const struct flmem_image *image,
				struct flmem_extent out[IMAGE_LOADS_MAX])
{
	size_t count = 0;

	for (size_t i = 0; i < image->load_count; i++)
		if (image->loads[i].p_flags & PF_X)
			out[count++] = (struct flmem_extent){image->loads[i].p_offset,
							     image->loads[i].p_filesz};
	limit_extents(out, count);
	return count;
}

/* Lists the parts with read-only data: .rodata, else every segment that is not writable. */
static size_t list_data_extents(struct flmem_image *image, struct flmem_extent out[IMAGE_LOADS_MAX])
{
	Elf64_Shdr section;
	size_t count = 0;

	if (flmem_image_section(image, ".rodata", &section) && section.sh_type == SHT_PROGBITS) {
		out[count++] = (struct flmem_extent){section.sh_offset, section.sh_size};
	} else {
		for (size_t i = 0; i < image->load_count; i++)
			if (!(image->loads[i].p_flags & PF_W))
				out[count++] = (struct flmem_extent){image->loads[i].p_offset,
								     image->loads[i].p_filesz};
	}
	limit_extents(out, count);
	return count;
}

bool flmem_image_search(struct flmem_image *image, const void *bytes, size_t length,
			bool (*visit)(struct flmem_image *image, uint64_t offset, void *data),
			void *data)
{
	struct flmem_extent extents[IMAGE_LOADS_MAX];
	size_t count = list_data_extents(image, extents);

	for (size_t i = 0; i < count; i++)
		if (flmem_image_search_extent(image, extents[i], bytes, length, visit, data))
			return true;
	return false;
}

static bool keep_first_match(struct flmem_image *image, uint64_t offset, void *data)
{
	(void)image;
	*(int64_t *)data = (int64_t)offset;
	return true;
}

int64_t flmem_image_find_bytes(struct flmem_image *image, const void *bytes, size_t length,
			       uint64_t from)
{
	struct flmem_extent extents[IMAGE_LOADS_MAX];
	size_t count = list_data_extents(image, extents);
	int64_t found = -1;

	for (size_t i = 0; i < count && found < 0; i++) {
		struct flmem_extent *where = &extents[i];
		uint64_t skip = from > where->offset ? from - where->offset : 0;

		if (skip >= where->size)
			continue;
		where->offset += skip;
		where->size -= skip;
		flmem_image_search_extent(image, *where, bytes, length, keep_first_match, &found);
	}
	return found;
}

/* Returns the virtual address of a segment's byte at this offset of the file. */
static uint64_t code_address(const struct flmem_image *image, uint64_t offset)
{
	for (size_t i = 0; i < image->load_count; i++) {
		const Elf64_Phdr *load = &image->loads[i];

		if (load->p_flags & PF_X && offset >= load->p_offset &&
		    offset - load->p_offset < load->p_filesz)
			return offset - load->p_offset + load->p_vaddr;
	}
	return 0;
}

bool flmem_image_find_code(struct flmem_image *image, const void *bytes, size_t length,
			   uint64_t *ret_address)
{
	struct flmem_extent extents[IMAGE_LOADS_MAX];
	size_t count = list_code_extents(image, extents);
	int64_t found = -1;

	for (size_t i = 0; i < count && found < 0; i++)
		flmem_image_search_extent(image, extents[i], bytes, length, keep_first_match,
					  &found);
	if (found < 0)
		return false;
	*ret_address = code_address(image, (uint64_t)found);
	return true;
}

/*
 * Searches for many markers in one pass: a window of WINDOW bytes is compared only every STRIDE
 * bytes. A marker of at least STRIDE + WINDOW - 1 bytes has one of its first STRIDE windows at such
 * a place, at whatever offset it begins. A hash table rules out nearly all windows.
 */
#define STRIDE	  8U
#define WINDOW	  4U
#define HASH_BITS 14U

struct marker_search {
	const struct flmem_marker *markers;
	size_t count;
	uint32_t windows[FLMEM_MARKERS_MAX][STRIDE];
	bool wanted[1U << HASH_BITS];
	uint32_t found;
};

static uint32_t window_at(const void *p)
{
	uint32_t window;

	memcpy(&window, p, sizeof(window));
	return window;
}

static uint32_t window_hash(uint32_t window)
{
	return window * UINT32_C(2654435761) >> (32 - HASH_BITS);
}

static void prepare_search(struct marker_search *search)
{
	for (size_t i = 0; i < search->count; i++) {
		const struct flmem_marker *marker = &search->markers[i];

		for (size_t at = 0; at < STRIDE && at + WINDOW <= marker->length; at++) {
			uint32_t window = window_at((const char *)marker->bytes + at);

			search->windows[i][at] = window;
			search->wanted[window_hash(window)] = true;
		}
	}
}

/* Compares a window with the markers that contain it, within the chunk. */
static void check_window(struct marker_search *search, const unsigned char *chunk, size_t length,
			 size_t position)
{
	uint32_t window = window_at(chunk + position);

	for (size_t i = 0; i < search->count; i++) {
		const struct flmem_marker *marker = &search->markers[i];

		for (size_t at = 0; at < STRIDE && at <= position; at++)
			if (search->windows[i][at] == window &&
			    marker->length <= length - (position - at) &&
			    memcmp(chunk + position - at, marker->bytes, marker->length) == 0)
				search->found |= 1U << i;
	}
}

static void search_chunk(struct marker_search *search, const unsigned char *chunk, size_t length)
{
	for (size_t at = 0; at + WINDOW <= length; at += STRIDE)
		if (search->wanted[window_hash(window_at(chunk + at))])
			check_window(search, chunk, length, at);
}

static void search_extent(struct flmem_image *image, struct flmem_extent where,
			  struct marker_search *search, unsigned char *chunk)
{
	uint64_t at = where.offset, end = where.offset + where.size;

	while (at < end) {
		size_t step = end - at < IMAGE_CHUNK_SIZE ? (size_t)(end - at) : IMAGE_CHUNK_SIZE;

		if (!flmem_image_read(image, at, chunk, step))
			return;
		search_chunk(search, chunk, step);
		if (step < IMAGE_CHUNK_SIZE)
			return;
		at += step - NEEDLE_MAX; /* a marker may lie across two chunks */
	}
}

uint32_t flmem_image_find_markers(struct flmem_image *image, const struct flmem_marker *markers,
				  size_t count)
{
	FLMEM_AUTO_FREE struct marker_search *search = calloc(1, sizeof(*search));
	FLMEM_AUTO_FREE unsigned char *chunk = malloc(IMAGE_CHUNK_SIZE);
	struct flmem_extent extents[IMAGE_LOADS_MAX];
	size_t extent_count = list_data_extents(image, extents);

	if (!search || !chunk || count > FLMEM_MARKERS_MAX)
		return 0;
	search->markers = markers;
	search->count = count;
	prepare_search(search);
	for (size_t i = 0; i < extent_count; i++)
		search_extent(image, extents[i], search, chunk);
	return search->found;
}
