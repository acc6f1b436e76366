/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/text/url.h"

static void secrets_are_hidden(void **state)
{
	static const char *const rows[][2] = {
		{"http://host/a?X-Amz-Signature=1&b=2", "http://host/a?<redacted>"},
		{"HTTPS://host:81/a/b#part", "HTTPS://host:81/a/b"},
		{"http://user:word@host/a@b", "http://<redacted>@host/a@b"},
		{"http://user:wo/rd@host/a", "http://<redacted>@host/a"},
		{"http://token@host", "http://<redacted>@host"},
		{"http://host:80/models@v1/x", "http://host:80/models@v1/x"},
		{"http://[::1]:80/x", "http://[::1]:80/x"},
		{"http:/host?x", "http:/host?x"},
		{"file?a", "file?a"},
		{"", ""},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		FLMEM_AUTO_FREE char *shown = flmem_url_show(rows[i][0]);

		assert_string_equal(shown, rows[i][1]);
	}
}

static void addresses_are_recognised(void **state)
{
	(void)state;
	assert_true(flmem_url_is("http://x"));
	assert_true(flmem_url_is("HTTPS://x"));
	assert_false(flmem_url_is("ftp://x"));
	assert_false(flmem_url_is("http:x"));
	assert_false(flmem_url_is("./http://x"));
	assert_int_equal(flmem_url_path_length("http://h/a?b#c"), 10);
	assert_int_equal(flmem_url_path_length("a?b"), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secrets_are_hidden),
		cmocka_unit_test(addresses_are_recognised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
