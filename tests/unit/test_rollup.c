/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proc/process.h"
#include "proc/rollup.h"

#define AREA_BYTES ((size_t)32 << 20)

static void pages_left_to_the_kernel_are_counted(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_u64 before, lazy, after;
	char *area =
		mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(area != MAP_FAILED);
	memset(area, 1, AREA_BYTES);
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	before = flmem_rollup_bytes(&process, "LazyFree");
	assert_int_equal(madvise(area, AREA_BYTES, MADV_FREE), 0);
	lazy = flmem_rollup_bytes(&process, "LazyFree");
	munmap(area, AREA_BYTES);
	after = flmem_rollup_bytes(&process, "LazyFree");
	if (before.unknown || !lazy.value)
		skip(); /* the kernel is older than Linux 4.14, or memory was short */
	assert_null(lazy.unknown);
	assert_null(after.unknown);
	assert_true(lazy.value > before.value + AREA_BYTES / 2);
	assert_true(after.value < lazy.value);
}

static void lines_are_found_by_their_whole_name(void **state)
{
	static const char text[] = "55d-7ff ---p 00000000 00:00 0    [rollup]\n"
				   "Rss:      1000 kB\n"
				   "Not LazyFree:   7 kB\n"
				   "LazyFree:       12 kB\n"
				   "Huge:       99999999999999999999 kB\n"
				   "Long:  00000000000000000000000000000000000000000000000001 kB\n"
				   "Negative: -4 kB\n"
				   "Last: 5";
	static const char *const wrong[] = {"Lazy", "Free", "Huge", "Long", "Negative", "Absent"};
	uint64_t bytes = 4711;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(wrong); i++)
		assert_false(flmem_rollup_find(text, wrong[i], &bytes));
	assert_int_equal(bytes, 4711);
	assert_true(flmem_rollup_find(text, "LazyFree", &bytes));
	assert_int_equal(bytes, 12 * 1024);
	assert_true(flmem_rollup_find(text, "Last", &bytes));
	assert_int_equal(bytes, 5 * 1024);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_left_to_the_kernel_are_counted),
		cmocka_unit_test(lines_are_found_by_their_whole_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
