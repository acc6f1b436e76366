/* SPDX-License-Identifier: Apache-2.0 */
/* What is made of the numbers that allocators tell, sound ones and nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "allocators/plan.h"
#include "allocators/registry.h"
#include "base/cleanup.h"

#define NUMBERS 16

/* jemalloc's in the order of its table: allocated, active, resident, metadata, mapped, retained,
 * dirty and muzzy pages, thread caches, page size, arenas. */
static const uint64_t sound[NUMBERS] = {
	1000, 8192, 40960, 12288, 81920, 4096, 3, 2, 100, 4096, UINT64_C(0xffffffff00000004),
};

static struct flmem_heap_report take(const struct flmem_allocator_ops *ops,
				     const uint64_t numbers[NUMBERS])
{
	struct flmem_heap_report heap = FLMEM_HEAP_UNKNOWN("not taken");
	const struct flmem_allocator found = {.ops = ops};
	unsigned char bytes[NUMBERS * sizeof(uint64_t)];

	memcpy(bytes, numbers, sizeof(bytes));
	ops->take_state(&found, bytes, &heap);
	return heap;
}

static void known(struct flmem_u64 value, uint64_t expected)
{
	assert_null(value.unknown);
	assert_int_equal(value.value, expected);
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
	assert_string_equal(heap.how, "asked");
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
	assert_non_null(heap.cached_bytes.unknown);
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

/* Each number in turn as a hostile target would give it. */
static void nonsense_is_unknown(void **state)
{
	static const uint64_t nonsense[] = {UINT64_MAX - 1, INT64_MAX, UINT64_C(1) << 50};
	/* Metadata and mapped are only reported, arenas are cut to what was written. */
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
			assert_null(heap.how);
		}
	}
}

static void gperftools_adds_up_and_does_not_overflow(void **state)
{
	uint64_t numbers[NUMBERS] = {100, 20, 3, 4000, 50000, 600000};
	struct flmem_heap_report heap = take(&flmem_allocator_tcmalloc, numbers);

	(void)state;
	known(heap.in_use_bytes, 100);
	known(heap.cached_bytes, 23);
	known(heap.pinned_bytes, 4000);
	known(heap.trimmable_bytes, 50000);
	known(heap.free_resident_bytes, 54000);
	known(heap.free_bytes, 654000);
	known(heap.resident_bytes, 54123);
	numbers[4] = UINT64_MAX - 1;
	heap = take(&flmem_allocator_tcmalloc, numbers);
	assert_non_null(heap.resident_bytes.unknown);
	numbers[4] = FLMEM_NO_ANSWER;
	heap = take(&flmem_allocator_tcmalloc, numbers);
	assert_non_null(heap.trimmable_bytes.unknown);
	assert_non_null(heap.resident_bytes.unknown);
	known(heap.in_use_bytes, 100);
}

/* An allocator without a way to its heap says so, and none has both. */
static void every_allocator_can_say_why(void **state)
{
	(void)state;
	for (size_t i = 0; flmem_allocators[i]; i++) {
		const struct flmem_allocator_ops *ops = flmem_allocators[i];

		assert_true(ops->kind == FLMEM_ALLOCATOR_GLIBC || ops->read_heap ||
			    ops->plan_state || ops->silent);
		assert_true(!ops->plan_state == !ops->take_state);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jemalloc_adds_up),
		cmocka_unit_test(jemalloc_4_has_neither_muzzy_pages_nor_tcache_bytes),
		cmocka_unit_test(jemalloc_without_statistics_says_so),
		cmocka_unit_test(nonsense_is_unknown),
		cmocka_unit_test(gperftools_adds_up_and_does_not_overflow),
		cmocka_unit_test(every_allocator_can_say_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
