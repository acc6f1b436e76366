/* SPDX-License-Identifier: Apache-2.0 */
/* Tests where paths lead within a root, links followed; mounts are given as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proc/files/mounts.h"
#include "proc/files/path_resolve.h"
#include "tree.h"

static const char mountinfo[] = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
				"23 22 0:5 / /mem rw - tmpfs tmpfs rw\n"
				"24 22 0:6 / /net rw - nfs4 server:/x rw\n"
				"25 22 0:7 / /proc rw - proc proc rw\n";

static const struct {
	const char *from, *to;
} links[] = {
	{"/mem/x", "direct"},	     {"mem", "dir/near"},	{"../mem/./x", "dir/up"},
	{"../../../mem", "out"},     {"/dir/chain", "chain"},	{"../direct", "dir/chain"},
	{"/loop", "loop"},	     {"a/../loop-b", "loop-a"}, {"loop-a", "loop-b"},
	{"/mem/new/dir", "new"},     {"/net/x", "to-net"},	{"/proc/self/cwd", "to-proc"},
	{"/net/../mem", "past-net"}, {"/dir/file", "to-file"},	{"gone/../mem", "through-gone"},
};

static const struct {
	const char *path, *place; /* the path and its place; NULL: the place is not known */
} cases[] = {
	{"/", "/"},
	{"//dir/./", "/dir"},
	{"/mem/x", "/mem/x"},
	{"/direct", "/mem/x"},
	{"/direct/y/z", "/mem/x/y/z"},
	{"/dir/near", "/dir/mem"},
	{"/dir/up", "/mem/x"},
	{"/dir/../direct", "/mem/x"},
	{"/out", "/mem"}, /* the link does not lead out of the root */
	{"/../../mem", "/mem"},
	{"/chain", "/mem/x"},
	{"/new", "/mem/new/dir"},
	{"/gone/direct", "/gone/direct"},
	{"/to-file", "/dir/file"},
	{"/loop", NULL},
	{"/loop-a", NULL},
	{"/net/x", NULL},
	{"/to-net", NULL},
	{"/past-net", NULL}, /* the directory there may be a link */
	{"/to-proc", NULL},
	{"/dir/file/x", NULL},
	{"/through-gone", NULL},
};

static int make_tree(void **state)
{
	static const char *const files[] = {"dir/file", "mem/x/y/file", "a/file", "net/x/file"};
	const struct tree *tree;

	if (tree_setup(state))
		return -1;
	tree = *state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(files); i++)
		tree_puts(tree, files[i], "");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(links); i++)
		if (symlinkat(links[i].from, tree->fd, links[i].to))
			return -1;
	return 0;
}

static void links_lead_where_the_process_would_come_to(void **state)
{
	FLMEM_AUTO_MOUNTS struct flmem_mounts mounts = FLMEM_MOUNTS_INIT;
	const struct tree *tree = *state;
	char place[PATH_MAX];

	assert_int_equal(flmem_mounts_parse(mountinfo, strlen(mountinfo), &mounts), 0);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++) {
		const char *why = flmem_path_resolve(tree->fd, &mounts, cases[i].path, place);

		if (!why != (cases[i].place != NULL) ||
		    (!why && strcmp(place, cases[i].place) != 0))
			fail_msg("%s: %s", cases[i].path, why ? why : place);
	}
}

static void there_is_an_end_to_links_and_names(void **state)
{
	FLMEM_AUTO_MOUNTS struct flmem_mounts mounts = FLMEM_MOUNTS_INIT;
	char target[PATH_MAX], name[16], place[PATH_MAX];
	const struct tree *tree = *state;

	assert_int_equal(flmem_mounts_parse(mountinfo, strlen(mountinfo), &mounts), 0);
	for (unsigned i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "l%u", i);
		snprintf(target, sizeof(target), i ? "/l%u" : "/mem/x", i - 1);
		assert_int_equal(symlinkat(target, tree->fd, name), 0);
	}
	assert_null(flmem_path_resolve(tree->fd, &mounts, "/l39", place));
	assert_string_equal(place, "/mem/x");
	assert_non_null(flmem_path_resolve(tree->fd, &mounts, "/l40", place));
	for (size_t i = 0; i < sizeof(target); i += 2)
		memcpy(target + i, "/a", 2);
	target[sizeof(target) - 1] = '\0';
	assert_non_null(flmem_path_resolve(tree->fd, &mounts, target, place));
	target[sizeof(target) / 2] = '\0';
	assert_int_equal(symlinkat(target, tree->fd, "long"), 0);
	assert_non_null(flmem_path_resolve(tree->fd, &mounts, "/long", place));
	memcpy(target, "/long/", 6);
	assert_non_null(flmem_path_resolve(tree->fd, &mounts, target, place));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(links_lead_where_the_process_would_come_to,
						make_tree, tree_teardown),
		cmocka_unit_test_setup_teardown(there_is_an_end_to_links_and_names, make_tree,
						tree_teardown),
	};

	return cmocka_run_group_tests_name("path_resolve", tests, NULL, NULL);
}
