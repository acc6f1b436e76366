/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the timeline of a long run, and peaks within rounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "preload/sampler/sampler.h"

#define MOMENTS	  8U
#define PERIOD_MS 100U

__thread struct sampler_thread sampler_thread __attribute__((tls_model("initial-exec")));
struct sampler_control sampler_control;
struct sampler_tables sampler_tables;
static struct flmem_profile_header header;
static struct flmem_profile_moment moments[MOMENTS];
static struct flmem_profile_site site;
static struct flmem_profile_cell cells[2];
static struct flmem_profile_round rounds[2];

static unsigned finds_left; /* searches until round 1 begins; 0: it does not begin */

/* Replaces the search for a round, which may be announced at any moment. */
uint32_t sampler_round_find(uint64_t now_ms)
{
	const uint32_t round = header.round;

	(void)now_ms;
	if (finds_left && !--finds_left)
		header.round = 1;
	return round;
}

uint32_t sampler_cell_find(uint32_t of_site, uint32_t round)
{
	assert_int_equal(of_site, 0);
	return round;
}

void sampler_drop(enum flmem_profile_drop drop)
{
	(void)drop;
	fail();
}

static int begin(void **state)
{
	(void)state;
	memset(&header, 0, sizeof(header));
	memset(&sampler_control, 0, sizeof(sampler_control));
	memset(&site, 0, sizeof(site));
	memset(cells, 0, sizeof(cells));
	memset(rounds, 0, sizeof(rounds));
	finds_left = 0;
	header.timeline_period_ms = PERIOD_MS;
	rounds[1].round = 1;
	sampler_tables.header = &header;
	sampler_tables.timeline = moments;
	sampler_tables.capacity[FLMEM_PROFILE_SECTION_TIMELINE] = MOMENTS;
	sampler_tables.sites = &site;
	sampler_tables.cells = cells;
	sampler_tables.rounds = rounds;
	return 0;
}

/* The timeline has moments from all of the run, at growing distances. */
static void test_a_timeline_covers_the_whole_run(void **state)
{
	const uint64_t end_ms = 100000;
	uint64_t last_ms = 0;
	uint32_t used;

	(void)state;
	sampler_timeline_tick(0, true);
	for (uint64_t now_ms = 10; now_ms <= end_ms; now_ms += 10)
		sampler_timeline_tick(now_ms, false);
	used = header.section[FLMEM_PROFILE_SECTION_TIMELINE].used;
	assert_in_range(used, MOMENTS / 2, MOMENTS);
	assert_int_equal(moments[0].time_ms, 0);
	for (uint32_t i = 1; i < used; i++) {
		uint64_t apart = moments[i].time_ms - last_ms;

		assert_in_range(apart, header.timeline_period_ms / 2,
				header.timeline_period_ms + 10);
		last_ms = moments[i].time_ms;
	}
	assert_in_range(last_ms, end_ms - header.timeline_period_ms, end_ms);
}

/* A round that only frees began with everything that was live. */
static void test_a_round_has_what_was_live_when_it_began(void **state)
{
	const struct flmem_profile_live live = {.weight_bytes = 5000, .weight_count = 1};

	(void)state;
	sampler_count_allocated(&live, 0);
	sampler_count_allocated(&live, 0);
	header.round = 1;
	sampler_count_freed(&live, live.weight_bytes, live.weight_count, 10);
	assert_int_equal(cells[0].peak_bytes, 10000);
	assert_int_equal(cells[1].peak_bytes, 10000);
	assert_int_equal(cells[1].freed_bytes, 5000);
}

/*
 * The munmap() of a mapping failed: whenever the next round begins, the freed bytes of no round
 * wrap around.
 */
static void test_what_is_returned_was_freed_in_the_round_that_is_corrected(void **state)
{
	const struct flmem_profile_live live = {.weight_bytes = 5000, .weight_count = 1};

	for (unsigned finds = 0; finds < 4; finds++) {
		begin(state);
		sampler_count_allocated(&live, 0);
		sampler_count_freed(&live, live.weight_bytes, live.weight_count, 0);
		finds_left = finds;
		sampler_count_returned(&live, 0, 10);
		assert_int_equal(site.totals.allocated_bytes - site.totals.freed_bytes, 5000);
		for (unsigned round = 0; round < 2; round++) {
			assert_in_range(cells[round].freed_bytes, 0, 5000);
			assert_int_equal(rounds[round].freed_bytes, cells[round].freed_bytes);
			assert_int_equal(rounds[round].allocated_bytes,
					 cells[round].allocated_bytes);
		}
	}
}

/* The returned bytes belong to a free in a round that has ended. */
static void test_what_is_returned_later_is_allocated_again(void **state)
{
	const struct flmem_profile_live live = {.weight_bytes = 5000, .weight_count = 1};

	(void)state;
	sampler_count_allocated(&live, 0);
	sampler_count_freed(&live, live.weight_bytes, live.weight_count, 0);
	header.round = 1;
	sampler_count_returned(&live, 0, 10);
	assert_int_equal(cells[0].freed_bytes, 5000);
	assert_int_equal(cells[1].freed_bytes, 0);
	assert_int_equal(cells[1].allocated_bytes, 5000);
	assert_int_equal(rounds[1].allocated_bytes, 5000);
}

/* The round changes in the middle of the sample. */
static void test_a_sample_belongs_to_one_round(void **state)
{
	const struct flmem_profile_live live = {.weight_bytes = 5000, .weight_count = 1};

	for (unsigned finds = 1; finds < 4; finds++) {
		begin(state);
		finds_left = finds;
		sampler_count_allocated(&live, 0);
		assert_int_equal(rounds[0].allocated_bytes, cells[0].allocated_bytes);
		assert_int_equal(rounds[0].peak_bytes, cells[0].peak_bytes);
		header.round = 0;
		finds_left = finds;
		sampler_count_freed(&live, live.weight_bytes, live.weight_count, 0);
		assert_int_equal(rounds[0].freed_bytes, cells[0].freed_bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_timeline_covers_the_whole_run, begin),
		cmocka_unit_test_setup(test_a_round_has_what_was_live_when_it_began, begin),
		cmocka_unit_test_setup(
			test_what_is_returned_was_freed_in_the_round_that_is_corrected, begin),
		cmocka_unit_test_setup(test_what_is_returned_later_is_allocated_again, begin),
		cmocka_unit_test_setup(test_a_sample_belongs_to_one_round, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
