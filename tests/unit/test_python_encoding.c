/* SPDX-License-Identifier: Apache-2.0 */
/* Tests Python in other encodings than UTF-8, which its first two lines declare (PEP 263). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "documents/document.h"

#define IMPORT "from nvflare.recipe import R\n"

static int read_python(const char *source, struct flmem_document *document, struct flmem_error *err)
{
	struct flmem_buf text = FLMEM_BUF_INIT;

	flmem_buf_puts(&text, source);
	return flmem_document_read(FLMEM_SYNTAX_PYTHON, &text, document, err);
}

/* Asserts the line of the first call, and the text of its argument `name`. */
static void assert_name(const char *source, unsigned line, const char *name)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_error err = {0};
	const struct flmem_node *call, *argument;

	if (read_python(source, &document, &err))
		fail_msg("%s\non:\n%s", err.message, source);
	call = flmem_node_first(flmem_node_get(document.root, "calls"));
	argument = FLMEM_NODE_AT(call, "args", "name");
	if (!argument)
		fail_msg("no call in:\n%s", source);
	assert_int_equal(call->place.line, line);
	assert_string_equal(argument->text, name);
	assert_null(flmem_node_get(document.root, "fault"));
}

static void assert_refused(const char *source, const char *why)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_error err = {0};

	assert_int_equal(read_python(source, &document, &err), FLMEM_EUSAGE);
	if (!strstr(err.message, why))
		fail_msg("'%s' does not contain '%s'", err.message, why);
}

static void declared_encodings_are_read(void **state)
{
	(void)state;
	assert_name("# coding: latin-1\n" IMPORT "R(name='\xe9')\n", 3, "\xc3\xa9");
	assert_name("#!/bin/python\n# vim: set fileencoding=ISO-8859-15 :\n" IMPORT
		    "R(name='\xa4')\n",
		    4, "\xe2\x82\xac");
	assert_name("\f# -*- coding: iso-8859-1-unix -*-\r" IMPORT "R(name='\xe9')\n", 3,
		    "\xc3\xa9");
	assert_name("# coding=cp1252\n" IMPORT "R(name='\x80')\n", 3, "\xe2\x82\xac");
	assert_name("# coding: euc_jp\n" IMPORT "R(name='\xa5\xbd')\n", 3, "\xe3\x82\xbd");
	/* A letter whose second byte is a backslash in ASCII does not escape the quote. */
	assert_name("# coding: shift_jis\n" IMPORT "R(name='\x83\x5c')\n", 3, "\xe3\x82\xbd");
	assert_name("# coding: koi8-r\n" IMPORT "\xc1 = 1\nR(name='\xc1')\n", 4, "\xd0\xb0");
	assert_name("# coding: utf-8-unix\n" IMPORT "R(name='\xc3\xa9')\n", 3, "\xc3\xa9");
	assert_name("# decoding is latin-1\n# coding: latin-1\n" IMPORT "R(name='\xe9')\n", 4,
		    "\xc3\xa9");
}

static void what_declares_none_is_utf8(void **state)
{
	(void)state;
	assert_refused("x = 1\n# coding: latin-1\ny = '\xe9'\n", "not UTF-8");
	assert_refused("\n\n# coding: latin-1\ny = '\xe9'\n", "not UTF-8");
	assert_refused("#\r\r# coding: latin-1\ry = '\xe9'\n", "not UTF-8");
	assert_refused("x = 1  # coding: latin-1\ny = '\xe9'\n", "not UTF-8");
	assert_refused("\xef\xbb\xbf# coding: latin-1\ny = '\xe9'\n", "not UTF-8");
	assert_refused("# encoding\n# coding : latin-1\ny = '\xe9'\n", "not UTF-8");
	assert_refused("# coding: utf-8\ny = '\xe9'\n", "not UTF-8");
	assert_name("\n# coding:\n" IMPORT "R(name='\xc3\xa9')\n", 4, "\xc3\xa9");
}

static void other_encodings_are_refused(void **state)
{
	(void)state;
	assert_refused("# coding: no-such\n", "its encoding 'no-such' is unknown here");
	assert_refused("# coding: unicode_escape\n", "'unicode-escape' is unknown here");
	assert_refused("# coding: utf-7\n", "does not write ASCII as such");
	assert_refused("# coding: hz\n", "is unknown here");
	assert_refused("# coding: utf-16\n", "does not write ASCII as such");
	assert_refused("# coding: euc-jp\nx = '\xa5'\n", "does not have all of its bytes");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(declared_encodings_are_read),
		cmocka_unit_test(what_declares_none_is_utf8),
		cmocka_unit_test(other_encodings_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
