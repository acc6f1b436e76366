/* SPDX-License-Identifier: Apache-2.0 */
/* Tests trees of heap profiles, and comparisons of two. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <flmem/heap_profile.h>

#include "profile_maker.h"

#define KIB UINT64_C(1024)

static char path[] = "/tmp/flmem-heap-tree-XXXXXX";

static struct flmem_heap_profile *read_made(struct profile_maker *m)
{
	const struct flmem_heap_request request = {.path = path, .no_symbols = true};
	struct flmem_heap_profile *p = NULL;

	maker_write(m, path, m->size);
	maker_clear(m);
	assert_int_equal(flmem_heap_profile_read(&request, &p, NULL), 0);
	return p;
}

/* Makes three functions: one has freed all, one keeps all, one is small in every measure. */
static struct flmem_heap_profile *make_three(void)
{
	struct profile_maker m;

	maker_init(&m);
	maker_site(&m, maker_node(&m, 0, maker_python(&m, "small", "a.py", 1)), 4 * KIB, 2 * KIB);
	maker_site(&m, maker_node(&m, 0, maker_python(&m, "frees", "a.py", 2)), 900 * KIB,
		   900 * KIB);
	maker_site(&m, maker_node(&m, 0, maker_python(&m, "keeps", "a.py", 3)), 500 * KIB, 0);
	return read_made(&m);
}

static const char *function_of(const struct flmem_heap_profile *p,
			       const struct flmem_heap_branch *branch)
{
	return p->frames[p->nodes[branch->node].frame].function;
}

static void branches_are_the_largest_by_any_measure_in_the_order_of_one(void **state)
{
	static const struct {
		enum flmem_heap_measure measure;
		const char *first, *second;
	} rows[] = {
		{FLMEM_HEAP_ALLOCATED, "frees", "keeps"},
		{FLMEM_HEAP_LIVE, "keeps", "frees"},
	};
	struct flmem_heap_profile *p = make_three();

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct flmem_heap_tree_request request = {.measure = rows[i].measure,
								.branches_max = 3};
		struct flmem_heap_tree tree;

		assert_int_equal(flmem_heap_tree_make(p, &request, &tree, NULL), 0);
		assert_int_equal(tree.count, 3);
		assert_int_equal(tree.left_out, 1);
		assert_string_equal(function_of(p, &tree.branches[1]), rows[i].first);
		assert_string_equal(function_of(p, &tree.branches[2]), rows[i].second);
		flmem_heap_tree_clear(&tree);
	}
	flmem_heap_profile_free(p);
}

static struct flmem_heap_profile *make_program(const char *file, uint64_t bytes)
{
	struct profile_maker m;
	uint32_t module;

	maker_init(&m);
	module = maker_node(&m, 0, maker_python(&m, "<module>", file, 9));
	maker_site(&m, maker_node(&m, module, maker_python(&m, "receive", file, 5)), bytes, 0);
	maker_site(&m, maker_node(&m, module, maker_python(&m, "load", "lib.py", 7)), KIB, 0);
	return read_made(&m);
}

/* server.py and fixed.py are versions of one program; its functions are compared by their names. */
static void functions_of_two_programs_are_the_same(void **state)
{
	struct flmem_heap_profile *first = make_program("server.py", 800 * KIB);
	struct flmem_heap_profile *second = make_program("fixed.py", 300 * KIB);
	struct flmem_heap_comparison comparison;
	const struct flmem_heap_difference *largest;

	(void)state;
	assert_int_equal(flmem_heap_compare(first, second, FLMEM_HEAP_LIVE, &comparison, NULL), 0);
	largest = &comparison.rows[0];
	assert_string_equal(largest->frame.function, "receive");
	assert_string_equal(largest->frame.file, "fixed.py");
	assert_int_equal(largest->own[0].bytes[FLMEM_HEAP_LIVE], 800 * KIB);
	assert_int_equal(largest->own[1].bytes[FLMEM_HEAP_LIVE], 300 * KIB);
	flmem_heap_comparison_clear(&comparison);
	flmem_heap_profile_free(first);
	flmem_heap_profile_free(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(branches_are_the_largest_by_any_measure_in_the_order_of_one),
		cmocka_unit_test(functions_of_two_programs_are_the_same),
	};
	int fd = mkstemp(path), failed;

	if (fd < 0)
		return 1;
	close(fd);
	failed = cmocka_run_group_tests_name("heap_tree", tests, NULL, NULL);
	unlink(path);
	return failed;
}
