/* SPDX-License-Identifier: Apache-2.0 */
/* Tests damage to glibc's lists that only some of the checks see, and memory beside theirs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "allocators/glibc/glibc_check.h"
#include "base/cleanup.h"
#include "glibc_listed.h"

#define BUDGET_US 60000000U /* enough, however slow the machine is */

/* An image that changes, or cannot be read, at each read of its main arena. */
struct changing {
	struct listed listed;
	unsigned looks; /* number of checks so far */
	void (*change)(struct changing *changing);
	uint64_t bad; /* an address that cannot be read; 0: none */
	int error;
};

static int read_changing(void *context, const struct iovec *local, const struct iovec *remote,
			 size_t count)
{
	struct changing *changing = context;
	bool arena = false;

	for (size_t i = 0; i < count; i++) {
		const uint64_t from = (uint64_t)(uintptr_t)remote[i].iov_base;

		if (changing->bad - from < remote[i].iov_len)
			return changing->error;
		arena |= image_main() - from < remote[i].iov_len;
	}
	if (arena && changing->change)
		changing->change(changing);
	changing->looks += arena;
	return image_read(changing->listed.image, local, remote, count);
}

static int each_changing(void *context, uint64_t start, uint64_t end, flmem_pages_visit *visit,
			 void *visit_context)
{
	return image_each(((struct changing *)context)->listed.image, start, end, visit,
			  visit_context);
}

static unsigned checks = FLMEM_GLIBC_CHECKS;

static bool is_damaged(struct changing *changing, struct flmem_glibc_damage *damage)
{
	struct glibc_image *image = changing->listed.image;
	const struct flmem_peek_source source = {
		.page_bytes = IMAGE_PAGE,
		.each = each_changing,
		.read = read_changing,
		.context = changing,
	};
	FLMEM_AUTO_PEEK struct flmem_peek *peek = flmem_peek_new(&source);
	const struct flmem_glibc_space space = image_space(image, image->layout->minor, peek);

	changing->looks = 0;
	*damage = (struct flmem_glibc_damage){0};
	return flmem_glibc_is_damaged(&space, BUDGET_US, checks, damage);
}

static void put_end(struct changing *changing, uint64_t value)
{
	image_put(changing->listed.image, IMAGE_DATA, image_bin_at(changing->listed.image) + 8,
		  value);
}

static void end_elsewhere(struct changing *changing)
{
	put_end(changing, 0x1000);
}

static void end_elsewhere_each_time(struct changing *changing)
{
	put_end(changing, 0x1000 + 16 * changing->looks);
}

static unsigned first_looks; /* number of reads of the first check */

/* The program seems to free a block between two checks. */
static void end_elsewhere_once(struct changing *changing)
{
	if (changing->looks < first_looks)
		put_end(changing, 0x1000);
	else
		listed_join(&changing->listed);
}

static void be_locked_later(struct changing *changing)
{
	put_end(changing, 0x1000);
	image_put_half(changing->listed.image, IMAGE_DATA, IMAGE_ARENA_AT,
		       changing->looks >= first_looks);
}

static void only_the_same_damage_at_each_look_counts(void **state)
{
	static const struct {
		void (*change)(struct changing *changing);
		bool damaged;
	} rows[] = {
		{end_elsewhere, true},
		{end_elsewhere_each_time, false},
		{end_elsewhere_once, false},
		{be_locked_later, false},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct changing changing = {.listed = listed_make(flmem_glibc_layouts),
					    .change = rows[i].change};
		struct flmem_glibc_damage damage;

		checks = 1;
		first_looks = UINT32_MAX;
		assert_true(is_damaged(&changing, &damage));
		first_looks = changing.looks;
		checks = FLMEM_GLIBC_CHECKS;
		listed_join(&changing.listed);
		if (is_damaged(&changing, &damage) != rows[i].damaged ||
		    changing.looks <= first_looks)
			fail_msg("row %zu, %u looks", i, changing.looks);
		if (rows[i].damaged)
			assert_int_equal(damage.word, 0x1000);
		free(changing.listed.image);
	}
}

static uint64_t ring_at(const struct glibc_image *image)
{
	return IMAGE_ARENA_AT + image->layout->bins + FLMEM_GLIBC_FROM_BINS_NEXT;
}

/* The arena in the ring of the image besides the main one. */
static uint64_t second_arena;
static unsigned broken_looks;

static void break_ring(struct changing *changing)
{
	struct glibc_image *image = changing->listed.image;

	image_put(image, IMAGE_DATA, ring_at(image),
		  changing->looks < broken_looks ? image_start[IMAGE_BRK] + 0x400 : second_arena);
}

static void break_ring_elsewhere(struct changing *changing)
{
	struct glibc_image *image = changing->listed.image;

	image_put(image, IMAGE_DATA, ring_at(image),
		  image_start[IMAGE_BRK] + 0x400 + 16 * changing->looks);
}

static void a_ring_that_is_whole_again_is_no_damage(void **state)
{
	struct changing changing = {.listed = listed_make(flmem_glibc_layouts),
				    .change = break_ring};
	struct flmem_glibc_damage damage;
	unsigned looks, once[FLMEM_GLIBC_CHECKS - 1];

	(void)state;
	second_arena =
		image_word(changing.listed.image, IMAGE_DATA, ring_at(changing.listed.image));
	broken_looks = UINT32_MAX;
	assert_true(is_damaged(&changing, &damage));
	assert_string_equal(damage.list, "arenas");
	looks = changing.looks;
	/* The damage is seen by so many checks, each time alike. */
	for (checks = 1; checks < FLMEM_GLIBC_CHECKS; checks++) {
		assert_true(is_damaged(&changing, &damage));
		once[checks - 1] = changing.looks;
	}
	for (size_t i = 0; i + 1 < FLMEM_ARRAY_SIZE(once); i++)
		assert_int_equal(once[i + 1] - once[i], once[1] - once[0]);
	assert_int_equal(looks, once[FLMEM_ARRAY_SIZE(once) - 1] + once[1] - once[0]);
	assert_true(once[1] > once[0]);
	/* However late the list becomes valid. */
	for (broken_looks = 1; broken_looks < looks; broken_looks++)
		assert_false(is_damaged(&changing, &damage));
	changing.change = break_ring_elsewhere;
	assert_false(is_damaged(&changing, &damage));
	free(changing.listed.image);
}

/* Three mappings replace that of the first heap; the second may not be written. */
static bool is_protected_at(struct glibc_image *image, unsigned of, uint64_t start, uint64_t end)
{
	struct changing changing = {.listed = {.image = image}};
	struct flmem_map rows[IMAGE_AREAS + 2];
	struct flmem_glibc_damage damage;
	bool damaged;

	memcpy(rows, image->maps, of * sizeof(*rows));
	memcpy(rows + of + 2, image->maps + of, (IMAGE_AREAS - of) * sizeof(*rows));
	rows[of] = rows[of + 1] = rows[of + 2];
	rows[of].end = rows[of + 1].start = start;
	rows[of + 1].end = rows[of + 2].start = end;
	rows[of + 1].flags = FLMEM_MAP_READ;
	image->list = (struct flmem_maps){.rows = rows, .count = IMAGE_AREAS + 2};
	damaged = is_damaged(&changing, &damage);
	assert_true(!damaged || damage.is_protected);
	return damaged;
}

#define BRK_MAP	 0
#define HEAP_MAP 2

/* The heap ends with one of these mappings: the head after a block is written as well. */
static void each_address_that_is_written_counts(void **state)
{
	struct listed listed = listed_make(flmem_glibc_layouts);
	struct glibc_image *image = listed.image;
	const uint64_t block = image_start[IMAGE_BRK] + listed.offset[1];
	const uint64_t behind = block + image_size_at(image, listed.offset[1]);
	const uint64_t arena = image_word(image, IMAGE_DATA, ring_at(image));
	const uint64_t top =
		image_word(image, IMAGE_DATA, IMAGE_ARENA_AT + image->layout->bins - 16);

	(void)state;
	assert_true(is_protected_at(image, BRK_MAP, block, block + 16));
	assert_true(is_protected_at(image, BRK_MAP, behind, behind + 16));
	assert_false(is_protected_at(image, BRK_MAP, behind + 16, behind + 32));
	assert_true(is_protected_at(image, BRK_MAP, top, top + 16));
	assert_true(is_protected_at(image, HEAP_MAP, arena, arena + 16));
	assert_false(is_protected_at(image, HEAP_MAP, arena + 16, arena + 32));
	free(image);
}

static void memory_that_cannot_be_read_is_damage(void **state)
{
	static const int errors[] = {-EFAULT, -EIO, -EPERM};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(errors); i++) {
		struct changing changing = {.listed = listed_make(flmem_glibc_layouts)};
		struct flmem_glibc_damage damage;

		changing.bad = image_start[IMAGE_BRK] + changing.listed.offset[1];
		changing.error = errors[i];
		assert_int_equal(is_damaged(&changing, &damage), errors[i] != -EPERM);
		if (errors[i] != -EPERM)
			assert_string_equal(damage.what, "its memory cannot be read");
		free(changing.listed.image);
	}
}

/* The blocks after it are unknown, so nothing is reported about them. */
static void a_fastbin_whose_block_is_not_resident_is_no_damage(void **state)
{
	const struct flmem_glibc_layout *layout = flmem_glibc_layouts;
	struct changing changing = {0};
	struct flmem_glibc_damage damage;
	struct glibc_image *image;
	uint64_t chunk;

	(void)state;
	while (!layout->fastbins)
		layout++;
	changing.listed = listed_make(layout);
	image = changing.listed.image;
	chunk = image_word(image, IMAGE_DATA, IMAGE_ARENA_AT + layout->fastbins);
	image->absent[IMAGE_BRK] = UINT64_C(1) << ((chunk - image_start[IMAGE_BRK]) / IMAGE_PAGE);
	assert_false(is_damaged(&changing, &damage));
	free(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_same_damage_at_each_look_counts),
		cmocka_unit_test(a_ring_that_is_whole_again_is_no_damage),
		cmocka_unit_test(each_address_that_is_written_counts),
		cmocka_unit_test(memory_that_cannot_be_read_is_damage),
		cmocka_unit_test(a_fastbin_whose_block_is_not_resident_is_no_damage),
	};

	return cmocka_run_group_tests_name("glibc_check_again", tests, NULL, NULL);
}
