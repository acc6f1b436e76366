/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "net/reply.h"

static struct flmem_reply read_reply(const char *const *lines)
{
	struct flmem_reply reply = {0};

	for (; *lines; lines++)
		assert_true(flmem_reply_add(&reply, *lines, strlen(*lines)));
	return reply;
}

#define REPLY(...) read_reply((const char *const[]){__VA_ARGS__, NULL})
#define PART	   "HTTP/1.1 206 Partial Content\r\n"

static void fields_are_read(void **state)
{
	const struct flmem_reply reply = REPLY(
		"HTTP/1.1 301 Moved\r\n", "ETag: \"old\"\r\n", "\r\n", PART,
		"content-RANGE:  bytes 5-9/20 \r\n", "Content-Length: 5\r\n", "Retry-After: 3\r\n",
		"ETag: W/\"new\"\r\n", "Last-Modified: Mon\r\n", "\r\n");

	(void)state;
	assert_int_equal(reply.status, 206);
	assert_true(reply.has_range && !reply.invalid_range && reply.has_length && !reply.encoded);
	assert_int_equal(reply.first, 5);
	assert_int_equal(reply.last, 9);
	assert_int_equal(reply.size, 20);
	assert_int_equal(reply.length, 5);
	assert_int_equal(reply.retry_seconds, 3);
	assert_string_equal(reply.etag, "W/\"new\"");
	assert_string_equal(reply.modified, "Mon");
}

/* Of the fields of tus, a number that is not clear is treated as absent. */
static void upload_fields_are_read(void **state)
{
	const struct flmem_reply reply =
		REPLY("HTTP/1.1 201 Created\r\n", "Location: /v1/uploads/1f \r\n",
		      "upload-offset: 18446744073709551615\r\n", "Upload-Length: 9\r\n",
		      "Upload-Length: 9\r\n");
	const struct flmem_reply unclear =
		REPLY("HTTP/1.1 200 OK\r\n", "Upload-Offset: 5\r\n", "Upload-Offset: 6\r\n",
		      "Upload-Offset: 6\r\n", "Upload-Length: 18446744073709551616\r\n");
	const struct flmem_reply text = REPLY("HTTP/1.1 200 OK\r\n", "Upload-Offset: 5x\r\n",
					      "Upload-Offset: 5\r\n", "Upload-Length: -1\r\n");

	(void)state;
	assert_string_equal(reply.location, "/v1/uploads/1f");
	assert_true(reply.upload_offset.known && reply.upload_offset.value == UINT64_MAX);
	assert_true(reply.upload_length.known && reply.upload_length.value == 9);
	assert_true(unclear.upload_offset.seen && !unclear.upload_offset.known);
	assert_true(unclear.upload_length.seen && !unclear.upload_length.known);
	assert_true(text.upload_offset.seen && !text.upload_offset.known);
	assert_false(text.upload_length.known);
}

static void invalid_fields_are_not_believed(void **state)
{
	static const char *const ranges[] = {
		"bytes 5-9/*",	 "bytes 9-5/20",
		"bytes 5-20/20", "bytes 5-9/20x",
		"bytes=5-9/20",	 "bytes */20",
		"bytes -9/20",	 "5-9/20",
		"bytes 5- 9/20", "",
		"bytes 5-9",	 "bytes 5-99999999999999999999/20",
	};
	char line[100];

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(ranges); i++) {
		snprintf(line, sizeof(line), "Content-Range: %s\r\n", ranges[i]);
		assert_true(REPLY(PART, line).invalid_range);
	}
	assert_true(
		REPLY(PART, "Content-Range: bytes 5-9/20\r\n", "Content-Range: bytes 5-9/20\r\n")
			.invalid_range);
	assert_false(REPLY(PART, "Content-Length: -5\r\n").has_length);
	assert_int_equal(REPLY(PART, "Retry-After: Mon, 01 Jan\r\n").retry_seconds, 0);
	assert_int_equal(REPLY(PART, "Retry-After: 99999\r\n").retry_seconds, 60);
	assert_true(REPLY(PART, "Content-Encoding: br\r\n").encoded);
	assert_false(REPLY(PART, "Content-Encoding: identity\r\n").encoded);
}

static void headers_are_limited(void **state)
{
	struct flmem_reply reply = REPLY(PART);
	char line[1000];

	(void)state;
	memset(line, 'x', sizeof(line));
	for (size_t i = 0; i < 65; i++)
		assert_true(flmem_reply_add(&reply, line, sizeof(line)));
	assert_true(flmem_reply_add(&reply, PART, strlen(PART)));
	assert_false(flmem_reply_add(&reply, line, sizeof(line)));
}

static int check(const char *field, const char *other, const struct flmem_reply_expected *expected)
{
	const struct flmem_reply reply = REPLY(PART, field, other);

	return flmem_reply_check(&reply, expected, "name", NULL);
}

static void only_the_answer_is_accepted(void **state)
{
	const struct flmem_reply_expected first = {.begin = 5, .end = 10};
	struct flmem_reply_expected later = {
		.begin = 5, .end = 10, .known = true, .size = 20, .etag = "\"1\"", .modified = ""};

	(void)state;
	assert_int_equal(check("Content-Range: bytes 5-9/20\r\n", "", &first), 0);
	assert_int_equal(check("Content-Range: bytes 5-7/8\r\n", "", &first), 0);
	assert_int_equal(check("Content-Range: bytes 5-7/20\r\n", "", &first), FLMEM_EFAILED);
	assert_int_equal(check("Content-Range: bytes 4-9/20\r\n", "", &first), FLMEM_EFAILED);
	assert_int_equal(check("Content-Range: bytes 5-9/20\r\n", "Content-Length: 4\r\n", &first),
			 FLMEM_EFAILED);
	assert_int_equal(check("Content-Range: bytes 5-9/20\r\n", "ETag: \"1\"\r\n", &later), 0);
	assert_int_equal(check("Content-Range: bytes 5-9/20\r\n", "ETag: \"2\"\r\n", &later),
			 FLMEM_EUSAGE);
	assert_int_equal(check("Content-Range: bytes 5-9/20\r\n", "", &later), FLMEM_EUSAGE);
	assert_int_equal(check("Content-Range: bytes 5-9/21\r\n", "ETag: \"1\"\r\n", &later),
			 FLMEM_EUSAGE);
	assert_int_equal(check("", "", &first), FLMEM_EFAILED);
}

static void statuses_are_told_apart(void **state)
{
	static const unsigned passing[] = {408, 429, 500, 502, 503, 504};
	static const unsigned lasting[] = {200, 206, 400, 401, 403, 404, 416, 501};
	struct flmem_reply reply = {0};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(passing); i++) {
		reply.status = passing[i];
		assert_true(flmem_reply_is_transient(&reply));
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lasting); i++) {
		reply.status = lasting[i];
		assert_false(flmem_reply_is_transient(&reply));
		assert_false(flmem_reply_redirects(&reply));
	}
	reply.status = 307;
	assert_true(flmem_reply_redirects(&reply));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_are_read),
		cmocka_unit_test(upload_fields_are_read),
		cmocka_unit_test(invalid_fields_are_not_believed),
		cmocka_unit_test(headers_are_limited),
		cmocka_unit_test(only_the_answer_is_accepted),
		cmocka_unit_test(statuses_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
