/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text/diff.h"

static void assert_diff(const char *before, const char *after, const char *expected)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	flmem_diff_unified("f", before, after, &out);
	assert_string_equal(out.data, expected);
}

static void equal_texts_have_no_difference(void **state)
{
	(void)state;
	assert_diff("", "", "");
	assert_diff("a\nb", "a\nb", "");
}

static void changes_come_with_three_lines_around(void **state)
{
	(void)state;
	assert_diff("1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\nx\n6\n7\n8\n",
		    "--- f\n+++ f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
	assert_diff("1\n2\n", "1\nx\n2\n", "--- f\n+++ f\n@@ -1,2 +1,3 @@\n 1\n+x\n 2\n");
	assert_diff("1\n2\n", "2\n", "--- f\n+++ f\n@@ -1,2 +1,1 @@\n-1\n 2\n");
	assert_diff("", "1\n", "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+1\n");
	assert_diff("1\n", "", "--- f\n+++ f\n@@ -1,1 +0,0 @@\n-1\n");
}

static void far_changes_are_hunks_of_their_own(void **state)
{
	(void)state;
	assert_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "x\n2\n3\n4\n5\n6\n7\n8\ny\n",
		    "--- f\n+++ f\n@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n"
		    "@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+y\n");
}

static void a_missing_last_newline_is_told(void **state)
{
	(void)state;
	assert_diff("1\n2", "1\nx",
		    "--- f\n+++ f\n@@ -1,2 +1,2 @@\n 1\n-2\n\\ No newline at end of file\n"
		    "+x\n\\ No newline at end of file\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_texts_have_no_difference),
		cmocka_unit_test(changes_come_with_three_lines_around),
		cmocka_unit_test(far_changes_are_hunks_of_their_own),
		cmocka_unit_test(a_missing_last_newline_is_told),
	};

	return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}
