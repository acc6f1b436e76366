/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "allocators/glibc/glibc_check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "glibc_listed.h"

#define BUDGET_US 60000000U /* enough, however slow the machine is */

static bool look(struct glibc_image *image, struct flmem_glibc_damage *damage)
{
	FLMEM_AUTO_PEEK struct flmem_peek *peek = image_peek(image);
	const struct flmem_glibc_space space = image_space(image, image->layout->minor, peek);

	*damage = (struct flmem_glibc_damage){0};
	return flmem_glibc_is_damaged(&space, BUDGET_US, FLMEM_GLIBC_CHECKS, damage);
}

static void sound_lists_of_each_release_are_no_damage(void **state)
{
	struct flmem_glibc_damage damage;

	(void)state;
	for (const struct flmem_glibc_layout *l = flmem_glibc_layouts; l->minor; l++) {
		struct listed listed = listed_make(l);

		assert_false(look(listed.image, &damage));
		free(listed.image);
	}
}

/* Changes one word of the second listed chunk, or after it, and checks the report. */
static void damage_to_a_listed_block_is_told(void **state)
{
	static const struct {
		bool behind;
		uint64_t at, value;
		const char *what;
		uint64_t leads_to; /* 0: the chunk itself */
	} rows[] = {
		{false, 24, 0x1000, "its back pointer does not match the list", 0},
		{false, 8, 0x1, "its size is invalid", 0},
		{false, 8, 0x29, "its size is invalid", 0},
		{false, 8, UINT64_C(1) << 60 | 1, "its size reaches past mapped memory", 0},
		{false, 16, 0x1230, "this address is not mapped", 0x1230},
		{false, 16, 0x1238, "this address is not aligned like a block", 0x1238},
		{true, 0, 0x30, "the next block does not mark it as free", 0},
		{true, 8, 0x91, "the next block does not mark it as free", 0},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct listed listed = listed_make(flmem_glibc_layouts);
		const uint64_t second = listed.offset[1];
		struct flmem_glibc_damage damage;

		image_put(listed.image, IMAGE_BRK,
			  second + rows[i].at +
				  (rows[i].behind ? image_size_at(listed.image, second) : 0),
			  rows[i].value);
		assert_true(look(listed.image, &damage));
		assert_string_equal(damage.list, "free blocks");
		assert_string_equal(damage.what, rows[i].what);
		assert_int_equal(damage.address, rows[i].leads_to
							 ? rows[i].leads_to
							 : image_start[IMAGE_BRK] + second);
		free(listed.image);
	}
}

/* Numbers of the image's mappings, by address; `offset` in the first area of chunks. */
#define BRK_MAP	 0
#define HEAP_MAP 2

static void a_heap_that_may_not_be_written_is_told(void **state)
{
	static const unsigned maps[] = {BRK_MAP, HEAP_MAP};
	static const unsigned flags[] = {0, FLMEM_MAP_READ, FLMEM_MAP_WRITE};
	const unsigned whole = FLMEM_MAP_READ | FLMEM_MAP_WRITE;
	struct listed listed = listed_make(flmem_glibc_layouts);
	struct flmem_glibc_damage damage;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(maps); i++) {
		struct flmem_map *map = &listed.image->maps[maps[i]];

		for (size_t j = 0; j < FLMEM_ARRAY_SIZE(flags); j++) {
			map->flags = flags[j];
			assert_true(look(listed.image, &damage));
			assert_true(damage.is_protected);
			assert_true(damage.address >= map->start && damage.address < map->end);
		}
		map->flags = whole;
		assert_false(look(listed.image, &damage));
	}
	free(listed.image);
}

/* The top and the arena may be written; one listed block may not. */
static void a_block_that_may_not_be_written_is_told(void **state)
{
	struct listed listed = listed_make(flmem_glibc_layouts);
	struct glibc_image *image = listed.image;
	const uint64_t page = image_start[IMAGE_BRK] + listed.offset[1] / IMAGE_PAGE * IMAGE_PAGE;
	struct flmem_map rows[IMAGE_AREAS + 2];
	struct flmem_glibc_damage damage;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		rows[i] = image->maps[BRK_MAP];
	rows[0].end = rows[1].start = page;
	rows[1].end = rows[2].start = page + IMAGE_PAGE;
	rows[1].flags = FLMEM_MAP_READ;
	memcpy(rows + 3, image->maps + 1, (IMAGE_AREAS - 1) * sizeof(*rows));
	image->list = (struct flmem_maps){.rows = rows, .count = IMAGE_AREAS + 2};
	assert_true(look(image, &damage));
	assert_true(damage.is_protected);
	assert_true(damage.address >= page && damage.address < page + IMAGE_PAGE);
	free(image);
}

static void a_bin_that_ends_elsewhere_is_damage(void **state)
{
	struct listed listed = listed_make(flmem_glibc_layouts);
	struct flmem_glibc_damage damage;

	(void)state;
	image_put(listed.image, IMAGE_DATA, image_bin_at(listed.image) + 8,
		  image_start[IMAGE_BRK] + listed.offset[1]);
	assert_true(look(listed.image, &damage));
	assert_string_equal(damage.what, "its list has a wrong end pointer");
	free(listed.image);
}

static const struct flmem_glibc_layout *with_fastbins(bool mangles)
{
	const struct flmem_glibc_layout *l = flmem_glibc_layouts;

	while (!l->fastbins || l->mangles != mangles)
		l++;
	return l;
}

static void a_fastbin_without_end_or_of_other_sizes_is_damage(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct listed listed = listed_make(with_fastbins(i));
		struct glibc_image *image = listed.image;
		const uint64_t chunk =
			image_word(image, IMAGE_DATA, IMAGE_ARENA_AT + image->layout->fastbins);
		const uint64_t offset = chunk - image_start[IMAGE_BRK];
		struct flmem_glibc_damage damage;

		image_put(image, IMAGE_BRK, offset + 16, i ? (chunk + 16) >> 12 ^ chunk : chunk);
		assert_true(look(image, &damage));
		assert_string_equal(damage.what, "its list is circular");
		image_put(image, IMAGE_BRK, offset + 8, 0x51);
		assert_true(look(image, &damage));
		assert_string_equal(damage.what, "its size does not match its list");
		free(image);
	}
}

static void what_is_swapped_out_or_locked_is_no_damage(void **state)
{
	struct listed listed = listed_make(flmem_glibc_layouts);
	struct flmem_glibc_damage damage;

	(void)state;
	image_put(listed.image, IMAGE_BRK, listed.offset[1] + 24, 0x1000);
	image_put_half(listed.image, IMAGE_DATA, IMAGE_ARENA_AT, 1);
	assert_false(look(listed.image, &damage));
	image_put_half(listed.image, IMAGE_DATA, IMAGE_ARENA_AT, 0);
	listed.image->absent[IMAGE_BRK] |= UINT64_C(1) << (listed.offset[1] / IMAGE_PAGE);
	assert_false(look(listed.image, &damage));
	free(listed.image);
}

static bool look_behind_swap(struct glibc_image *image, struct flmem_glibc_damage *damage)
{
	FLMEM_AUTO_PEEK struct flmem_peek *peek = image_peek(image);
	const struct flmem_glibc_space space = image_space(image, image->layout->minor, peek);

	*damage = (struct flmem_glibc_damage){0};
	flmem_peek_swap_in(peek);
	return flmem_glibc_is_damaged(&space, BUDGET_US, FLMEM_GLIBC_CHECKS, damage);
}

/* A trim that follows would read it as well. */
static void what_is_swapped_out_is_read_before_a_trim(void **state)
{
	struct listed listed = listed_make(flmem_glibc_layouts);
	struct glibc_image *image = listed.image;
	const uint64_t page = UINT64_C(1) << (listed.offset[1] / IMAGE_PAGE);
	struct flmem_glibc_damage damage;

	(void)state;
	image->absent[IMAGE_BRK] = image->absent[IMAGE_HEAP] = UINT64_MAX;
	image->absent[IMAGE_DATA] = UINT64_MAX;
	memcpy(image->swapped, image->absent, sizeof(image->swapped));
	assert_false(look(image, &damage));
	assert_false(look_behind_swap(image, &damage));
	image_put(image, IMAGE_BRK, listed.offset[1] + 24, 0x1000);
	assert_true(look_behind_swap(image, &damage));
	assert_string_equal(damage.what, "its back pointer does not match the list");
	/*
	 * The page is neither in memory nor swapped out: malloc_trim would follow a pointer of
	 * zero.
	 */
	image->swapped[IMAGE_BRK] &= ~page;
	assert_true(look_behind_swap(image, &damage));
	assert_string_equal(damage.what, "its memory was discarded");
	free(image);
}

/* Absent memory reads as zeroes, as the lists do before the first call to malloc. */
static void lists_that_are_swapped_out_are_not_unused(void **state)
{
	const struct flmem_glibc_layout *layout = flmem_glibc_layouts;
	struct glibc_image *image = image_new(layout);
	FLMEM_AUTO_PEEK struct flmem_peek *peek = image_peek(image);
	const struct flmem_glibc_space space = image_space(image, layout->minor, peek);
	const uint64_t next = layout->bins + FLMEM_GLIBC_FROM_BINS_NEXT;
	const uint64_t at = IMAGE_PAGE - next; /* the lists end with a page */
	FLMEM_AUTO_GLIBC struct flmem_glibc glibc = {0};
	const char *why;

	(void)state;
	memset(image->areas[IMAGE_DATA], 0, IMAGE_PARAMS_AT);
	image_put(image, IMAGE_DATA, IMAGE_PAGE, image_start[IMAGE_DATA] + at);
	image->absent[IMAGE_DATA] = 1;
	assert_true(flmem_glibc_find(&space, &glibc, &why));
	assert_int_equal(glibc.arena_count, 0);
	image->swapped[IMAGE_DATA] = 1;
	assert_false(flmem_glibc_find(&space, &glibc, &why));
	free(image);
}

static void arenas_that_form_no_ring_are_damage(void **state)
{
	const struct flmem_glibc_layout *layout = flmem_glibc_layouts;
	struct glibc_image *image = image_new(layout);
	const uint64_t next = IMAGE_ARENA_AT + layout->bins + FLMEM_GLIBC_FROM_BINS_NEXT;
	const uint64_t second = image_word(image, IMAGE_DATA, next);
	struct flmem_glibc_damage damage;

	(void)state;
	image_put(image, IMAGE_DATA, next, image_start[IMAGE_BRK] + 0x400);
	assert_true(look(image, &damage));
	assert_string_equal(damage.list, "arenas");
	assert_int_equal(damage.address, image_start[IMAGE_BRK] + 0x400);
	image_put(image, IMAGE_DATA, next, 0x4000);
	assert_true(look(image, &damage));
	/* An arena outside of the known ones is an arena nevertheless. */
	memcpy(image->areas[IMAGE_BRK] + 0x8000, image->areas[IMAGE_DATA] + IMAGE_ARENA_AT, 0x1000);
	for (uint64_t i = 0; i < FLMEM_GLIBC_BINS; i++) {
		const uint64_t place = 0x8000 + layout->bins + 16 * i;

		image_put(image, IMAGE_BRK, place, image_start[IMAGE_BRK] + place - 16);
		image_put(image, IMAGE_BRK, place + 8, image_start[IMAGE_BRK] + place - 16);
	}
	image_put(image, IMAGE_DATA, next, image_start[IMAGE_BRK] + 0x8000);
	assert_false(look(image, &damage));
	/* An arena whose memory is swapped out may be valid. */
	image_put(image, IMAGE_DATA, next, second);
	image->absent[IMAGE_HEAP] = UINT64_MAX;
	assert_false(look(image, &damage));
	free(image);
}

/* An image in which a thread repairs, between two checks, what the first one found. */
struct moving {
	struct listed listed;
	unsigned reads;
};

static int read_moving(void *context, const struct iovec *local, const struct iovec *remote,
		       size_t count)
{
	struct moving *moving = context;
	int rc = image_read(moving->listed.image, local, remote, count);

	listed_join(&moving->listed);
	moving->reads++;
	return rc;
}

static int each_moving(void *context, uint64_t start, uint64_t end, flmem_pages_visit *visit,
		       void *visit_context)
{
	return image_each(((struct moving *)context)->listed.image, start, end, visit,
			  visit_context);
}

static void what_changes_is_no_damage(void **state)
{
	struct moving moving = {.listed = listed_make(flmem_glibc_layouts)};
	const struct flmem_peek_source source = {
		.page_bytes = IMAGE_PAGE,
		.each = each_moving,
		.read = read_moving,
		.context = &moving,
	};
	FLMEM_AUTO_PEEK struct flmem_peek *peek = flmem_peek_new(&source);
	struct glibc_image *image = moving.listed.image;
	const struct flmem_glibc_space space = image_space(image, image->layout->minor, peek);
	struct flmem_glibc_damage damage;

	(void)state;
	image_put(image, IMAGE_DATA, image_bin_at(image) + 8, 0x1000);
	assert_false(flmem_glibc_is_damaged(&space, BUDGET_US, FLMEM_GLIBC_CHECKS, &damage));
	assert_true(moving.reads > 1);
	free(image);
}

#define SHORT_BUDGET_US 20000U
#define LATE_BIN	100U /* one of the last bins to be checked */
#define STARVED_US	4000U

/* Seconds by which the time of day is ahead, without processor time. */
static time_t ahead_s;

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	int rc = __real_clock_gettime(clock, time);

	if (clock == CLOCK_MONOTONIC)
		time->tv_sec += ahead_s;
	return rc;
}

/* An image one of whose reads takes time: the first, or one after the first damage was found. */
struct slow {
	struct glibc_image *image;
	unsigned reads, quick; /* number of reads so far, and before the one that takes time */
	void (*wait)(void);
};

static int read_slowly(void *context, const struct iovec *local, const struct iovec *remote,
		       size_t count)
{
	struct slow *slow = context;

	if (slow->reads++ == slow->quick)
		slow->wait();
	return image_read(slow->image, local, remote, count);
}

static int each_slowly(void *context, uint64_t start, uint64_t end, flmem_pages_visit *visit,
		       void *visit_context)
{
	return image_each(((struct slow *)context)->image, start, end, visit, visit_context);
}

/* Lets other programs have the processor for longer than the budget. */
static void be_preempted(void)
{
	flmem_clock_sleep_us(2 * SHORT_BUDGET_US);
}

static unsigned budgets; /* how many budgets the read takes */

static void compute(void)
{
	const uint64_t end = flmem_clock_cpu_ns() + 1000 * budgets * SHORT_BUDGET_US;

	while (flmem_clock_cpu_ns() < end)
		;
}

/* Lets them have it for longer than flmem waits. */
static void be_starved(void)
{
	ahead_s += 1 + FLMEM_GLIBC_WAIT_FACTOR * STARVED_US / 1000000;
}

static bool look_within(struct slow *slow, uint64_t budget_us, unsigned looks,
			struct flmem_glibc_damage *damage)
{
	const struct flmem_peek_source source = {
		.page_bytes = IMAGE_PAGE,
		.each = each_slowly,
		.read = read_slowly,
		.context = slow,
	};
	FLMEM_AUTO_PEEK struct flmem_peek *peek = flmem_peek_new(&source);
	const struct flmem_glibc_space space =
		image_space(slow->image, slow->image->layout->minor, peek);

	slow->reads = 0;
	*damage = (struct flmem_glibc_damage){0};
	return flmem_glibc_is_damaged(&space, budget_us, looks, damage);
}

static bool look_slowly(struct slow *slow, unsigned looks)
{
	struct flmem_glibc_damage damage;

	return look_within(slow, SHORT_BUDGET_US, looks, &damage) && !damage.is_unseen;
}

static void a_busy_machine_hides_no_damage(void **state)
{
	struct listed listed = listed_make(flmem_glibc_layouts);
	struct slow slow = {.image = listed.image, .quick = UINT_MAX, .wait = be_preempted};
	unsigned first;

	(void)state;
	/* A block is also in another list. */
	for (uint64_t end = 0; end < 16; end += 8)
		image_put(listed.image, IMAGE_DATA,
			  image_bin_at(listed.image) + 16 * LATE_BIN + end,
			  image_start[IMAGE_BRK] + listed.offset[1]);
	assert_true(look_slowly(&slow, 1));
	first = slow.reads;
	for (slow.quick = 0; slow.quick < first; slow.quick++)
		assert_true(look_slowly(&slow, 1));
	/* Damage that no further check reaches is still reported. */
	slow.quick = first;
	slow.wait = compute;
	budgets = 6;
	assert_true(look_slowly(&slow, 2));
	assert_true(slow.reads > first);
	/* But a used-up budget is not damage, at whichever read of the lists. */
	budgets = 1;
	for (slow.quick = 0; slow.quick < first && look_slowly(&slow, 2);)
		slow.quick++;
	assert_true(slow.quick < first);
	free(listed.image);
}

/* At whichever read: unseen lists are not called valid. */
static void a_check_that_had_no_time_says_so(void **state)
{
	struct listed listed = listed_make(flmem_glibc_layouts);
	struct slow slow = {.image = listed.image, .quick = UINT_MAX, .wait = be_starved};
	struct flmem_glibc_damage damage;
	unsigned reads, unseen = 0;

	(void)state;
	for (uint64_t end = 0; end < 16; end += 8)
		image_put(listed.image, IMAGE_DATA,
			  image_bin_at(listed.image) + 16 * LATE_BIN + end,
			  image_start[IMAGE_BRK] + listed.offset[1]);
	assert_true(look_slowly(&slow, 1));
	reads = slow.reads;
	for (slow.quick = 0; slow.quick < reads; slow.quick++) {
		assert_true(look_within(&slow, STARVED_US, 1, &damage));
		unseen += damage.is_unseen;
	}
	print_message("%u of %u reads\n", unseen, reads);
	assert_true(unseen > 0);
	free(listed.image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sound_lists_of_each_release_are_no_damage),
		cmocka_unit_test(damage_to_a_listed_block_is_told),
		cmocka_unit_test(a_heap_that_may_not_be_written_is_told),
		cmocka_unit_test(a_block_that_may_not_be_written_is_told),
		cmocka_unit_test(a_bin_that_ends_elsewhere_is_damage),
		cmocka_unit_test(a_fastbin_without_end_or_of_other_sizes_is_damage),
		cmocka_unit_test(what_is_swapped_out_or_locked_is_no_damage),
		cmocka_unit_test(what_is_swapped_out_is_read_before_a_trim),
		cmocka_unit_test(lists_that_are_swapped_out_are_not_unused),
		cmocka_unit_test(arenas_that_form_no_ring_are_damage),
		cmocka_unit_test(what_changes_is_no_damage),
		cmocka_unit_test(a_busy_machine_hides_no_damage),
		cmocka_unit_test(a_check_that_had_no_time_says_so),
	};

	return cmocka_run_group_tests_name("glibc_check", tests, NULL, NULL);
}
