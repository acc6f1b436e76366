/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>

#include "base/cleanup.h"
#include "proc/files/guarded_folder.h"

#include "tree.h"

#define FILES 800 /* their entries do not fit into one buffer */

static void all_entries_are_listed_once(void **state)
{
	const struct tree *tree = *state;
	FLMEM_AUTO_GUARDED_FOLDER struct flmem_guarded_folder *folder = NULL;
	struct flmem_guarded_entry entry;
	bool seen[FILES] = {false};
	unsigned files = 0;
	char name[128];
	int rc, number;

	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "%0100d", i);
		tree_puts(tree, name, "");
	}
	assert_int_equal(flmem_guarded_folder_open(tree->path, &folder), 0);
	while ((rc = flmem_guarded_folder_next(folder, &entry)) > 0) {
		if (entry.type == DT_DIR)
			continue;
		number = (int)strtol(entry.name, NULL, 10);
		assert_true(strlen(entry.name) == 100 && number >= 0 && number < FILES);
		assert_false(seen[number]);
		seen[number] = true;
		files++;
	}
	assert_int_equal(rc, 0);
	assert_int_equal(files, FILES);
	assert_int_equal(flmem_guarded_folder_next(folder, &entry), 0);
}

static void what_is_no_folder_is_not_listed(void **state)
{
	const struct tree *tree = *state;
	struct flmem_guarded_folder *folder = NULL;
	char path[128];

	tree_puts(tree, "file", "");
	snprintf(path, sizeof(path), "%s/file", tree->path);
	assert_int_equal(flmem_guarded_folder_open(path, &folder), -ENOTDIR);
	snprintf(path, sizeof(path), "%s/none", tree->path);
	assert_int_equal(flmem_guarded_folder_open(path, &folder), -ENOENT);
	assert_null(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_entries_are_listed_once, tree_setup,
						tree_teardown),
		cmocka_unit_test_setup_teardown(what_is_no_folder_is_not_listed, tree_setup,
						tree_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
