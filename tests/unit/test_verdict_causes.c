/* SPDX-License-Identifier: Apache-2.0 */
/* The sentences under a verdict, where figures exceed each other or RSS. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(untouched_pages_are_named_as_the_cause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
