/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the sentences under a verdict, where figures exceed each other or RSS. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/cleanup.h"
#include "ops/detect/memory_classes.h"
#include "ops/detect/verdict.h"

#define MIB (UINT64_C(1) << 20)

static bool is_reason(const struct flmem_verdict *verdict, const char *part)
{
	for (size_t i = 0; i < verdict->reason_count; i++)
		if (strstr(verdict->reasons[i], part))
			return true;
	return false;
}

/* jemalloc and tcmalloc count pages that were never touched as resident. */
static void untouched_pages_are_named_as_the_cause(void **state)
{
	struct flmem_allocator_report allocator = {
		.kind = FLMEM_ALLOCATOR_JEMALLOC,
		.serves_malloc = true,
		.heap = {
			.resident_bytes = FLMEM_KNOWN(340 * MIB),
			.in_use_bytes = FLMEM_KNOWN(100 * MIB),
			.free_resident_bytes = FLMEM_KNOWN(240 * MIB),
			.trimmable_bytes = FLMEM_KNOWN(240 * MIB),
			.error_bytes = FLMEM_UNKNOWN("jemalloc counts pages"),
		}};
	struct flmem_process_report report = {
		.pid = 4711,
		.memory = {.rss_bytes = FLMEM_KNOWN(300 * MIB),
			   .anon_bytes = FLMEM_KNOWN(300 * MIB)},
		.heap = allocator.heap,
		.allocators = &allocator,
		.allocator_count = 1,
	};
	struct flmem_verdict verdict;

	(void)state;
	flmem_verdict_judge(&report, &verdict);
	assert_int_equal(flmem_verdict_explain(&report, &verdict, NULL), 0);
	assert_true(is_reason(&verdict, "another class: jemalloc counts pages"));
	assert_true(is_reason(&verdict, "holds 60 MiB; its blocks from malloc have 100 MiB"));
	assert_false(is_reason(&verdict, "100 MiB of it"));
	flmem_verdict_clear(&verdict);
	report.memory.drift_bytes = FLMEM_KNOWN(200 * MIB);
	report.memory.hugetlb_bytes = FLMEM_KNOWN(512 * MIB);
	flmem_verdict_judge(&report, &verdict);
	assert_int_equal(flmem_verdict_explain(&report, &verdict, NULL), 0);
	assert_true(is_reason(&verdict, "or it changed while it was read"));
	assert_true(is_reason(&verdict, "another 512 MiB is in huge pages of hugetlbfs"));
	flmem_verdict_clear(&verdict);
}

static void what_is_unknown_of_a_heap_is_the_reason(void **state)
{
	struct flmem_allocator_report allocator = {
		.heap = {.resident_bytes = FLMEM_KNOWN(10), .trimmable_bytes = FLMEM_KNOWN(5)}};
	const struct flmem_process_report report = {.allocators = &allocator, .allocator_count = 1};

	(void)state;
	assert_non_null(flmem_verdict_reason(&report));
	allocator.heap.trimmable_bytes = FLMEM_UNKNOWN("its free memory is not known");
	assert_string_equal(flmem_verdict_reason(&report), "its free memory is not known");
	allocator.heap.resident_bytes = FLMEM_UNKNOWN("nothing is known");
	assert_string_equal(flmem_verdict_reason(&report), "nothing is known");
}

static void a_sum_that_no_size_holds_is_unknown(void **state)
{
	const struct flmem_allocator_report allocators[2] = {
		{.heap.in_use_bytes = FLMEM_KNOWN(UINT64_MAX), .heap.arenas = FLMEM_KNOWN(1)},
		{.heap.in_use_bytes = FLMEM_KNOWN(1), .heap.arenas = FLMEM_KNOWN(1)},
	};
	const struct flmem_heap_report heap = flmem_heap_sum(allocators, 2, "there is none");

	(void)state;
	assert_non_null(heap.in_use_bytes.unknown);
	assert_non_null(strstr(heap.in_use_bytes.unknown, "overflow"));
	assert_int_equal(heap.arenas.value, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(untouched_pages_are_named_as_the_cause),
		cmocka_unit_test(what_is_unknown_of_a_heap_is_the_reason),
		cmocka_unit_test(a_sum_that_no_size_holds_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
