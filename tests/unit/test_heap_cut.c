/* SPDX-License-Identifier: Apache-2.0 */
/* A heap profile that lacks its end: what it has is there, what it lacks is unknown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <flmem/heap_report.h>

#include "profile_maker.h"

#define MIB (UINT64_C(1) << 20)

static char path[] = "/tmp/flmem-heap-cut-XXXXXX";

/* Two sites of 3 MiB each, and a round. */
static void make_two_sites(struct profile_maker *m)
{
	uint32_t frame, node;

	maker_init(m);
	frame = maker_python(m, "train", "/app/server.py", 20);
	node = maker_node(m, FLMEM_PROFILE_ROOT, frame);
	maker_site(m, node, 3 * MIB, 0);
	maker_site(m, node, 3 * MIB, 0);
	maker_round(m, FLMEM_PROFILE_ROUND_NONE, 0);
}

static struct flmem_heap_profile *read_first(const struct profile_maker *m, size_t size)
{
	struct flmem_heap_request request = {.path = path};
	struct flmem_heap_profile *p = NULL;

	maker_write(m, path, size);
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	return p;
}

/* Sums of 0 would say that nothing was allocated. */
static void amounts_that_were_cut_off_are_unknown(void **state)
{
	struct flmem_heap_profile *p;
	struct profile_maker m;

	(void)state;
	make_two_sites(&m);
	p = read_first(&m, FLMEM_PROFILE_HEADER_SIZE);
	assert_true(p->cut);
	assert_non_null(strstr(flmem_heap_lacks_amounts(p), "cut before its amounts"));
	for (enum flmem_heap_measure measure = 0; measure < FLMEM_HEAP_MEASURE_COUNT; measure++) {
		assert_non_null(flmem_heap_bytes(p, &p->totals, measure).unknown);
		assert_non_null(flmem_heap_count(p, &p->totals, measure).unknown);
	}
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

static void amounts_that_are_there_are_known(void **state)
{
	const size_t site = sizeof(struct flmem_profile_site);
	struct flmem_heap_profile *p;
	struct profile_maker m;
	uint64_t sites;

	(void)state;
	make_two_sites(&m);
	sites = m.header->section[FLMEM_PROFILE_SECTION_SITES].offset;
	for (size_t kept = 1; kept <= 2; kept++) {
		p = read_first(&m, sites + kept * site);
		assert_true(p->cut);
		assert_null(flmem_heap_lacks_amounts(p));
		assert_int_equal(p->totals.bytes[FLMEM_HEAP_LIVE], kept * 3 * MIB);
		flmem_heap_profile_free(p);
	}
	maker_clear(&m);
}

/* One in which nothing was sampled has none, wherever it ends. */
static void no_samples_are_no_amounts(void **state)
{
	struct flmem_heap_profile *p;
	struct profile_maker m;

	(void)state;
	maker_init(&m);
	p = read_first(&m, FLMEM_PROFILE_HEADER_SIZE);
	assert_null(flmem_heap_lacks_amounts(p));
	assert_int_equal(p->totals.bytes[FLMEM_HEAP_LIVE], 0);
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(amounts_that_were_cut_off_are_unknown),
		cmocka_unit_test(amounts_that_are_there_are_known),
		cmocka_unit_test(no_samples_are_no_amounts),
	};
	int fd = mkstemp(path), failed;

	if (fd < 0)
		return 1;
	close(fd);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
