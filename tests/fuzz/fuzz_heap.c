/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heaps of glibc: a sound image of one of the releases, with words of it changed and pages taken
 * away. Each record of 12 bytes: area and what the value counts from, offset, value.
 */
#include "fuzz.h"

#include "../unit/glibc_image.h"
#include "allocators/glibc/glibc_check.h"

#define RECORD 12U

static void change(struct glibc_image *image, const uint8_t *record)
{
	const unsigned area = record[0] % IMAGE_AREAS, base = record[0] / IMAGE_AREAS % 8;
	uint64_t value;
	uint32_t offset = record[1] | (uint32_t)record[2] << 8 | (uint32_t)record[3] << 16;

	memcpy(&value, record + 4, sizeof(value));
	if (base == 7) {
		image->absent[area] ^= UINT64_C(1) << (offset % IMAGE_PAGES);
		return;
	}
	if (base < IMAGE_AREAS)
		value = image_start[base] + value % (2 * IMAGE_USED);
	image_put(image, area, offset % IMAGE_USED, value);
}

static void check(const struct flmem_heap_report *heap)
{
	if (!heap->method != !!heap->in_use_bytes.unknown ||
	    !heap->method != !!heap->error_bytes.unknown)
		abort();
	if (heap->method && heap->trimmable_bytes.value > heap->free_resident_bytes.value)
		abort();
	if (heap->method && heap->mmapped_bytes.value > heap->resident_bytes.value)
		abort();
}

/* Checks the lists once, without waiting. */
static void check_lists(struct glibc_image *image, int minor)
{
	FLMEM_AUTO_PEEK struct flmem_peek *peek = image_peek(image);
	const struct flmem_glibc_space space = image_space(image, minor, peek);
	struct flmem_glibc_damage damage;

	if (flmem_glibc_is_damaged(&space, UINT32_MAX, 1, &damage) &&
	    (!damage.list || !damage.what))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flmem_glibc_effort effort = {.precision = FLMEM_GLIBC_PRECISION};
	const struct flmem_glibc_layout *layout = flmem_glibc_layouts;
	struct flmem_heap_report heap;
	struct glibc_image *image;

	if (size < 2)
		return 0;
	for (unsigned i = data[0] % 9; i; i--)
		layout++;
	image = image_new(layout);
	effort.walked_max = data[1] & 1 ? 1 : UINT64_MAX;
	for (size_t at = 2; at + RECORD <= size; at += RECORD)
		change(image, data + at);
	heap = image_report(image, data[1] & 2 ? -1 : layout->minor, &effort);
	check(&heap);
	check_lists(image, data[1] & 2 ? -1 : layout->minor);
	free(image);
	return 0;
}
