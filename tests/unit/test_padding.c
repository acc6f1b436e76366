/* SPDX-License-Identifier: Apache-2.0 */
#include "borrowed.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "proc/process.h"
#include "runtimes/cpython_padding.h"

#define LENGTH 1800

static pid_t child;
static struct target target;

static void be_child(void)
{
	for (;;)
		pause();
}

/* A library whose data are followed, in their last page, by the rest of its file. */
static int start_child(void **state)
{
	(void)state;
	if (!dlopen(VICTIMS "/few-data.so", RTLD_NOW)) {
		print_message("%s\n", dlerror());
		return -1;
	}
	child = child_start(be_child);
	if (!child)
		return -1;
	target_open(child, &target);
	return 0;
}

static int end_child(void **state)
{
	(void)state;
	target_close(&target);
	child_end(child);
	return 0;
}

static bool is_in_library(uint64_t address)
{
	const struct flmem_map *map = flmem_maps_find(&target.maps, address);

	return map && strstr(map->name, "/few-data.so");
}

static void read_place(uint64_t address, unsigned char *ret_bytes)
{
	assert_int_equal(flmem_process_read_memory(&target.process, address, ret_bytes, LENGTH), 0);
}

static void fill(uint64_t address, const void *bytes, size_t length)
{
	assert_int_equal(flmem_process_write_memory(&target.process, address, bytes, length), 0);
}

/* Takes all places there are; the address of that in the library, or 0. */
static uint64_t take_all(void)
{
	unsigned char mine[LENGTH];
	uint64_t address, found = 0;
	size_t count = 0;

	memset(mine, 0x5a, sizeof(mine));
	while (!flmem_padding_find(&target.view, LENGTH, &address, NULL)) {
		if (is_in_library(address))
			found = address;
		fill(address, mine, sizeof(mine));
		assert_true(++count < 1000);
	}
	return found;
}

static void the_rest_of_a_file_behind_its_data_is_a_place(void **state)
{
	(void)state;
	assert_true(take_all() != 0);
}

static void what_anybody_has_put_there_stays(void **state)
{
	uint64_t place, again = 0;
	unsigned char bytes[LENGTH];

	(void)state;
	place = take_all();
	assert_true(place != 0);
	read_place(place, bytes);
	bytes[0] ^= 1;
	fill(place, bytes, sizeof(bytes));
	assert_int_equal(flmem_padding_find(&target.view, LENGTH, &again, NULL), FLMEM_EUNSAFE);
	assert_int_equal(again, 0);
}

static void a_place_that_is_zero_or_used_up_is_free_again(void **state)
{
	static const unsigned char zeros[LENGTH];
	struct flmem_padding_head head = {.length = LENGTH};
	uint64_t place, again = 0;

	(void)state;
	place = take_all();
	fill(place, zeros, sizeof(zeros));
	assert_int_equal(flmem_padding_find(&target.view, LENGTH, &again, NULL), 0);
	assert_int_equal(again, place);
	memcpy(head.magic, flmem_padding_magic, sizeof(head.magic));
	fill(place + 100, "text", 4);
	fill(place, &head, sizeof(head));
	assert_int_equal(flmem_padding_find(&target.view, LENGTH, &again, NULL), FLMEM_EUNSAFE);
	head.done = 1;
	fill(place, &head, sizeof(head));
	assert_int_equal(flmem_padding_find(&target.view, LENGTH, &again, NULL), 0);
	assert_int_equal(again, place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_rest_of_a_file_behind_its_data_is_a_place,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(what_anybody_has_put_there_stays, start_child,
						end_child),
		cmocka_unit_test_setup_teardown(a_place_that_is_zero_or_used_up_is_free_again,
						start_child, end_child),
	};

	return cmocka_run_group_tests_name("padding", tests, NULL, NULL);
}
