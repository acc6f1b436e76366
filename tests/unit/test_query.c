/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how the numbers that allocators report are used, valid ones and nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "allocators/allocator_registry.h"
#include "allocators/call_plan.h"
#include "allocators/tcmalloc/tcmalloc_state.h"
#include "base/cleanup.h"

#define NUMBERS 16

/*
 * Numbers of jemalloc in the order of its table: allocated, active, resident, metadata, mapped,
 * retained, dirty and muzzy pages, thread caches, page size, arenas.
 */
static const uint64_t sound[NUMBERS] = {
	1000, 8192, 40960, 12288, 81920, 4096, 3, 2, 100, 4096, UINT64_C(0xffffffff00000004),
};

static struct flmem_heap_report take_variant(const struct flmem_allocator_ops *ops,
					     unsigned variant, const uint64_t numbers[NUMBERS])
{
	struct flmem_heap_report heap = FLMEM_HEAP_UNKNOWN("not taken");
	const struct flmem_allocator found = {.ops = ops, .variant = variant};
	unsigned char bytes[NUMBERS * sizeof(uint64_t)];

	memcpy(bytes, numbers, sizeof(bytes));
	ops->take_state(&found, bytes, &heap);
	return heap;
}

static struct flmem_heap_report take(const struct flmem_allocator_ops *ops,
				     const uint64_t numbers[NUMBERS])
{
	return take_variant(ops, 0, numbers);
}

static struct flmem_heap_report take_google(const uint64_t numbers[NUMBERS])
{
	return take_variant(&flmem_allocator_tcmalloc, FLMEM_TCMALLOC_GOOGLE, numbers);
}

static void known(struct flmem_u64 value, uint64_t expected)
{
	assert_null(value.unknown);
	assert_int_equal(value.value, expected);
}

static struct flmem_u64 own(const struct flmem_heap_report *heap, const char *name)
{
	for (size_t i = 0; i < heap->own_count; i++)
		if (strcmp(heap->own[i].name, name) == 0)
			return heap->own[i].bytes;
	return FLMEM_UNKNOWN("no such figure");
}

static void jemalloc_adds_up(void **state)
{
	struct flmem_heap_report heap = take(&flmem_allocator_jemalloc, sound);

	(void)state;
	known(heap.resident_bytes, 40960 + 2 * 4096);
	known(heap.in_use_bytes, 900);
	known(heap.cached_bytes, 100);
	known(heap.pinned_bytes, 7192);
	known(heap.trimmable_bytes, 5 * 4096);
	known(heap.free_resident_bytes, 5 * 4096 + 7192);
	known(heap.metadata_bytes, 40960 - 8192 - 3 * 4096);
	known(heap.free_bytes, 5 * 4096 + 7192 + 4096);
	known(heap.arenas, 4);
	assert_string_equal(heap.method, "queried");
	assert_int_equal(heap.own_count, 9);
}

static void jemalloc_4_has_neither_muzzy_pages_nor_tcache_bytes(void **state)
{
	uint64_t numbers[NUMBERS];
	struct flmem_heap_report heap;

	(void)state;
	memcpy(numbers, sound, sizeof(numbers));
	numbers[7] = numbers[8] = FLMEM_NO_ANSWER;
	heap = take(&flmem_allocator_jemalloc, numbers);
	known(heap.trimmable_bytes, 3 * 4096);
	known(heap.in_use_bytes, 1000);
	assert_non_null(strstr(heap.cached_bytes.unknown, "5.0"));
	assert_non_null(strstr(own(&heap, "tcache").unknown, "5.0"));
	assert_non_null(strstr(own(&heap, "muzzy").unknown, "5.0"));
	known(own(&heap, "retained"), 4096);
	numbers[5] = FLMEM_NO_ANSWER;
	heap = take(&flmem_allocator_jemalloc, numbers);
	assert_non_null(strstr(own(&heap, "retained").unknown, "4.2"));
	known(heap.free_bytes, 3 * 4096 + 7192);
}

/* jemalloc 3 counts only the content of its pages, and not its own structures. */
static void jemalloc_3_does_not_tell_what_is_resident(void **state)
{
	uint64_t numbers[NUMBERS];
	struct flmem_heap_report heap;

	(void)state;
	memcpy(numbers, sound, sizeof(numbers));
	numbers[2] = numbers[3] = numbers[5] = numbers[7] = numbers[8] = FLMEM_NO_ANSWER;
	heap = take(&flmem_allocator_jemalloc, numbers);
	assert_string_equal(heap.method, "queried");
	known(heap.trimmable_bytes, 3 * 4096);
	known(heap.in_use_bytes, 1000);
	known(heap.pinned_bytes, 7192);
	known(heap.free_resident_bytes, 3 * 4096 + 7192);
	assert_non_null(strstr(heap.resident_bytes.unknown, "4.0"));
	assert_non_null(strstr(heap.metadata_bytes.unknown, "4.0"));
	assert_non_null(strstr(own(&heap, "resident").unknown, "4.0"));
	numbers[1] = FLMEM_NO_ANSWER;
	heap = take(&flmem_allocator_jemalloc, numbers);
	assert_non_null(heap.trimmable_bytes.unknown);
}

/* Dirty pages go by themselves only with a decay time, and a thread that observes it. */
static void jemalloc_decays_with_a_thread_of_its_own(void **state)
{
	static const struct {
		uint64_t decay_ms, thread, decaying;
	} rows[] = {
		{10000, UINT64_C(0xffffffffffffff01), UINT64_C(3) * 4096},
		{10000, UINT64_C(0xffffffffffffff00), 0},
		{10000, FLMEM_NO_ANSWER, 0},
		{(uint64_t)-1, 1, 0},
		{0, 1, 0},
	};
	uint64_t numbers[NUMBERS];

	(void)state;
	memcpy(numbers, sound, sizeof(numbers));
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_heap_report heap;

		numbers[11] = rows[i].decay_ms;
		numbers[12] = rows[i].thread;
		heap = take(&flmem_allocator_jemalloc, numbers);
		known(heap.decaying_bytes, rows[i].decaying);
		known(heap.trimmable_bytes, UINT64_C(5) * 4096);
	}
}

static void jemalloc_without_statistics_says_so(void **state)
{
	uint64_t numbers[NUMBERS];
	struct flmem_heap_report heap;

	(void)state;
	memset(numbers, 0xff, sizeof(numbers));
	numbers[9] = 4096;
	heap = take(&flmem_allocator_jemalloc, numbers);
	assert_non_null(strstr(heap.trimmable_bytes.unknown, "--disable-stats"));
	assert_non_null(strstr(heap.resident_bytes.unknown, "--disable-stats"));
}

/* Each number in turn has the value that a hostile target would report. */
static void nonsense_is_unknown(void **state)
{
	static const uint64_t nonsense[] = {UINT64_MAX - 1, INT64_MAX, UINT64_C(1) << 50};
	/* Metadata and mapped are only reported; arenas are limited to those that were written. */
	static const size_t judged[] = {0, 1, 2, 5, 6, 7, 8, 9};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(judged); i++) {
		for (size_t k = 0; k < FLMEM_ARRAY_SIZE(nonsense); k++) {
			uint64_t numbers[NUMBERS];
			struct flmem_heap_report heap;

			memcpy(numbers, sound, sizeof(numbers));
			numbers[judged[i]] = nonsense[k];
			heap = take(&flmem_allocator_jemalloc, numbers);
			assert_non_null(heap.trimmable_bytes.unknown);
			assert_null(heap.method);
		}
	}
}

/*
 * Numbers of an arena: active, dirty and muzzy pages, threads. Four arenas share a query, with the
 * page size.
 */
#define ARENA_NUMBERS 4
#define GROUP	      (4 * ARENA_NUMBERS + 1)

static struct flmem_heap_report heap_of_arenas(uint64_t arenas)
{
	struct flmem_heap_report heap = FLMEM_HEAP_UNKNOWN("not taken");

	heap.arenas = FLMEM_KNOWN(arenas);
	heap.arena_list.unknown = NULL;
	return heap;
}

static uint64_t take_group(const uint64_t numbers[GROUP], uint64_t first,
			   struct flmem_heap_report *heap)
{
	unsigned char bytes[GROUP * sizeof(uint64_t)];

	memcpy(bytes, numbers, sizeof(bytes));
	return flmem_allocator_jemalloc.take_arenas(bytes, first, heap);
}

/* The second arena was never used; the fourth of the second group is the index of all together. */
static void arenas_of_jemalloc_are_listed(void **state)
{
	static const uint64_t group[GROUP] = {
		10,	    3,		2,	    UINT64_C(0xffffffff00000005),
		UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
		1,	    1,		UINT64_MAX, UINT64_C(0xffffffff00000000),
		7,	    0,		0,	    1,
		4096,
	};
	struct flmem_heap_report heap = heap_of_arenas(7);
	const struct flmem_arena_report *rows = heap.arena_list.rows;

	(void)state;
	assert_int_equal(take_group(group, 0, &heap), 4);
	assert_int_equal(heap.arena_list.count, 3);
	assert_int_equal(rows[0].number, 0);
	assert_int_equal(rows[0].resident_bytes, 15 * 4096);
	assert_int_equal(rows[0].trimmable_bytes, 5 * 4096);
	known(rows[0].threads, 5);
	assert_int_equal(rows[1].number, 2);
	assert_int_equal(rows[1].trimmable_bytes, 4096);
	known(rows[1].threads, 0);
	assert_int_equal(take_group(group, 4, &heap), 0);
	assert_int_equal(heap.arena_list.count, 5);
	assert_int_equal(rows[4].number, 6);
}

static void nonsense_of_arenas_ends_them(void **state)
{
	static const uint64_t sound_group[GROUP] = {
		10, 3, 2, 5, 10, 3, 2, 5, 10, 3, 2, 5, 10, 3, 2, 5, 4096,
	};

	(void)state;
	for (size_t i = 0; i < GROUP; i++) {
		struct flmem_heap_report heap = heap_of_arenas(UINT64_MAX - 1);
		uint64_t numbers[GROUP];

		if (i % ARENA_NUMBERS == 3)
			continue; /* the number of threads is only reported */
		memcpy(numbers, sound_group, sizeof(numbers));
		numbers[i] = INT64_MAX;
		assert_int_equal(take_group(numbers, 0, &heap), 0);
		assert_non_null(heap.arena_list.unknown);
		assert_int_equal(heap.arena_list.count, 0);
	}
}

/* The list of arenas ends when the others cannot have anything. */
static void a_complete_list_needs_no_more(void **state)
{
	static const uint64_t group[GROUP] = {10, 3, 2, 1, 5, 0, 0, 1,	 0,
					      0,  0, 0, 0, 0, 0, 0, 4096};
	struct flmem_heap_report heap = heap_of_arenas(100);

	(void)state;
	heap.metadata_bytes = FLMEM_KNOWN(8192);
	heap.resident_bytes = FLMEM_KNOWN(20 * 4096 + 8192);
	assert_int_equal(take_group(group, 0, &heap), 0);
	assert_int_equal(heap.arena_list.count, 4);
	heap = heap_of_arenas(100);
	heap.metadata_bytes = FLMEM_KNOWN(8192);
	heap.resident_bytes = FLMEM_KNOWN(21 * 4096 + 8192);
	assert_int_equal(take_group(group, 0, &heap), 4);
}

/* However many arenas the target claims, the list has an end. */
static void the_list_of_arenas_has_an_end(void **state)
{
	static const uint64_t group[GROUP] = {1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 4096};
	struct flmem_heap_report heap = heap_of_arenas(UINT32_MAX);
	uint64_t next = 0;

	(void)state;
	do
		next = take_group(group, next, &heap);
	while (next && next < 1000);
	assert_int_equal(next, 0);
	assert_int_equal(heap.arena_list.count, FLMEM_ARENA_REPORTS_MAX);
}

static void gperftools_adds_up_and_does_not_overflow(void **state)
{
	uint64_t numbers[NUMBERS] = {
		100, 20, 3, 4000, 50000, 600000, FLMEM_NO_ANSWER, FLMEM_NO_ANSWER, FLMEM_NO_ANSWER};
	struct flmem_heap_report heap = take(&flmem_allocator_tcmalloc, numbers);

	(void)state;
	known(heap.in_use_bytes, 100);
	known(heap.cached_bytes, 23);
	known(heap.pinned_bytes, 4000);
	known(heap.trimmable_bytes, 50000);
	known(heap.free_resident_bytes, 54000);
	known(heap.free_bytes, 654000);
	known(heap.resident_bytes, 54123);
	assert_non_null(heap.metadata_bytes.unknown);
	assert_int_equal(heap.own_count, 6);
	numbers[4] = UINT64_MAX - 1;
	heap = take(&flmem_allocator_tcmalloc, numbers);
	assert_non_null(heap.resident_bytes.unknown);
	numbers[4] = FLMEM_NO_ANSWER;
	heap = take(&flmem_allocator_tcmalloc, numbers);
	assert_non_null(heap.trimmable_bytes.unknown);
	assert_non_null(heap.resident_bytes.unknown);
	known(heap.in_use_bytes, 100);
}

static void google_tcmalloc_has_more_caches_and_counts_its_structures(void **state)
{
	uint64_t numbers[NUMBERS] = {100, 20, 3, 4000, 50000, 600000, 7000000, 80000000, 900000000};
	struct flmem_heap_report heap = take_google(numbers);

	(void)state;
	known(heap.in_use_bytes, 100);
	known(heap.cached_bytes, 87050023);
	assert_non_null(heap.trimmable_bytes.unknown);
	known(heap.free_resident_bytes, 4000);
	known(heap.metadata_bytes, 900000000);
	known(heap.resident_bytes, 987054123);
	assert_int_equal(heap.own_count, 9);
	/* tcmalloc without a number for its processors' caches still releases what it can. */
	numbers[6] = FLMEM_NO_ANSWER;
	heap = take_google(numbers);
	assert_non_null(heap.trimmable_bytes.unknown);
	known(heap.cached_bytes, 80050023);
}

/* An allocator that cannot report its heap says so, and none has both a way and a reason. */
static void every_allocator_can_say_why(void **state)
{
	(void)state;
	for (size_t i = 0; flmem_allocators[i]; i++) {
		const struct flmem_allocator_ops *ops = flmem_allocators[i];

		assert_true(ops->kind == FLMEM_ALLOCATOR_GLIBC || ops->read_heap ||
			    ops->plan_state || ops->unreadable_reason);
		assert_true(!ops->plan_state == !ops->take_state);
		assert_true(!ops->plan_arenas == !ops->take_arenas);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jemalloc_adds_up),
		cmocka_unit_test(jemalloc_4_has_neither_muzzy_pages_nor_tcache_bytes),
		cmocka_unit_test(jemalloc_3_does_not_tell_what_is_resident),
		cmocka_unit_test(jemalloc_decays_with_a_thread_of_its_own),
		cmocka_unit_test(jemalloc_without_statistics_says_so),
		cmocka_unit_test(nonsense_is_unknown),
		cmocka_unit_test(arenas_of_jemalloc_are_listed),
		cmocka_unit_test(nonsense_of_arenas_ends_them),
		cmocka_unit_test(a_complete_list_needs_no_more),
		cmocka_unit_test(the_list_of_arenas_has_an_end),
		cmocka_unit_test(gperftools_adds_up_and_does_not_overflow),
		cmocka_unit_test(google_tcmalloc_has_more_caches_and_counts_its_structures),
		cmocka_unit_test(every_allocator_can_say_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
