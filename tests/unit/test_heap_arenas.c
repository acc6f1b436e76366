/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which sites of a heap profile are arenas of Python. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <flmem/heap_profile.h>

#include "profile_maker.h"

#define KIB UINT64_C(1024)

static char path[] = "/tmp/flmem-heap-arenas-XXXXXX";

/* Kinds of the innermost frame. */
enum caller {
	LINE,	     /* a line of Python */
	INTERPRETER, /* native code of the interpreter */
	LIBRARY,     /* native code of another file */
};

struct row {
	uint32_t version, kind;
	uint64_t size; /* size of each of four blocks */
	enum caller caller;
	uint32_t flags;
	bool arenas;
};

static uint32_t make_caller(struct profile_maker *m, enum caller caller)
{
	if (caller == LINE)
		return maker_python(m, "f", "/a.py", 1);
	maker_module(m, caller == INTERPRETER ? "/usr/lib/libpython3.12.so.1.0"
					      : "/usr/lib/mmap.cpython-312.so");
	return maker_native(m, 0x1000, 0);
}

static bool is_read_as_arenas(const struct row *row)
{
	const struct flmem_heap_request request = {.path = path, .no_symbols = true};
	struct flmem_heap_profile *p = NULL;
	struct profile_maker m;
	bool arenas;

	maker_init(&m);
	m.header->python_version = row->version;
	m.header->flags = row->flags;
	maker_site(&m, maker_node(&m, 0, make_caller(&m, row->caller)), 4 * row->size, 0)->kind =
		row->kind;
	maker_write(&m, path, m.size);
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	arenas = p->sites[0].arenas;
	flmem_heap_profile_free(p);
	maker_clear(&m);
	return arenas;
}

static void arenas_are_mappings_of_their_size_by_python(void **state)
{
	static const struct row rows[] = {
		{0x030c01f0, FLMEM_PROFILE_MAPPING, 1024 * KIB, LINE, 0, true},
		{0x030c01f0, FLMEM_PROFILE_MAPPING, 1024 * KIB + 200, LINE, 0, true}, /* rounded */
		{0x030c01f0, FLMEM_PROFILE_MAPPING, 1024 * KIB, INTERPRETER, 0, true},
		{0x030c01f0, FLMEM_PROFILE_MAPPING, 1024 * KIB, LIBRARY, 0, false},
		{0x030c01f0, FLMEM_PROFILE_HEAP, 1024 * KIB, LINE, 0, false},
		{0x030c01f0, FLMEM_PROFILE_MAPPING, 1028 * KIB, LINE, 0, false},
		{0x030c01f0, FLMEM_PROFILE_MAPPING, 256 * KIB, LINE, 0, false},
		{0x030c01f0, FLMEM_PROFILE_MAPPING, 1024 * KIB, LINE,
		 FLMEM_PROFILE_PYTHON_ALLOCATORS, false},
		{0x030a0000, FLMEM_PROFILE_MAPPING, 1024 * KIB, LINE, 0, true},
		{0x030912f0, FLMEM_PROFILE_MAPPING, 256 * KIB, LINE, 0, true},
		{0x030912f0, FLMEM_PROFILE_MAPPING, 1024 * KIB, LINE, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (is_read_as_arenas(&rows[i]) != rows[i].arenas)
			fail_msg("row %zu: %sarenas", i, rows[i].arenas ? "no " : "");
}

/*
 * Arenas of one stack are a separate site, so that reports about leaks and stats distinguish them.
 */
static void arenas_of_a_stack_are_a_site_of_their_own(void **state)
{
	const struct flmem_heap_request request = {.path = path};
	struct flmem_heap_profile *p = NULL;
	struct flmem_heap_row *rows;
	struct profile_maker m;
	uint32_t node;
	size_t count;

	(void)state;
	maker_init(&m);
	m.header->python_version = 0x030c01f0;
	node = maker_node(&m, 0, maker_python(&m, "f", "/a.py", 1));
	maker_site(&m, node, 4 * 1024 * KIB, 0)->kind = FLMEM_PROFILE_MAPPING;
	maker_site(&m, node, 40 * KIB, 0);
	maker_write(&m, path, m.size);
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	assert_int_equal(p->site_count, 2);
	assert_int_equal(p->arena_size, 1024 * KIB);
	assert_int_equal(
		flmem_heap_rows(p, FLMEM_HEAP_BY_FUNCTION, FLMEM_HEAP_LIVE, &rows, &count, NULL),
		0);
	assert_int_equal(rows[0].own.bytes[FLMEM_HEAP_LIVE], 4136 * KIB);
	assert_int_equal(rows[0].arena_bytes, 4096 * KIB);
	free(rows);
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

/*
 * It is chance to which of many sites the next sample belongs: the sum of arenas is more exact than
 * all.
 */
static void the_error_of_arenas_is_that_of_their_sites(void **state)
{
	const struct flmem_heap_request request = {.path = path};
	struct flmem_heap_profile *p = NULL;
	const struct flmem_heap_profile *both[2];
	uint64_t arenas, all;
	struct profile_maker m;
	uint32_t node;

	(void)state;
	maker_init(&m);
	m.header->python_version = 0x030c01f0;
	node = maker_node(&m, 0, maker_python(&m, "f", "/a.py", 1));
	maker_site(&m, node, 4 * 1024 * KIB, 0)->kind = FLMEM_PROFILE_MAPPING;
	maker_site(&m, node, 400 * 1024 * KIB, 0);
	maker_write(&m, path, m.size);
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	both[0] = both[1] = p;
	arenas = flmem_heap_total_error(both, FLMEM_HEAP_LIVE, true).value;
	all = flmem_heap_total_error(both, FLMEM_HEAP_LIVE, false).value;
	assert_true(arenas > 0 && all > arenas);
	p->sites[0].arenas = p->sites[1].arenas = false;
	assert_int_equal(flmem_heap_total_error(both, FLMEM_HEAP_LIVE, true).value, 0);
	assert_int_equal(flmem_heap_total_error(both, FLMEM_HEAP_LIVE, false).value, all);
	flmem_heap_profile_free(p);
	maker_clear(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arenas_are_mappings_of_their_size_by_python),
		cmocka_unit_test(arenas_of_a_stack_are_a_site_of_their_own),
		cmocka_unit_test(the_error_of_arenas_is_that_of_their_sites),
	};
	int fd = mkstemp(path), failed;

	if (fd < 0)
		return 1;
	close(fd);
	failed = cmocka_run_group_tests_name("heap_arenas", tests, NULL, NULL);
	unlink(path);
	return failed;
}
