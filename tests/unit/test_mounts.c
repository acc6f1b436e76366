/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which file system holds a path, by the text of mountinfo. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "proc/files/mounts.h"

static const char mounts[] =
	"22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
	"23 22 0:5 / /tmp rw - tmpfs tmpfs rw\n"
	"24 23 8:2 / /tmp/disk rw master:1 propagate_from:2 - xfs /dev/sdb rw\n"
	"25 22 8:3 / /a\\040b rw - tmpfs none rw\n"
	"26 22 8:4 / /over rw - tmpfs none rw\n"
	"27 26 8:5 / /over rw - ext4 none rw\n"
	"28 22 8:6 / /x\\000y rw - tmpfs none rw\n"
	"29 22 8:7\n"
	"30 22 8:8 / relative rw - tmpfs none rw\n"
	"31 22 8:9 / /cut rw -";

static const struct {
	const char *path, *type;
} cases[] = {
	{"/tmp", "tmpfs"},    {"/tmp/x", "tmpfs"},     {"/tmp/disk", "xfs"}, {"/tmp/disk/x", "xfs"},
	{"/tmpfile", "ext4"}, {"/tmp/disks", "tmpfs"}, {"/a b", "tmpfs"},    {"/a b/c", "tmpfs"},
	{"/a", "ext4"},	      {"/over/x", "ext4"},     {"/x", "ext4"},	     {"/cut", "ext4"},
	{"/", "ext4"},
};

static void the_deepest_mount_holds_a_path(void **state)
{
	FLMEM_AUTO_MOUNTS struct flmem_mounts parsed = FLMEM_MOUNTS_INIT;

	(void)state;
	assert_int_equal(flmem_mounts_parse(mounts, strlen(mounts), &parsed), 0);
	assert_int_equal(parsed.count, 7);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++) {
		const struct flmem_mount *found = flmem_mounts_covering(&parsed, cases[i].path);

		assert_non_null(found);
		if (strcmp(found->type, cases[i].type) != 0)
			fail_msg("%s: %s", cases[i].path, found->type);
	}
}

static void where_no_mount_covers_it_nothing_is_told(void **state)
{
	static const char *const texts[] = {"", "\n\n", "1 2 3 / /mnt rw - ext4 x rw\n"};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(texts); i++) {
		FLMEM_AUTO_MOUNTS struct flmem_mounts parsed = FLMEM_MOUNTS_INIT;

		assert_int_equal(flmem_mounts_parse(texts[i], strlen(texts[i]), &parsed), 0);
		assert_null(flmem_mounts_covering(&parsed, "/tmp"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_deepest_mount_holds_a_path),
		cmocka_unit_test(where_no_mount_covers_it_nothing_is_told),
	};

	return cmocka_run_group_tests_name("mounts", tests, NULL, NULL);
}
