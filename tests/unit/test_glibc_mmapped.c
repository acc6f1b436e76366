/* SPDX-License-Identifier: Apache-2.0 */
/* Tests blocks of glibc with separate mappings, among other memory that looks like them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "allocators/glibc/glibc_mmapped.h"
#include "base/cleanup.h"
#include "glibc_image.h"

#define WHOLE	   (FLMEM_MAP_READ | FLMEM_MAP_WRITE)
#define PAGES(n)   ((uint64_t)(n)*IMAGE_PAGE)
#define IS_MMAPPED FLMEM_GLIBC_IS_MMAPPED
#define ANY	   UINT64_MAX /* malloc's number of blocks is unknown */
#define LATE_NS	   1	      /* a time long ago */

/* One mapping: the area of the block, or that of the second arena. */
struct space {
	struct glibc_image *image;
	struct flmem_map map;
	struct flmem_maps maps;
	struct flmem_glibc glibc;
	uint64_t negligible, deadline_ns;
};

static void open_space(struct space *space, unsigned area)
{
	*space = (struct space){.image = image_new(flmem_glibc_layouts)};
	space->map = (struct flmem_map){
		.start = image_start[area],
		.end = image_start[area] + IMAGE_USED,
		.flags = WHOLE,
		.name = "",
	};
	space->maps = (struct flmem_maps){.rows = &space->map, .count = 1};
	memset(space->image->areas[IMAGE_BLOCK], 0, IMAGE_USED);
}

static void close_space(struct space *space)
{
	free(space->image);
}

/* Puts the head of a block; `before` and `size` as malloc writes them. */
static void put_head(struct space *space, uint64_t offset, uint64_t before, uint64_t size)
{
	image_put(space->image, IMAGE_BLOCK, offset, before);
	image_put(space->image, IMAGE_BLOCK, offset + 8, size);
}

static void put_block(struct space *space, uint64_t page, uint64_t pages)
{
	put_head(space, PAGES(page), 0, PAGES(pages) | IS_MMAPPED);
}

/* Searches with malloc's count of `count` blocks of `bytes`; ANY: the count is unknown. */
static struct flmem_glibc_mmapped find(struct space *space, uint64_t count, uint64_t bytes)
{
	FLMEM_AUTO_PEEK struct flmem_peek *peek = image_peek(space->image);
	struct flmem_glibc_space of = image_space(space->image, flmem_glibc_layouts->minor, peek);
	struct flmem_glibc_mmapped found;

	of.maps = &space->maps;
	space->glibc.params = (struct flmem_glibc_params){
		.known = count != ANY,
		.mmapped_count = count == ANY ? 0 : count,
		.mmapped_bytes = bytes,
	};
	flmem_glibc_mmapped_find(&of, &space->glibc, space->negligible, space->deadline_ns, &found);
	return found;
}

static void expect(struct space *space, uint64_t count, uint64_t bytes, uint64_t found_count,
		   uint64_t found_pages)
{
	const struct flmem_glibc_mmapped found = find(space, count, bytes);

	assert_int_equal(found.count, found_count);
	assert_int_equal(found.bytes, PAGES(found_pages));
	assert_int_equal(found.resident, PAGES(found_pages));
}

static void only_private_memory_holds_blocks(void **state)
{
	static const struct {
		unsigned flags;
		uint64_t inode;
		const char *name;
		bool holds;
	} rows[] = {
		{WHOLE, 0, "", true},
		{WHOLE, 0, "[anon:glibc: malloc]", true},
		{WHOLE, 0, "[anonymous", true},
		{WHOLE, 0, "[stack]", false},
		{WHOLE, 0, "[heap]", false},
		{WHOLE, 7, "", false},
		{WHOLE, 7, "[anon", false},
		{FLMEM_MAP_READ, 0, "", false},
		{WHOLE | FLMEM_MAP_SHARED, 0, "", false},
		{WHOLE | FLMEM_MAP_SHARED, 0, "[anon_shmem]", false},
		{FLMEM_MAP_WRITE, 0, "", true},
	};
	struct space space;

	(void)state;
	open_space(&space, IMAGE_BLOCK);
	put_block(&space, 0, 3);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		char name[32];

		snprintf(name, sizeof(name), "%s", rows[i].name);
		space.map.flags = rows[i].flags;
		space.map.inode = rows[i].inode;
		space.map.name = name;
		if (find(&space, ANY, 0).count != rows[i].holds)
			fail_msg("row %zu", i);
	}
	close_space(&space);
}

static void only_whole_pages_with_the_mark_are_a_block(void **state)
{
	static const struct {
		uint64_t offset, before, size;
		uint64_t pages; /* 0: no block */
	} rows[] = {
		{0, 0, PAGES(64) | IS_MMAPPED, 64},
		{0, 0, (PAGES(64) - 16) | IS_MMAPPED, 64}, /* of 2.43 */
		{0, 0, (PAGES(64) + 16) | IS_MMAPPED, 0},
		{0, 0, PAGES(65) | IS_MMAPPED, 0}, /* more than the mapping has */
		{0, 0, PAGES(3), 0},
		{0, 0, PAGES(3) | IS_MMAPPED | FLMEM_GLIBC_PREV_INUSE, 0},
		{0, 0, (PAGES(3) + 32) | IS_MMAPPED, 0},
		{0, 16, PAGES(3) | IS_MMAPPED, 0},
		{0, 0, 0 | IS_MMAPPED, 0},
		/* An aligned block: the space before it counts. */
		{32, 32, (PAGES(3) - 32) | IS_MMAPPED, 3},
		{32, 0, (PAGES(3) - 32) | IS_MMAPPED, 0},
		{32, 32, PAGES(3) | IS_MMAPPED, 0},
		{IMAGE_PAGE - 16, IMAGE_PAGE - 16, (PAGES(3) + 16) | IS_MMAPPED, 4},
		{IMAGE_PAGE, IMAGE_PAGE, PAGES(3) | IS_MMAPPED, 0},
		{32, 32, (PAGES(65) - 32) | IS_MMAPPED, 0},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_glibc_mmapped found;
		struct space space;

		open_space(&space, IMAGE_BLOCK);
		put_head(&space, rows[i].offset, rows[i].before, rows[i].size);
		found = find(&space, ANY, 0);
		close_space(&space);
		if (found.count != (rows[i].pages > 0) || found.bytes != PAGES(rows[i].pages))
			fail_msg("row %zu: %llu bytes", i, (unsigned long long)found.bytes);
	}
}

static void blocks_that_follow_each_other_are_found(void **state)
{
	struct space space;

	(void)state;
	open_space(&space, IMAGE_BLOCK);
	put_block(&space, 0, 2);
	put_block(&space, 2, 3);
	put_block(&space, 5, 59);
	expect(&space, ANY, 0, 3, 64);
	expect(&space, 2, PAGES(64), 2, 5);
	expect(&space, 1, PAGES(64), 1, 2);
	expect(&space, 0, 0, 0, 0);
	/* The last block would reach past the mapping. */
	put_block(&space, 5, 60);
	expect(&space, ANY, 0, 2, 5);
	/* An aligned block does not follow another one. */
	put_head(&space, PAGES(5), 0, 0);
	put_head(&space, PAGES(5) + 32, 32, (PAGES(3) - 32) | IS_MMAPPED);
	expect(&space, ANY, 0, 2, 5);
	close_space(&space);
}

static void a_block_that_is_not_resident_ends_the_search(void **state)
{
	struct flmem_glibc_mmapped found;
	struct space space;

	(void)state;
	open_space(&space, IMAGE_BLOCK);
	put_block(&space, 0, 2);
	put_block(&space, 2, 3);
	space.image->absent[IMAGE_BLOCK] = 1U << 2 | 1U << 1;
	found = find(&space, ANY, 0);
	assert_int_equal(found.count, 1);
	assert_int_equal(found.bytes, PAGES(2));
	assert_int_equal(found.resident, PAGES(1));
	space.image->absent[IMAGE_BLOCK] = 1;
	assert_int_equal(find(&space, ANY, 0).count, 0);
	close_space(&space);
}

/* They are searched for only if malloc has more of them than were found. */
static void blocks_behind_other_memory_are_searched_for(void **state)
{
	struct space space;

	(void)state;
	open_space(&space, IMAGE_BLOCK);
	put_block(&space, 5, 2);
	put_block(&space, 7, 1);
	put_block(&space, 20, 4);
	put_block(&space, 63, 1);
	expect(&space, ANY, 0, 0, 0);
	expect(&space, 4, PAGES(8), 4, 8);
	expect(&space, 9, PAGES(8), 4, 8); /* malloc has more elsewhere */
	expect(&space, 3, PAGES(8), 3, 7);
	expect(&space, 1, PAGES(8), 1, 2);
	space.negligible = PAGES(8);
	expect(&space, 4, PAGES(8), 0, 0);
	space.negligible = PAGES(8) - 1;
	expect(&space, 4, PAGES(8), 4, 8);
	/* A block that would reach past the mapping does not count. */
	put_block(&space, 30, 35);
	expect(&space, 9, PAGES(8), 4, 8);
	/* Otherwise a block found at the start would count twice. */
	put_block(&space, 0, 1);
	expect(&space, 5, PAGES(9), 5, 9);
	close_space(&space);
}

/* Higher addresses are searched first, until malloc's number is reached. */
static void look_alikes_do_not_replace_a_block(void **state)
{
	struct flmem_map rows[2];
	struct space space;

	(void)state;
	open_space(&space, IMAGE_BLOCK);
	rows[0] = rows[1] = space.map;
	rows[0].end = rows[1].start = space.map.start + PAGES(32);
	space.maps = (struct flmem_maps){.rows = rows, .count = 2};
	put_block(&space, 0, 10);
	put_block(&space, 37, 1);
	put_block(&space, 42, 1);
	expect(&space, 2, PAGES(20), 1, 10);
	expect(&space, 3, PAGES(20), 3, 12);
	close_space(&space);
}

static void a_search_without_time_keeps_what_it_found_first(void **state)
{
	struct space space;

	(void)state;
	open_space(&space, IMAGE_BLOCK);
	put_block(&space, 0, 2);
	put_block(&space, 5, 2);
	space.deadline_ns = LATE_NS;
	expect(&space, 2, PAGES(4), 1, 2);
	space.deadline_ns = 0;
	expect(&space, 2, PAGES(4), 2, 4);
	close_space(&space);
}

/* Data in it may look like a block. */
static void a_heap_of_an_arena_holds_no_blocks(void **state)
{
	uint64_t owners[2] = {image_main(), 0};
	struct space space;

	(void)state;
	open_space(&space, IMAGE_HEAP);
	memcpy(&owners[1], space.image->areas[IMAGE_HEAP], sizeof(owners[1]));
	image_put(space.image, IMAGE_HEAP, PAGES(9), 0);
	image_put(space.image, IMAGE_HEAP, PAGES(9) + 8, PAGES(2) | IS_MMAPPED);
	space.glibc.arenas = owners;
	space.glibc.arena_count = 2;
	space.glibc.heap_bytes = IMAGE_USED;
	expect(&space, 1, PAGES(2), 0, 0);
	space.glibc.arenas = &owners[1];
	space.glibc.arena_count = 1;
	expect(&space, 1, PAGES(2), 0, 0);
	/*
	 * The owner is not a known arena, or the mapping is not at the start of a heap, or there is
	 * none.
	 */
	owners[1]++;
	expect(&space, 1, PAGES(2), 1, 2);
	owners[1]--;
	space.glibc.heap_bytes = 5 * IMAGE_USED;
	assert_int_not_equal(image_start[IMAGE_HEAP] % (5 * IMAGE_USED), 0);
	expect(&space, 1, PAGES(2), 1, 2);
	space.glibc.heap_bytes = 0;
	expect(&space, 1, PAGES(2), 1, 2);
	close_space(&space);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_private_memory_holds_blocks),
		cmocka_unit_test(only_whole_pages_with_the_mark_are_a_block),
		cmocka_unit_test(blocks_that_follow_each_other_are_found),
		cmocka_unit_test(a_block_that_is_not_resident_ends_the_search),
		cmocka_unit_test(blocks_behind_other_memory_are_searched_for),
		cmocka_unit_test(look_alikes_do_not_replace_a_block),
		cmocka_unit_test(a_search_without_time_keeps_what_it_found_first),
		cmocka_unit_test(a_heap_of_an_arena_holds_no_blocks),
	};

	return cmocka_run_group_tests_name("glibc_mmapped", tests, NULL, NULL);
}
