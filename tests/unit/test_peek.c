/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the peek on pages and memory of this very process, in known states. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proc/pages.h"
#include "proc/peek.h"
#include "proc/peek_words.h"
#include "proc/process.h"
#include "proc/status.h"

#include "counting_peek.h"

#define PAGES 256U

struct fixture {
	struct flmem_process process;
	struct flmem_pages pages;
	struct flmem_peek *peek;
	size_t page;
	uint64_t area;
	char *bytes;
};

/* Maps an area that is in one of the ranges that are queried around an address. */
static char *map_area(size_t page)
{
	const size_t range = 1024 * page, length = PAGES * page;
	char *start = mmap(NULL, range + length, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *area;

	if (start == MAP_FAILED)
		return NULL;
	area = start + (range - (uintptr_t)start % range) % range;
	if (area > start)
		munmap(start, (size_t)(area - start));
	munmap(area + length, (size_t)(start + range - area));
	return area;
}

/* Page i of the area is written when i % 4 == 0, only read (the zero page) when i % 4 == 1. */
static int set_up(void **state)
{
	static struct fixture f;

	f = (struct fixture){.process = FLMEM_PROCESS_INIT, .pages = FLMEM_PAGES_INIT};
	f.page = (size_t)flmem_page_bytes();
	f.bytes = map_area(f.page);
	if (!f.bytes || flmem_process_open(getpid(), &f.process, NULL) ||
	    flmem_pages_open(&f.process, &f.pages, NULL) ||
	    flmem_peek_open(&f.process, &f.peek, NULL))
		return -1;
	f.area = (uint64_t)(uintptr_t)f.bytes;
	madvise(f.bytes, PAGES * f.page, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < PAGES; i++) {
		if (i % 4 == 0)
			memset(f.bytes + i * f.page, (int)(i / 4 + 1), f.page);
		else if (i % 4 == 1)
			(void)*(volatile char *)(f.bytes + i * f.page);
	}
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	flmem_peek_free(f->peek);
	flmem_pages_close(&f->pages);
	flmem_process_close(&f->process);
	munmap(f->bytes, PAGES * f->page);
	return 0;
}

static void add(void *context, uint64_t start, uint64_t end)
{
	*(uint64_t *)context += end - start;
}

static uint64_t count_resident(struct fixture *f)
{
	uint64_t bytes = 0;

	assert_int_equal(
		flmem_pages_each(&f->pages, f->area, f->area + PAGES * f->page, add, &bytes), 0);
	return bytes;
}

static void counts_what_was_written(void **state)
{
	struct fixture *f = *state;
	uint64_t bytes = count_resident(f);

	if (f->pages.old_kernel) {
		fputs("skipped: this kernel has no PAGEMAP_SCAN\n", stderr);
		skip();
	}
	assert_int_equal(bytes, PAGES / 4 * f->page);
}

/* Without PAGEMAP_SCAN zero pages look like any other. */
static void older_way_counts_zero_pages_too(void **state)
{
	struct fixture *f = *state;

	f->pages.old_kernel = true;
	assert_int_equal(count_resident(f), PAGES / 2 * f->page);
}

static void collect(void *context, uint64_t start, uint64_t end)
{
	uint64_t *last = context;

	assert_true(start < end);
	assert_true(start >= *last);
	*last = end;
}

static void ranges_ascend(void **state)
{
	struct fixture *f = *state;
	uint64_t last = f->area;

	assert_int_equal(
		flmem_pages_each(&f->pages, f->area, f->area + PAGES * f->page, collect, &last), 0);
	assert_true(last <= f->area + PAGES * f->page);
}

static void range_is_counted_to_the_byte(void **state)
{
	struct fixture *f = *state;
	uint64_t whole = f->area + PAGES * f->page;

	if (f->pages.old_kernel)
		skip();
	assert_int_equal(flmem_peek_resident(f->peek, f->area, whole), PAGES / 4 * f->page);
	assert_int_equal(flmem_peek_resident(f->peek, f->area + 100, f->area + 300), 200);
	assert_int_equal(flmem_peek_resident(f->peek, f->area + 100, f->area + f->page + 9),
			 f->page - 100);
	assert_int_equal(
		flmem_peek_resident(f->peek, f->area + 2 * f->page + 5, f->area + 4 * f->page + 7),
		7);
	assert_int_equal(flmem_peek_resident(f->peek, whole, f->area), 0);
}

static void reads_and_leaves_the_rest_alone(void **state)
{
	struct fixture *f = *state;
	unsigned char byte = 0;
	FLMEM_AUTO_FREE unsigned char *out = malloc(PAGES * f->page);
	uint64_t resident = 0;

	assert_non_null(out);
	assert_int_equal(flmem_peek_read(f->peek, f->area + 8 * f->page + 17, &byte, 1), 0);
	assert_int_equal(byte, 3);
	assert_int_equal(flmem_peek_read(f->peek, f->area + 2 * f->page, &byte, 1), -ENODATA);
	assert_int_equal(flmem_peek_read(f->peek, f->area + f->page - 4, out, 8), -ENODATA);
	assert_int_equal(
		flmem_peek_read_pages(f->peek, f->area, FLMEM_PEEK_PAGES_MAX, out, &resident), 0);
	assert_int_equal(resident, UINT64_C(0x1111111111111111));
	assert_memory_equal(out + 8 * f->page, f->bytes + 8 * f->page, f->page);
	/* The peek has mapped nothing: the third page of four is still absent. */
	flmem_peek_forget(f->peek);
	for (size_t i = 2; i < PAGES; i += 4)
		assert_false(flmem_peek_is_resident(f->peek, f->area + i * f->page));
}

/* The peek reads through its cache: one page, then one with its neighbours, then whole pages. */
static void reads_little_more_than_was_asked_for(void **state)
{
	struct fixture *f = *state;
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;
	FLMEM_AUTO_FREE unsigned char *out = malloc(FLMEM_PEEK_PAGES_MAX * f->page);
	uint64_t resident;
	char byte;

	assert_non_null(out);
	counting_peek_open(&f->process, &counting);
	assert_int_equal(flmem_peek_read(counting.peek, f->area + 8 * f->page + 17, &byte, 1), 0);
	assert_int_equal(counting.bytes_read, f->page);
	assert_int_equal(flmem_peek_read(counting.peek, f->area + 12 * f->page, &byte, 1), 0);
	assert_in_range(counting.bytes_read, 2 * f->page, 17 * f->page);
	counting.bytes_read = 0;
	assert_int_equal(
		flmem_peek_read_pages(counting.peek, f->area, FLMEM_PEEK_PAGES_MAX, out, &resident),
		0);
	assert_int_equal(counting.bytes_read, FLMEM_PEEK_PAGES_MAX / 4 * f->page);
}

static uint64_t count_calls_of_read(struct counting_peek *counting, uint64_t address, char expected)
{
	const uint64_t before = counting->calls;
	char byte;

	assert_int_equal(flmem_peek_read(counting->peek, address, &byte, 1), 0);
	assert_int_equal(byte, expected);
	return counting->calls - before;
}

/* The first 32 bytes at each address, up to the end of its page, are read and nothing else. */
static void words_far_apart_are_fetched_with_one_call(void **state)
{
	struct fixture *f = *state;
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;
	const uint64_t first = f->area, second = f->area + 40 * f->page,
		       third = f->area + 80 * f->page;
	const uint64_t addresses[] = {
		first + 100, second + f->page - 1, first, f->area + 2 * f->page, 0, UINT64_MAX};
	char byte, words[32];

	counting_peek_open(&f->process, &counting);
	flmem_peek_fetch(counting.peek, addresses, sizeof(addresses) / sizeof(addresses[0]));
	assert_int_equal(counting.calls, 1);
	assert_int_equal(counting.bytes_read, 32 + 1 + 32);
	assert_int_equal(flmem_peek_read(counting.peek, first + 100, words, sizeof(words)), 0);
	assert_memory_equal(words, f->bytes + 100, sizeof(words));
	assert_int_equal(count_calls_of_read(&counting, first, 1), 0);
	assert_int_equal(count_calls_of_read(&counting, second + f->page - 1, 11), 0);
	assert_int_equal(flmem_peek_read(counting.peek, second + f->page - 1, words, 2), -ENODATA);
	counting.calls = 1;
	flmem_peek_fetch(counting.peek, addresses, 2);
	assert_int_equal(counting.calls, 1);
	assert_int_equal(count_calls_of_read(&counting, third, 21), 1);
	assert_int_equal(flmem_peek_read(counting.peek, f->area + 2 * f->page, &byte, 1), -ENODATA);
	assert_int_equal(count_calls_of_read(&counting, first + 7, 1), 1);
}

static void a_page_with_many_wanted_words_is_fetched_whole(void **state)
{
	struct fixture *f = *state;
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;
	uint64_t addresses[6];

	for (size_t i = 0; i < 6; i++)
		addresses[i] = f->area + i * 64;
	counting_peek_open(&f->process, &counting);
	flmem_peek_fetch(counting.peek, addresses, 6);
	assert_in_range(counting.bytes_read, f->page, 2 * f->page + 4 * 32);
	assert_int_equal(count_calls_of_read(&counting, f->area + 4 * 64, 1), 0);
	assert_int_equal(count_calls_of_read(&counting, f->area + f->page - 1, 1), 0);
}

/* What was fetched counts as read no longer; the other words stay. */
/* Words of a page whose number is in the same place of the table do not count for another one. */
static void words_count_for_their_own_page(void **state)
{
	struct fixture *f = *state;
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;
	const size_t length = FLMEM_PEEK_WORDS_PAGES * f->page;
	char *area = mmap(NULL, length + f->page, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t addresses[5];

	assert_true(area != MAP_FAILED);
	area[0] = area[length] = 1;
	for (size_t i = 0; i < 4; i++)
		addresses[i] = (uintptr_t)area + i * 64;
	addresses[4] = (uintptr_t)area + length;
	counting_peek_open(&f->process, &counting);
	flmem_peek_fetch(counting.peek, addresses, FLMEM_ARRAY_SIZE(addresses));
	assert_int_equal(counting.bytes_read, 5 * FLMEM_PEEK_WORDS_LENGTH);
	munmap(area, length + f->page);
}

static void fetched_words_are_forgotten(void **state)
{
	struct fixture *f = *state;
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;
	const uint64_t addresses[] = {f->area, f->area + 40 * f->page, f->area + 80 * f->page};

	counting_peek_open(&f->process, &counting);
	flmem_peek_fetch(counting.peek, addresses, 3);
	f->bytes[0] = f->bytes[40 * f->page] = f->bytes[80 * f->page] = 99;
	flmem_peek_forget_range(counting.peek, f->area + 40 * f->page + 31, 1);
	assert_int_equal(count_calls_of_read(&counting, addresses[1], 99), 1);
	flmem_peek_forget_range(counting.peek, f->area + 32, 80 * f->page - 32);
	assert_int_equal(count_calls_of_read(&counting, addresses[0], 1), 0);
	assert_int_equal(count_calls_of_read(&counting, addresses[2], 21), 0);
	flmem_peek_forget_words(counting.peek);
	assert_int_equal(count_calls_of_read(&counting, addresses[0], 99), 1);
	flmem_peek_fetch(counting.peek, addresses + 2, 1);
	f->bytes[80 * f->page] = 21;
	flmem_peek_forget(counting.peek);
	assert_int_equal(count_calls_of_read(&counting, addresses[2], 21), 1);
	f->bytes[0] = 1;
	f->bytes[40 * f->page] = 11;
}

static void words_have_limited_room(void **state)
{
	FLMEM_AUTO_FREE struct flmem_peek_words *words = calloc(2, sizeof(*words));

	(void)state;
	assert_non_null(words);
	for (uint64_t i = 0; i < FLMEM_PEEK_FETCHES_MAX; i++) {
		unsigned char *to = flmem_peek_words_add(words, 4096 * i, 8, 4096 * i, i);

		assert_non_null(to);
		memcpy(to, &i, sizeof(i));
	}
	assert_null(flmem_peek_words_add(words, 1, 8, 0, 0));
	flmem_peek_words_keep(words);
	for (uint64_t i = 0; i < FLMEM_PEEK_FETCHES_MAX; i++)
		assert_memory_equal(flmem_peek_words_find(words, 4096 * i, 8), &i, sizeof(i));
	assert_null(flmem_peek_words_find(words, 1, 8));
}

/* One page is gone since its range was queried: the others must not count as read. */
static void a_failed_fetch_leaves_nothing_behind(void **state)
{
	struct fixture *f = *state;
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;
	const uint64_t gone = f->area + 8 * f->page, first = f->area, last = f->area + 80 * f->page;
	const uint64_t addresses[] = {first, gone, last};

	counting_peek_open(&f->process, &counting);
	assert_true(flmem_peek_is_resident(counting.peek, gone));
	assert_int_equal(munmap(f->bytes + 8 * f->page, f->page), 0);
	flmem_peek_fetch(counting.peek, addresses, sizeof(addresses) / sizeof(addresses[0]));
	assert_int_equal(counting.calls, 1);
	flmem_peek_fetch(counting.peek, &addresses[2], 1);
	assert_int_equal(count_calls_of_read(&counting, last, 21), 0);
	assert_int_equal(count_calls_of_read(&counting, first, 1), 1);
}

/* A page that took the place of another one in the cache is gone when it could not be read. */
static void a_failed_fetch_leaves_no_page_of_before(void **state)
{
	struct fixture *f = *state;
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;
	const size_t length = (size_t)4 << 20; /* of the cache */
	char *area = mmap(NULL, length + f->page, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t addresses[5];

	assert_true(area != MAP_FAILED);
	area[0] = 1;
	area[length] = 77; /* where the cache keeps the first page */
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(addresses); i++)
		addresses[i] = (uintptr_t)area + length + i * 64;
	counting_peek_open(&f->process, &counting);
	assert_int_equal(count_calls_of_read(&counting, (uintptr_t)area, 1), 1);
	counting.fails = true;
	flmem_peek_fetch(counting.peek, addresses, FLMEM_ARRAY_SIZE(addresses));
	counting.fails = false;
	assert_int_equal(count_calls_of_read(&counting, (uintptr_t)area, 1), 1);
	munmap(area, length + f->page);
}

/* A fetch far and wide asks the kernel for a limited number of large ranges. */
static void few_large_ranges_are_queried(void **state)
{
	struct fixture *f = *state;
	FLMEM_AUTO(counting_peek_close) struct counting_peek counting;
	const uint64_t wide = 16384 * (uint64_t)f->page, limit = 32;

	counting_peek_open(&f->process, &counting);
	for (uint64_t i = 1; i <= limit + 8; i++)
		flmem_peek_fetch(counting.peek, &(uint64_t){i * wide}, 1);
	assert_int_equal(counting.widest, wide);
	assert_int_equal(counting.wide, limit);
	flmem_peek_forget(counting.peek);
	flmem_peek_fetch(counting.peek, &(uint64_t){wide}, 1);
	assert_int_equal(counting.wide, limit + 1);
	flmem_peek_fetch(counting.peek, &(uint64_t){UINT64_MAX - f->page}, 1);
	assert_int_equal(counting.wide, limit + 1);
}

static size_t find_bucket(const struct flmem_peek_words *words)
{
	size_t at = 0;

	while (at < FLMEM_PEEK_WORDS_BUCKETS && !words->buckets[at])
		at++;
	return at;
}

/* Words whose place is the last one follow at the beginning. */
static void the_last_place_is_followed_by_the_first(void **state)
{
	FLMEM_AUTO_FREE struct flmem_peek_words *words = calloc(1, sizeof(*words));
	uint64_t last[2], address = 0;

	(void)state;
	assert_non_null(words);
	for (size_t count = 0; count < 2; address += 16) {
		flmem_peek_words_forget(words);
		assert_non_null(flmem_peek_words_add(words, address, 8, 0, 0));
		flmem_peek_words_keep(words);
		if (words->buckets[FLMEM_PEEK_WORDS_BUCKETS - 1])
			last[count++] = address;
	}
	flmem_peek_words_forget(words);
	for (size_t i = 0; i < 2; i++)
		assert_non_null(flmem_peek_words_add(words, last[i], 8, 0, 0));
	flmem_peek_words_keep(words);
	assert_int_equal(find_bucket(words), 0);
	assert_non_null(flmem_peek_words_find(words, last[0], 8));
	assert_non_null(flmem_peek_words_find(words, last[1], 8));
}

static void heads_of_records_are_read_with_one_call(void **state)
{
	struct fixture *f = *state;
	const struct flmem_peek_pieces good = {f->area + 32, 2 * f->page, 8, 16};
	const struct flmem_peek_pieces bad[] = {
		{f->area + f->page - 8, f->page, 1, 16},
		{UINT64_MAX - 63, 64, 8, 16},
		{f->area, 16, FLMEM_PEEK_PAGES_MAX + 1, 1},
		{f->area, f->page, 1, f->page + 1},
	};
	unsigned char out[8][16];
	uint64_t resident = 0;

	assert_int_equal(flmem_peek_read_pieces(f->peek, &good, out, &resident), 0);
	assert_int_equal(resident, 0x55);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(out[i][15], i % 2 ? 0 : i / 2 + 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(flmem_peek_read_pieces(f->peek, &bad[i], out, &resident), -EINVAL);
}

static void sees_changes_when_asked(void **state)
{
	struct fixture *f = *state;
	unsigned char byte = 0;

	assert_int_equal(flmem_peek_read(f->peek, f->area, &byte, 1), 0);
	f->bytes[0] = 77;
	assert_int_equal(flmem_peek_read(f->peek, f->area, &byte, 1), 0);
	assert_int_equal(byte, 1);
	flmem_peek_forget(f->peek);
	assert_int_equal(flmem_peek_read(f->peek, f->area, &byte, 1), 0);
	assert_int_equal(byte, 77);
	madvise(f->bytes, f->page, MADV_DONTNEED);
	flmem_peek_forget(f->peek);
	assert_int_equal(flmem_peek_read(f->peek, f->area, &byte, 1), -ENODATA);
}

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13 */
#endif

/* A guard page has an entry in place of one for swap. */
static void pages_that_are_swapped_out_count_as_kept(void **state)
{
	struct fixture *f = *state;
	char *guard = f->bytes + 3 * f->page;
	uint64_t bytes, byte;

	if (madvise(guard, f->page, MADV_GUARD_INSTALL)) {
		print_message("SKIP: needs guard pages (Linux 6.13)\n");
		return;
	}
	for (unsigned old = 0; old < 2; old++) {
		f->pages.old_kernel = old;
		bytes = 0;
		assert_int_equal(flmem_pages_each_kept(&f->pages, f->area, f->area + 4 * f->page,
						       add, &bytes),
				 0);
		/* The older way counts zero pages, too. */
		assert_int_equal(bytes, (2 + old) * f->page);
	}
	assert_int_equal(flmem_peek_read(f->peek, f->area + 3 * f->page, &byte, 8), -ENODATA);
	flmem_peek_swap_in(f->peek);
	assert_int_equal(flmem_peek_read(f->peek, f->area + 3 * f->page, &byte, 8), -EFAULT);
	assert_int_equal(flmem_peek_read(f->peek, f->area + 2 * f->page, &byte, 8), -ENODATA);
	assert_int_equal(flmem_peek_read(f->peek, f->area, &byte, 8), 0);
}

static void survives_absurd_addresses(void **state)
{
	struct fixture *f = *state;
	char byte;
	const uint64_t ends[] = {0, UINT64_MAX, UINT64_MAX - 4095, UINT64_C(1) << 63, 4096};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		assert_true(flmem_peek_read(f->peek, ends[i], &byte, 1) < 0);
		assert_int_equal(flmem_peek_resident(f->peek, ends[i], ends[i] + 1), 0);
	}
	assert_int_equal(flmem_peek_read(f->peek, UINT64_MAX - 3, &byte, 8), -EFAULT);
	assert_int_equal(flmem_peek_read_pages(f->peek, f->area + 1, 1, &byte, NULL), -EINVAL);
	assert_int_equal(
		flmem_peek_read_pages(f->peek, f->area, FLMEM_PEEK_PAGES_MAX + 1, &byte, NULL),
		-EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(counts_what_was_written, set_up, tear_down),
		cmocka_unit_test_setup_teardown(older_way_counts_zero_pages_too, set_up, tear_down),
		cmocka_unit_test_setup_teardown(ranges_ascend, set_up, tear_down),
		cmocka_unit_test_setup_teardown(range_is_counted_to_the_byte, set_up, tear_down),
		cmocka_unit_test_setup_teardown(reads_and_leaves_the_rest_alone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(reads_little_more_than_was_asked_for, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(words_far_apart_are_fetched_with_one_call, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_page_with_many_wanted_words_is_fetched_whole,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(words_count_for_their_own_page, set_up, tear_down),
		cmocka_unit_test_setup_teardown(fetched_words_are_forgotten, set_up, tear_down),
		cmocka_unit_test_setup_teardown(words_have_limited_room, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_failed_fetch_leaves_nothing_behind, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_failed_fetch_leaves_no_page_of_before, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(few_large_ranges_are_queried, set_up, tear_down),
		cmocka_unit_test(the_last_place_is_followed_by_the_first),
		cmocka_unit_test_setup_teardown(heads_of_records_are_read_with_one_call, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(sees_changes_when_asked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(pages_that_are_swapped_out_count_as_kept, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(survives_absurd_addresses, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("peek", tests, NULL, NULL);
}
