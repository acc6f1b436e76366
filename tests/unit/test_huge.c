/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proc/huge_pages.h"
#include "proc/process.h"

#define AREA_BYTES ((size_t)64 << 20)

static void scan_and_rollup_agree(void **state)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	struct flmem_u64 scanned, rolled;
	char *area =
		mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(area != MAP_FAILED);
	madvise(area, AREA_BYTES, MADV_HUGEPAGE);
	memset(area, 1, AREA_BYTES);
	assert_int_equal(flmem_process_open(getpid(), &process, NULL), 0);
	assert_int_equal(flmem_maps_read(&process, &maps, NULL), 0);
	scanned = flmem_huge_bytes(&process, &maps, 0);
	rolled = flmem_huge_bytes_rollup(&process);
	munmap(area, AREA_BYTES);
	assert_null(rolled.unknown);
	assert_null(scanned.unknown);
	assert_int_equal(scanned.value, rolled.value);
	if (!rolled.value) {
		fputs("skipped: this machine gives no transparent huge pages\n", stderr);
		skip();
	}
	assert_true(scanned.value >= AREA_BYTES / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scan_and_rollup_agree),
	};

	return cmocka_run_group_tests_name("huge", tests, NULL, NULL);
}
