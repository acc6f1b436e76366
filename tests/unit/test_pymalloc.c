/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "pymalloc_image.h"

#define NOWHERE UINT64_MAX

/* Blocks of 64 bytes: their number in a pool, and the bytes of its head and end. */
#define BLOCK 64U

static void put(unsigned char *record, size_t offset, uint64_t value, size_t bytes)
{
	memcpy(record + offset, &value, bytes);
}

static uint64_t capacity(const struct pymalloc_image *image)
{
	return (image_pool_bytes(image) - IMAGE_HEAD) / BLOCK;
}

/* Writes a pool of which `count` blocks are in use and the others free, all of them used before. */
static void put_pool(struct pymalloc_image *image, uint32_t arena, uint32_t pool, uint64_t count)
{
	unsigned char *head = image->heads[arena][pool];
	uint64_t bytes = image_pool_bytes(image);
	uint64_t address = IMAGE_POOLS + (arena * UINT64_C(64) + pool) * bytes;

	memset(head, 0, IMAGE_HEAD);
	put(head, 0, count, 4);
	put(head, 8, count < capacity(image) ? address + IMAGE_HEAD + BLOCK : 0, 8);
	put(head, 32, arena, 4);
	put(head, 36, BLOCK / 16 - 1, 4);
	put(head, 40, IMAGE_HEAD + capacity(image) * BLOCK, 4);
	put(head, 44, bytes - BLOCK, 4);
}

static void put_arena(struct pymalloc_image *image, uint32_t index, uint64_t carved,
		      uint64_t free_pools)
{
	unsigned char *object = image->table[index];
	uint64_t bytes = image_pool_bytes(image), address = IMAGE_POOLS + index * 64 * bytes;

	put(object, 0, address, 8);
	put(object, 8, address + carved * bytes, 8);
	put(object, 16, free_pools, 4);
	put(object, 20, 64, 4);
}

/*
 * Makes an image: arena 0 has 10 full pools, arena 2 has 64 pools with one block each, 1 and 3
 * none.
 */
static struct pymalloc_image make(bool large)
{
	struct pymalloc_image image = {.large = large, .data = {0, IMAGE_TABLE + 480, IMAGE_TABLE}};

	put_arena(&image, 0, 12, 54);
	for (uint32_t i = 0; i < 12; i++)
		put_pool(&image, 0, i, i < 10 ? capacity(&image) : 0);
	put_arena(&image, 2, 64, 0);
	for (uint32_t i = 0; i < 64; i++)
		put_pool(&image, 2, i, 1);
	put(image.table[1], 32, IMAGE_TABLE + UINT64_C(3) * IMAGE_HEAD, 8);
	return image;
}

static void arenas_are_found_and_added_up(void **state)
{
	(void)state;
	for (int large = 0; large < 2; large++) {
		struct pymalloc_image image = make(large);
		struct image_source source = {&image, NOWHERE};
		struct flmem_pymalloc sum = {0};
		uint64_t blocks = (10 * capacity(&image) + 64) * BLOCK;

		assert_int_equal(image_search(&source, &sum), 0);
		assert_int_equal(sum.arenas, 2);
		assert_int_equal(sum.resident_bytes, 2 * 64 * image_pool_bytes(&image));
		assert_int_equal(sum.block_bytes, blocks);
		assert_true(sum.used_bytes >= blocks + UINT64_C(74) * IMAGE_HEAD);
		assert_true(sum.used_bytes <= blocks + UINT64_C(74) * (IMAGE_HEAD + BLOCK));
		assert_int_equal(sum.used_bytes + sum.free_bytes, sum.resident_bytes);
		assert_int_equal(sum.error_bytes, 0);
	}
}

static void a_pool_that_makes_no_sense_is_doubt(void **state)
{
	static const struct {
		size_t offset, bytes;
		uint64_t value;
	} faults[] = {
		{0, 4, 5000},		 /* more blocks than the pool holds */
		{8, 8, 0x1234},		 /* a free block outside of the pool */
		{8, 8, IMAGE_POOLS + 4}, /* a free block between two blocks */
		{32, 4, 7},		 /* the index of another arena */
		{36, 4, 31},		 /* the size class of other blocks */
		{40, 4, 5},		 /* the next block is in the head */
		{44, 4, 5000000},	 /* the last block is past the end */
	};
	struct flmem_pymalloc whole = {0}, sum = {0};
	struct pymalloc_image image = make(false);
	struct image_source source = {&image, NOWHERE};

	(void)state;
	assert_int_equal(image_search(&source, &whole), 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(faults); i++) {
		image = make(false);
		put(image.heads[0][3], faults[i].offset, faults[i].value, faults[i].bytes);
		assert_int_equal(image_search(&source, &sum), 0);
		assert_int_equal(sum.error_bytes, 4096);
		assert_true(sum.used_bytes + 4096 > whole.used_bytes);
		assert_true(sum.used_bytes < whole.used_bytes + 4096);
	}
}

static void a_pool_that_is_not_resident_is_not_counted(void **state)
{
	struct pymalloc_image image = make(true);
	struct image_source source = {&image, IMAGE_POOLS + 3 * UINT64_C(16384)};
	struct flmem_pymalloc sum = {0};

	(void)state;
	assert_int_equal(image_search(&source, &sum), 0);
	assert_int_equal(sum.resident_bytes, UINT64_C(2) * 64 * 16384 - IMAGE_PAGE);
	assert_int_equal(sum.block_bytes, (9 * capacity(&image) + 64) * BLOCK);
}

static void what_is_no_table_is_not_taken_for_one(void **state)
{
	struct pymalloc_image image = make(true);
	struct image_source source = {&image, NOWHERE};
	struct flmem_pymalloc sum = {.arenas = 77};

	(void)state;
	image.data[2] = 0; /* only a pointer to its middle is left */
	assert_int_equal(image_search(&source, &sum), -ENOENT);
	image = make(true);
	put(image.table[0], 20, 60, 4); /* not the number of pools that fit */
	put(image.table[2], 20, 60, 4);
	assert_int_equal(image_search(&source, &sum), -ENOENT);
	for (uint32_t pools = 127; pools <= 128; pools++) {
		image = make(true); /* an image with arenas of 2 MiB */
		put(image.table[0], 20, pools, 4);
		put(image.table[2], 20, pools, 4);
		assert_int_equal(image_search(&source, &sum), -ENOENT);
	}
	image = make(true);
	memset(image.heads, 0, sizeof(image.heads));
	assert_int_equal(image_search(&source, &sum), -ENOENT);
	image = make(true);
	put(image.table[0], 0, IMAGE_DATA, 8); /* an arena that is in a file */
	put(image.table[2], 0, UINT64_MAX - 4095, 8);
	assert_int_equal(image_search(&source, &sum), -ENOENT);
	assert_int_equal(sum.arenas, 77);
}

static void an_arena_that_is_listed_twice_is_counted_once(void **state)
{
	struct pymalloc_image image = make(true);
	struct image_source source = {&image, NOWHERE};
	struct flmem_pymalloc sum = {0};

	(void)state;
	memcpy(image.table[3], image.table[2], IMAGE_HEAD);
	assert_int_equal(image_search(&source, &sum), 0);
	assert_int_equal(sum.arenas, 2);
}

/*
 * Another process of the same file has the table at the same place of its data, elsewhere or not at
 * all.
 */
static void a_known_place_is_looked_at_first(void **state)
{
	struct pymalloc_image image = make(false);
	struct image_source source = {&image, NOWHERE};
	struct flmem_pymalloc searched = {0}, known = {0};
	uint64_t place = 0;

	(void)state;
	assert_int_equal(image_search_from(&source, &place, &searched), 0);
	assert_int_equal(place, 16);
	assert_int_equal(image_search_from(&source, &place, &known), 0);
	assert_memory_equal(&known, &searched, sizeof(known));
	image.data[5] = image.data[2];
	image.data[2] = IMAGE_TABLE + 16;
	assert_int_equal(image_search_from(&source, &place, &known), 0);
	assert_int_equal(place, 40);
	assert_memory_equal(&known, &searched, sizeof(known));
	place = UINT64_MAX - 7;
	assert_int_equal(image_search_from(&source, &place, &known), 0);
	assert_int_equal(place, 40);
	image.data[5] = 0;
	assert_int_equal(image_search_from(&source, &place, &known), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_known_place_is_looked_at_first),
		cmocka_unit_test(arenas_are_found_and_added_up),
		cmocka_unit_test(a_pool_that_makes_no_sense_is_doubt),
		cmocka_unit_test(a_pool_that_is_not_resident_is_not_counted),
		cmocka_unit_test(what_is_no_table_is_not_taken_for_one),
		cmocka_unit_test(an_arena_that_is_listed_twice_is_counted_once),
	};

	return cmocka_run_group_tests_name("pymalloc", tests, NULL, NULL);
}
