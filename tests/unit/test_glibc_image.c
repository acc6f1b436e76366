/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests heaps of every claimed release, as images: their contents are reported, damage is not
 * counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "glibc_image.h"

static const struct flmem_glibc_effort walk = {
	.walked_max = UINT64_MAX,
	.precision = FLMEM_GLIBC_PRECISION,
};
static const struct flmem_glibc_effort sample = {
	.walked_max = 1,
	.precision = FLMEM_GLIBC_PRECISION,
};

static uint64_t known(struct flmem_u64 field)
{
	if (field.unknown)
		fail_msg("unknown: %s", field.unknown);
	return field.value;
}

static void check(const struct glibc_image *image, const struct flmem_heap_report *heap)
{
	assert_int_equal(known(heap->free_bytes), image->free);
	assert_int_equal(known(heap->free_resident_bytes), image->free);
	assert_int_equal(known(heap->trimmable_bytes), image->trimmable);
	assert_int_equal(known(heap->cached_bytes), image->cached);
	assert_int_equal(known(heap->mmapped_bytes), image->mmapped);
	assert_int_equal(known(heap->resident_bytes), 3 * IMAGE_USED);
	assert_int_equal(known(heap->arenas), 2);
	assert_int_equal(known(heap->error_bytes), 0);
	assert_int_equal(known(heap->mmap_threshold_bytes), 128 << 10);
}

static void every_release_is_read(void **state)
{
	(void)state;
	for (const struct flmem_glibc_layout *row = flmem_glibc_layouts; row->minor; row++) {
		FLMEM_AUTO_FREE struct glibc_image *image = image_new(row);
		struct flmem_heap_report heap = image_report(image, row->minor, &walk);

		print_message("2.%d\n", row->minor);
		check(image, &heap);
	}
}

/* A static program does not report its release. */
static void a_nameless_release_is_recognised(void **state)
{
	(void)state;
	for (const struct flmem_glibc_layout *row = flmem_glibc_layouts; row->minor; row++) {
		FLMEM_AUTO_FREE struct glibc_image *image = image_new(row);
		struct flmem_heap_report heap = image_report(image, -1, &walk);

		print_message("2.%d\n", row->minor);
		check(image, &heap);
		assert_int_equal(known(heap.trim_threshold_bytes), 128 << 10);
	}
}

/*
 * While nothing had its own mapping, most words of malloc_par are zero or 128 Ki, and those of one
 * release look like another one's from 24 bytes before.
 */
static void a_nameless_release_without_mappings_is_recognised(void **state)
{
	(void)state;
	for (const struct flmem_glibc_layout *row = flmem_glibc_layouts; row->minor; row++) {
		FLMEM_AUTO_FREE struct glibc_image *image = image_new(row);
		struct flmem_heap_report heap;

		image_no_mappings(image);
		heap = image_report(image, -1, &walk);
		print_message("2.%d\n", row->minor);
		assert_int_equal(known(heap.trimmable_bytes), image->trimmable);
		assert_int_equal(known(heap.cached_bytes), image->cached);
		assert_int_equal(known(heap.mmapped_bytes), 0);
		assert_int_equal(known(heap.error_bytes), 0);
		assert_int_equal(known(heap.trim_threshold_bytes), 192 << 10);
		assert_int_equal(known(heap.mmap_threshold_bytes), 128 << 10);
	}
}

static void releases_before_the_oldest_are_refused(void **state)
{
	FLMEM_AUTO_FREE struct glibc_image *image = image_new(flmem_glibc_layout_of(17));
	struct flmem_heap_report heap = image_report(image, 16, &walk);

	(void)state;
	assert_non_null(strstr(heap.in_use_bytes.unknown, "2.17"));
	assert_non_null(heap.arenas.unknown);
}

static void what_was_never_used_holds_nothing(void **state)
{
	FLMEM_AUTO_FREE struct glibc_image *image = image_new(flmem_glibc_layout_of(36));
	struct flmem_heap_report heap;

	(void)state;
	memset(image->areas[IMAGE_DATA], 0, IMAGE_USED);
	image_put(image, IMAGE_DATA,
		  IMAGE_ARENA_AT + image->layout->bins + FLMEM_GLIBC_FROM_BINS_NEXT, image_main());
	heap = image_report(image, 36, &walk);
	assert_int_equal(known(heap.resident_bytes), 0);
	assert_int_equal(known(heap.arenas), 0);
	assert_non_null(heap.mmap_threshold_bytes.unknown);
}

static void pages_that_are_gone_are_not_counted(void **state)
{
	FLMEM_AUTO_FREE struct glibc_image *image = image_new(flmem_glibc_layout_of(36));
	struct flmem_heap_report heap;

	(void)state;
	/* The bits are within the top, which begins 0x8000 bytes before the end at the earliest. */
	image->absent[IMAGE_BRK] = UINT64_C(7) << 60;
	heap = image_report(image, 36, &walk);
	assert_int_equal(known(heap.free_bytes), image->free);
	assert_int_equal(known(heap.free_resident_bytes), image->free - 3 * IMAGE_PAGE);
	assert_int_equal(known(heap.trimmable_bytes), image->trimmable - 3 * IMAGE_PAGE);
	assert_int_equal(known(heap.resident_bytes), 3 * IMAGE_USED - 3 * IMAGE_PAGE);
}

static void expect_unknown(struct glibc_image *image, const char *why)
{
	struct flmem_heap_report heap = image_report(image, 36, &walk);

	assert_non_null(heap.in_use_bytes.unknown);
	assert_non_null(heap.trimmable_bytes.unknown);
	assert_null(heap.method);
	if (!strstr(heap.in_use_bytes.unknown, why))
		fail_msg("'%s' does not say '%s'", heap.in_use_bytes.unknown, why);
}

/* Returns the offset of the n-th chunk on the heap, by the sizes in it. */
static uint64_t chunk_at(const struct glibc_image *image, unsigned n)
{
	uint64_t offset = 0, size;

	for (; n; n--) {
		memcpy(&size, image->areas[IMAGE_BRK] + offset + 8, sizeof(size));
		offset += size & ~UINT64_C(7);
	}
	return offset;
}

static void damage_is_not_read_over(void **state)
{
	static const uint64_t heads[] = {0,	     1,	   0x11, 0x29, 0x10000000000001,
					 UINT64_MAX, 0x23, 0x25};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(heads); i++) {
		FLMEM_AUTO_FREE struct glibc_image *image = image_new(flmem_glibc_layout_of(36));

		image_put(image, IMAGE_BRK, chunk_at(image, 9) + 8, heads[i]);
		expect_unknown(image, "damaged");
	}
}

static void a_list_that_bites_its_tail_ends(void **state)
{
	FLMEM_AUTO_FREE struct glibc_image *image = image_new(flmem_glibc_layout_of(36));
	uint64_t head, place;

	(void)state;
	memcpy(&head, image->areas[IMAGE_DATA] + IMAGE_ARENA_AT + image->layout->fastbins,
	       sizeof(head));
	place = head + 16;
	image_put(image, IMAGE_BRK, place - image_start[IMAGE_BRK], place >> 12 ^ head);
	expect_unknown(image, "damaged");
}

static void a_chain_of_heaps_that_turns_back_ends(void **state)
{
	FLMEM_AUTO_FREE struct glibc_image *image = image_new(flmem_glibc_layout_of(36));
	struct flmem_heap_report heap;

	(void)state;
	image_put(image, IMAGE_HEAP, 8, image_start[IMAGE_HEAP]);
	heap = image_report(image, 36, &walk);
	assert_non_null(heap.in_use_bytes.unknown);
}

static void swapped_out_heads_are_not_read(void **state)
{
	FLMEM_AUTO_FREE struct glibc_image *image = image_new(flmem_glibc_layout_of(36));

	(void)state;
	image->absent[IMAGE_BRK] = image->swapped[IMAGE_BRK] = 1;
	image->absent[IMAGE_HEAP] = image->swapped[IMAGE_HEAP] = UINT64_C(1) << 3;
	expect_unknown(image, "swapped out");
}

static void heads_that_were_dropped_are_not_swapped_out(void **state)
{
	FLMEM_AUTO_FREE struct glibc_image *image = image_new(flmem_glibc_layout_of(36));

	(void)state;
	image->absent[IMAGE_BRK] = 1;
	image->absent[IMAGE_HEAP] = UINT64_C(1) << 3;
	/* The swapped page is elsewhere. */
	image->swapped[IMAGE_HEAP] = UINT64_C(1) << 40;
	expect_unknown(image, "changes faster than it can be read");
}

/* The program touches memory while it is read: each query finds more pages than the one before. */
static void pages_that_come_meanwhile_are_read(void **state)
{
	FLMEM_AUTO_FREE struct glibc_image *image = image_new(flmem_glibc_layout_of(43));
	struct flmem_heap_report heap;

	(void)state;
	/* Not with fastbins, which are followed from the last address to the first. */
	image->absent[IMAGE_BRK] = UINT64_C(0x00fffffffffffff0);
	image->touched = 8;
	heap = image_report(image, 43, &walk);
	assert_int_equal(known(heap.free_bytes), image->free);
	assert_int_equal(known(heap.cached_bytes), image->cached);
	assert_true(known(heap.free_resident_bytes) <= image->free);
}

/*
 * A heap that changes all the time may be valid: only one that rests and does not fit is called
 * damaged.
 */
static void damage_is_seen_in_what_rests(void **state)
{
	FLMEM_AUTO_FREE struct glibc_image *image = image_new(flmem_glibc_layout_of(36));

	(void)state;
	image_put(image, IMAGE_BRK, chunk_at(image, 9) + 8, 0x29);
	image->changing = true;
	expect_unknown(image, "faster than it can be read; read it again");
	image->changing = false;
	expect_unknown(image, "damaged");
}

static void a_sample_of_all_is_close(void **state)
{
	FLMEM_AUTO_FREE struct glibc_image *image = image_new(flmem_glibc_layout_of(36));
	struct flmem_heap_report heap = image_report(image, 36, &sample);
	uint64_t error = known(heap.error_bytes);

	(void)state;
	assert_string_equal(heap.method, "sampled");
	assert_in_range(known(heap.free_resident_bytes), image->free - error, image->free + error);
	assert_in_range(known(heap.trimmable_bytes), image->trimmable - error,
			image->trimmable + error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_release_is_read),
		cmocka_unit_test(a_nameless_release_is_recognised),
		cmocka_unit_test(a_nameless_release_without_mappings_is_recognised),
		cmocka_unit_test(releases_before_the_oldest_are_refused),
		cmocka_unit_test(what_was_never_used_holds_nothing),
		cmocka_unit_test(pages_that_are_gone_are_not_counted),
		cmocka_unit_test(damage_is_not_read_over),
		cmocka_unit_test(a_list_that_bites_its_tail_ends),
		cmocka_unit_test(a_chain_of_heaps_that_turns_back_ends),
		cmocka_unit_test(swapped_out_heads_are_not_read),
		cmocka_unit_test(heads_that_were_dropped_are_not_swapped_out),
		cmocka_unit_test(pages_that_come_meanwhile_are_read),
		cmocka_unit_test(damage_is_seen_in_what_rests),
		cmocka_unit_test(a_sample_of_all_is_close),
	};

	return cmocka_run_group_tests_name("glibc_image", tests, NULL, NULL);
}
