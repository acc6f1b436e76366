/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests files of an exchange server: credentials, records and journals of uploads, the documents.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "exchange/credentials.h"
#include "exchange/documents.h"
#include "exchange/upload_record.h"

#define TOKEN_A "0123456789abcdef"
#define TOKEN_B "0123456789abcdeg"
#define FINGER	"AB000000000000000000000000000000000000000000000000000000000000cd"
#define LOWER	"ab000000000000000000000000000000000000000000000000000000000000cd"

static void tokens_have_names(void **state)
{
	struct flmem_credentials c = {0};

	(void)state;
	assert_int_equal(flmem_credentials_parse("# note\n\na " TOKEN_A "\r\n  \nb\t" TOKEN_B, "f",
						 true, &c, NULL),
			 0);
	assert_int_equal(c.count, 2);
	assert_string_equal(flmem_credentials_find(&c, FLMEM_CREDENTIAL_TOKEN, TOKEN_A), "a");
	assert_string_equal(flmem_credentials_find(&c, FLMEM_CREDENTIAL_TOKEN, TOKEN_B), "b");
	assert_null(flmem_credentials_find(&c, FLMEM_CREDENTIAL_TOKEN, "0123456789abcde"));
	assert_null(flmem_credentials_find(&c, FLMEM_CREDENTIAL_TOKEN, TOKEN_A "0"));
	assert_null(flmem_credentials_find(&c, FLMEM_CREDENTIAL_TOKEN, ""));
	assert_null(flmem_credentials_find(&c, FLMEM_CREDENTIAL_CN, TOKEN_A));
	flmem_credentials_clear(&c);
}

static void certificates_have_names(void **state)
{
	struct flmem_credentials c = {0};

	(void)state;
	assert_int_equal(
		flmem_credentials_parse("a CN=Site one\nb sha256:" FINGER, "f", false, &c, NULL),
		0);
	assert_string_equal(flmem_credentials_find(&c, FLMEM_CREDENTIAL_CN, "Site one"), "a");
	assert_string_equal(flmem_credentials_find(&c, FLMEM_CREDENTIAL_FINGERPRINT, LOWER), "b");
	assert_null(flmem_credentials_find(&c, FLMEM_CREDENTIAL_FINGERPRINT, FINGER));
	flmem_credentials_clear(&c);
}

static void invalid_lines_are_named(void **state)
{
	static const struct {
		const char *text;
		bool tokens;
	} rows[] = {
		{"a", true},
		{"a short", true},
		{"../a " TOKEN_A, true},
		{"a " TOKEN_A " x", true},
		{"a " TOKEN_A "\nb " TOKEN_A, true},
		{"a " TOKEN_A, false},
		{"a CN=", false},
		{"a sha256:00", false},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_credentials c = {0};
		struct flmem_error err = {0};

		assert_int_equal(
			flmem_credentials_parse(rows[i].text, "file", rows[i].tokens, &c, &err),
			FLMEM_EUSAGE);
		assert_non_null(strstr(err.message, "file"));
		assert_null(strstr(err.message, TOKEN_A));
		flmem_credentials_clear(&c);
	}
}

static void records_are_read_back(void **state)
{
	const struct flmem_upload_record records[] = {
		{.metadata = {.round = 3,
			      .client = "a",
			      .filename = "f.x",
			      .weight = 1e15,
			      .files = 7,
			      .has_sha256 = true,
			      .sha256 = {1, 2, 3}},
		 .length = INT64_MAX},
		{.metadata = {.client = "a", .weight = 0.1, .files = 1}, .partial = true},
		{.metadata = {.client = "a", .filename = "b", .weight = 1, .files = 1},
		 .concat = UINT64_MAX},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(records); i++) {
		FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT, again = FLMEM_BUF_INIT;
		struct flmem_upload_record back;

		flmem_upload_record_print(&records[i], &text);
		assert_true(flmem_upload_record_parse(text.data, &back));
		flmem_upload_record_print(&back, &again);
		assert_string_equal(text.data, again.data);
		assert_true(back.metadata.weight == records[i].metadata.weight);
		assert_int_equal(back.length, records[i].length);
		/* The state after an interrupted write. */
		text.data[text.length - 1] = '\0';
		assert_false(flmem_upload_record_parse(text.data, &back));
	}
	assert_false(flmem_upload_record_parse("", &(struct flmem_upload_record){0}));
}

static void journals_end_where_they_are_damaged(void **state)
{
	static const struct flmem_upload_commit commits[] = {{10, 1}, {30, 2}, {100, 3}};
	unsigned char bytes[3 * FLMEM_UPLOAD_JOURNAL_BYTES];
	struct flmem_upload_commit back[3];

	(void)state;
	for (size_t i = 0; i < 3; i++)
		flmem_upload_commit_print(&commits[i], bytes + i * FLMEM_UPLOAD_JOURNAL_BYTES);
	assert_int_equal(flmem_upload_journal_parse(bytes, 3, 100, back), 3);
	assert_int_equal(back[1].end, 30);
	assert_int_equal(back[2].crc32c, 3);
	assert_int_equal(flmem_upload_journal_parse(bytes, 3, 99, back), 2);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] ^= 1;
		assert_int_equal(flmem_upload_journal_parse(bytes, 3, 100, back),
				 i / FLMEM_UPLOAD_JOURNAL_BYTES);
		bytes[i] ^= 1;
	}
	/* An entry whose end is before that of the earlier one. */
	memcpy(bytes + FLMEM_UPLOAD_JOURNAL_BYTES, bytes, FLMEM_UPLOAD_JOURNAL_BYTES);
	assert_int_equal(flmem_upload_journal_parse(bytes, 3, 100, back), 1);
}

static void texts_are_escaped(void **state)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;

	(void)state;
	flmem_exchange_problem_print(409, "round is over", "a\"b\\c\n\xff\xc3\xa9", &out);
	assert_string_equal(out.data,
			    "{\"type\":\"about:blank\",\"title\":\"round is over\",\"status\":409,"
			    "\"detail\":\"a\\\"b\\\\c\\u000a?\xc3\xa9\"}\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens_have_names),
		cmocka_unit_test(certificates_have_names),
		cmocka_unit_test(invalid_lines_are_named),
		cmocka_unit_test(records_are_read_back),
		cmocka_unit_test(journals_end_where_they_are_damaged),
		cmocka_unit_test(texts_are_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
