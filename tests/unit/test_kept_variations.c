/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the findings in the folders of test_kept_rules.c when one of their lines is missing, or, in
 * each second line, when its last digit is another. A checksum of all these findings is kept for
 * each folder.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes/crc32.h"
#include "kept_rules.h"

enum variation {
	LINE_MISSING,
	DIGIT_CHANGED,
	VARIATIONS
};

/* Writes the line varied in that way. Returns false where it has no digit to change. */
static bool put_varied(struct flmem_buf *out, const char *line, size_t length, enum variation how)
{
	size_t digit = length;

	if (how == LINE_MISSING)
		return true;
	while (digit && !isdigit((unsigned char)line[digit - 1]))
		digit--;
	if (!digit)
		return false;
	flmem_buf_append(out, line, digit - 1);
	flmem_buf_putc(out, line[digit - 1] == '9' ? '0' : (char)(line[digit - 1] + 1));
	flmem_buf_append(out, line + digit, length - digit);
	return true;
}

static void find_in(const struct flmem_buf *files, struct flmem_buf *out)
{
	char versions[64] = "";
	struct tree tree;

	tree_init(&tree);
	write_files(&tree, files->data, files->data + files->length, versions);
	assert_int_equal(fchdir(tree.fd), 0);
	put_folder(NULL, out);
	put_corrections(out);
	assert_int_equal(chdir("/"), 0);
	tree_clear(&tree);
}

/*
 * Checks the files from `from` to `end` with one line varied, that at `line`. Returns the checksum
 * of the findings.
 */
static uint32_t vary_line(const char *from, const char *line, const char *end, enum variation how,
			  uint32_t sum)
{
	FLMEM_AUTO_BUF struct flmem_buf files = FLMEM_BUF_INIT, found = FLMEM_BUF_INIT;
	const size_t length = strcspn(line, "\n") + 1;

	flmem_buf_append(&files, from, (size_t)(line - from));
	if (!put_varied(&files, line, length, how))
		return sum;
	flmem_buf_append(&files, line + length, (size_t)(end - line) - length);
	find_in(&files, &found);
	kept_show(files.data, &found);
	return flmem_crc32(sum, found.data, found.length);
}

static void vary_case(size_t number, const char *from, const char *end, struct flmem_buf *out)
{
	uint32_t sum = 0;
	int how = 0; /* the variations take turns */

	for (const char *line = from; line < end; line += strcspn(line, "\n") + 1)
		if (!flmem_text_starts(line, FILE_MARK))
			sum = vary_line(from, line, end, (enum variation)(how++ % VARIATIONS), sum);
	flmem_buf_printf(out, "%zu %08x\n", number, (unsigned)sum);
}

static void variations_are_as_kept(void **state)
{
	compare_cases(*state, "variations", vary_case);
}

int main(void)
{
	const struct CMUnitTest tests[] = {KEPT_RULE_TESTS(variations_are_as_kept)};

	return cmocka_run_group_tests_name("kept_variations", tests, NULL, NULL);
}
