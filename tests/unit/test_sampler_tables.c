/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests records that meet in an index: it has two places, which are taken when the last one comes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "preload/sampler/sampler.h"

#define RECORDS 8U

struct sampler_control sampler_control;
struct sampler_tables sampler_tables;
static struct flmem_profile_header header;
static struct flmem_profile_string_block strings[RECORDS];
static struct flmem_profile_site sites[RECORDS];
static uint32_t string_slots[2], site_slots[2];

static int begin(void **state)
{
	(void)state;
	memset(&header, 0, sizeof(header));
	memset(strings, 0, sizeof(strings));
	memset(sites, 0, sizeof(sites));
	memset(string_slots, 0, sizeof(string_slots));
	memset(site_slots, 0, sizeof(site_slots));
	sampler_tables.header = &header;
	sampler_tables.strings = strings;
	sampler_tables.sites = sites;
	sampler_tables.string_index = (struct sampler_index){string_slots, 1};
	sampler_tables.site_index = (struct sampler_index){site_slots, 1};
	sampler_tables.capacity[FLMEM_PROFILE_SECTION_STRINGS] = RECORDS;
	sampler_tables.capacity[FLMEM_PROFILE_SECTION_SITES] = RECORDS;
	return 0;
}

static void test_heap_and_mappings_of_one_stack_are_two_sites(void **state)
{
	uint32_t heap, mapping;

	(void)state;
	sampler_site_find(4, FLMEM_PROFILE_HEAP);
	heap = sampler_site_find(5, FLMEM_PROFILE_HEAP);
	mapping = sampler_site_find(5, FLMEM_PROFILE_MAPPING);
	assert_int_not_equal(heap, mapping);
	assert_int_equal(sites[heap].kind, FLMEM_PROFILE_HEAP);
	assert_int_equal(sites[mapping].kind, FLMEM_PROFILE_MAPPING);
	assert_int_equal(sampler_site_find(5, FLMEM_PROFILE_HEAP), heap);
}

static void test_a_text_is_not_the_beginning_of_another_one(void **state)
{
	uint32_t whole, part;

	(void)state;
	sampler_string_find("libbar", 6);
	whole = sampler_string_find("libfoo.so", 9);
	part = sampler_string_find("libfoo", 6);
	assert_int_not_equal(whole, part);
	assert_int_equal(strings[part].length, 6);
	assert_int_equal(sampler_string_find("libfoo.so", 9), whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_heap_and_mappings_of_one_stack_are_two_sites, begin),
		cmocka_unit_test_setup(test_a_text_is_not_the_beginning_of_another_one, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
