/* SPDX-License-Identifier: Apache-2.0 */
#include "borrowed.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
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

/*
 * Starts a child with a library whose data are followed, in their last page, by the rest of its
 * file.
 */
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

static const char *library = "/few-data.so";

static bool is_in_library(uint64_t address)
{
	const struct flmem_map *map = flmem_maps_find(&target.maps, address);

	return map && strstr(map->name, library);
}

static void read_place(uint64_t address, unsigned char *ret_bytes)
{
	assert_int_equal(flmem_process_read_memory(&target.process, address, ret_bytes, LENGTH), 0);
}

static void fill(uint64_t address, const void *bytes, size_t length)
{
	assert_int_equal(flmem_process_write_memory(&target.process, address, bytes, length), 0);
}

static uint64_t first_place; /* the first of the zero places that flmem took */

/* Takes all places. Returns the address of the last one in the library, or 0. */
static uint64_t take_all(void)
{
	unsigned char mine[LENGTH];
	uint64_t address, found = 0;
	size_t count = 0;

	memset(mine, 0x5a, sizeof(mine));
	while (!flmem_padding_find(&target.view, LENGTH, &address, NULL)) {
		if (!count)
			first_place = address;
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

static void expect_found(uint64_t place)
{
	uint64_t found = 0;

	assert_int_equal(flmem_padding_find(&target.view, LENGTH, &found, NULL), 0);
	assert_int_equal(found, place);
}

static void a_place_that_is_zero_or_used_up_is_free_again(void **state)
{
	static const unsigned char zeros[LENGTH];
	struct flmem_padding_head head = {.length = LENGTH};
	uint64_t place, again = 0;

	(void)state;
	place = take_all();
	fill(place, zeros, sizeof(zeros));
	expect_found(place);
	memcpy(head.magic, flmem_padding_magic, sizeof(head.magic));
	fill(place + 100, "text", 4);
	fill(place, &head, sizeof(head));
	assert_int_equal(flmem_padding_find(&target.view, LENGTH, &again, NULL), FLMEM_EUNSAFE);
	head.done = 1;
	fill(place, &head, sizeof(head));
	expect_found(place);
}

/* Another flmem may not have read the answer in a place that is used up. */
static void one_that_is_used_up_is_the_last_to_be_taken(void **state)
{
	static const unsigned char zeros[LENGTH];
	struct flmem_padding_head head = {.length = LENGTH, .done = 1};
	uint64_t place;

	(void)state;
	place = take_all();
	fill(place, zeros, sizeof(zeros));
	expect_found(place);
	memcpy(head.magic, flmem_padding_magic, sizeof(head.magic));
	fill(first_place, &head, sizeof(head));
	expect_found(place);
	fill(place, "text", 4);
	expect_found(first_place);
}

/* Another process may use shared memory, and code may be executed. */
static void shared_memory_and_code_have_no_place(void **state)
{
	static const unsigned char zeros[LENGTH];
	static const unsigned flags[] = {FLMEM_MAP_SHARED, FLMEM_MAP_EXEC};
	const uint64_t place = take_all();
	struct flmem_map *map = NULL;
	uint64_t again;

	(void)state;
	assert_true(place != 0);
	fill(place, zeros, sizeof(zeros));
	for (size_t i = 0; i < target.maps.count; i++)
		if (target.maps.rows[i].start <= place && target.maps.rows[i].end > place)
			map = &target.maps.rows[i];
	assert_non_null(map);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(flags); i++) {
		map->flags |= flags[i];
		assert_int_equal(flmem_padding_find(&target.view, LENGTH, &again, NULL),
				 FLMEM_EUNSAFE);
		map->flags &= ~flags[i];
	}
	assert_int_equal(flmem_padding_find(&target.view, LENGTH, &again, NULL), 0);
}

static void copy_file(const char *from, const char *to)
{
	char bytes[4096];
	size_t length;
	FILE *in = fopen(from, "re"), *out = fopen(to, "we");

	assert_non_null(in);
	assert_non_null(out);
	while ((length = fread(bytes, 1, sizeof(bytes), in)) > 0)
		assert_int_equal(fwrite(bytes, 1, length, out), length);
	fclose(in);
	assert_int_equal(fclose(out), 0);
}

/* Returns the address of the place in a copy of a library with another name, 0 if it has none. */
static uint64_t take_in_copy(const char *from, const char *name)
{
	char directory[] = "/tmp/flmem-padding-XXXXXX", path[128];
	uint64_t found;
	void *handle;

	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	copy_file(from, path);
	handle = dlopen(path, RTLD_NOW);
	assert_non_null(handle);
	child = child_start(be_child);
	assert_true(child);
	target_open(child, &target);
	library = name;
	found = take_all();
	library = "/few-data.so";
	target_close(&target);
	child_end(child);
	dlclose(handle);
	unlink(path);
	rmdir(directory);
	return found;
}

/* The dynamic linker allocates from these bytes itself. */
static void a_dynamic_linker_has_no_place(void **state)
{
	static const char plain[] = VICTIMS "/few-data.so", linker[] = VICTIMS "/few-linker.so";

	(void)state;
	assert_true(take_in_copy(plain, "another.so") != 0);
	assert_int_equal(take_in_copy(plain, "ld-2.31.so"), 0);
	assert_int_equal(take_in_copy(plain, "ld.so.1"), 0);
	assert_int_equal(take_in_copy(linker, "renamed.so"), 0);
}

/* With musl the free bytes after the data of its files are a part of its heap. */
static void a_program_with_musl_has_no_place(void **state)
{
	void *handle = dlopen(VICTIMS "/few-musl.so", RTLD_NOW);

	(void)state;
	assert_non_null(handle);
	assert_int_equal(take_in_copy(VICTIMS "/few-data.so", "another.so"), 0);
	dlclose(handle);
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
		cmocka_unit_test_setup_teardown(one_that_is_used_up_is_the_last_to_be_taken,
						start_child, end_child),
		cmocka_unit_test_setup_teardown(shared_memory_and_code_have_no_place, start_child,
						end_child),
		cmocka_unit_test(a_dynamic_linker_has_no_place),
		cmocka_unit_test(a_program_with_musl_has_no_place),
	};

	return cmocka_run_group_tests_name("padding", tests, NULL, NULL);
}
