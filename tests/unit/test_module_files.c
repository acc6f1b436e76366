/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "profiler/module_files.h"
#include "tree.h"

static void modules_of_one_file_are_one(void **state)
{
	const struct tree *tree = *state;
	char path[128], link_path[128], other_path[128], gone[128];
	struct flmem_heap_module modules[] = {
		{.path = path},
		{.path = other_path},
		{.path = path, .bias = 4096},
		{.path = link_path},
		{.path = path, .build_id_size = 2, .build_id = {1, 2}},
		{.path = gone},
		{.path = NULL},
		{.path = gone, .start = 1},
		{.path = path, .build_id_size = 2, .build_id = {1, 3}},
		{.path = path, .build_id_size = 2, .build_id = {1, 2}},
		{.path = NULL},
		{.path = link_path},
		{.path = link_path},
	};
	/* The last two modules have no frames: their file is not examined. */
	static const size_t frames[FLMEM_ARRAY_SIZE(modules)] = {1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1};
	static const uint32_t first[] = {0, 1, 0, 0, 4, 5, 6, 5, 8, 4, 6, 11, 11};
	FLMEM_AUTO_FREE uint32_t *found = NULL;

	tree_puts(tree, "library.so", "code");
	tree_puts(tree, "other.so", "code");
	snprintf(path, sizeof(path), "%s/library.so", tree->path);
	snprintf(link_path, sizeof(link_path), "%s/./linked.so", tree->path);
	snprintf(other_path, sizeof(other_path), "%s/other.so", tree->path);
	snprintf(gone, sizeof(gone), "%s/gone.so", tree->path);
	assert_int_equal(link(path, link_path), 0);
	found = flmem_heap_module_files(modules, frames, FLMEM_ARRAY_SIZE(modules));
	assert_non_null(found);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(first); i++)
		assert_int_equal(found[i], first[i]);
}

static void a_profile_without_modules_has_no_files(void **state)
{
	FLMEM_AUTO_FREE uint32_t *found = flmem_heap_module_files(NULL, NULL, 0);

	(void)state;
	assert_non_null(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(modules_of_one_file_are_one, tree_setup,
						tree_teardown),
		cmocka_unit_test(a_profile_without_modules_has_no_files),
	};

	return cmocka_run_group_tests_name("module_files", tests, NULL, NULL);
}
