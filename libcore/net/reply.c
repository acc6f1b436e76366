/* SPDX-License-Identifier: Apache-2.0 */
#include "net/reply.h"

#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/text/text.h"

#define RETRY_SECONDS_MAX 60U

static void read_status(struct flmem_reply *reply, const char *text)
{
	const char *at = text + strcspn(text, " ");
	uint64_t status;

	at += strspn(at, " ");
	if (flmem_text_read_digits(&at, &status) && status < 1000)
		reply->status = (unsigned)status;
}

/*
 * Reads "bytes FIRST-LAST/SIZE" (RFC 9110, 14.4). A second such header makes the reply invalid,
 * since readers could use either.
 */
static void read_content_range(struct flmem_reply *reply, const char *text)
{
	const char *at = text + strlen("bytes ");
	bool valid = !reply->has_range && strncasecmp(text, "bytes ", strlen("bytes ")) == 0 &&
		     flmem_text_read_digits(&at, &reply->first) && *at++ == '-' &&
		     flmem_text_read_digits(&at, &reply->last) && *at++ == '/' &&
		     flmem_text_read_digits(&at, &reply->size) && !*at;

	reply->has_range = true;
	reply->invalid_range |= !valid || reply->first > reply->last || reply->last >= reply->size;
}

static void read_content_length(struct flmem_reply *reply, const char *text)
{
	reply->has_length = flmem_text_read_digits(&text, &reply->length) && !*text;
}

static void read_encoding(struct flmem_reply *reply, const char *text)
{
	reply->encoded |= strcasecmp(text, "identity") != 0;
}

/* Reads the delay in seconds; dates are ignored, since the clocks may differ. */
static void read_retry(struct flmem_reply *reply, const char *text)
{
	if (!flmem_text_read_digits(&text, &reply->retry_seconds) || *text)
		reply->retry_seconds = 0;
	if (reply->retry_seconds > RETRY_SECONDS_MAX)
		reply->retry_seconds = RETRY_SECONDS_MAX;
}

/* Copies a validator. A value that is too long to keep would never match: it counts as absent. */
static void copy_validator(char out[FLMEM_REPLY_VALIDATOR_MAX], const char *text)
{
	size_t length = strlen(text);

	out[0] = '\0';
	if (length < FLMEM_REPLY_VALIDATOR_MAX)
		memcpy(out, text, length + 1);
}

static void read_etag(struct flmem_reply *reply, const char *text)
{
	copy_validator(reply->etag, text);
}

static void read_modified(struct flmem_reply *reply, const char *text)
{
	copy_validator(reply->modified, text);
}

static void read_location(struct flmem_reply *reply, const char *text)
{
	copy_validator(reply->location, text);
}

static void read_reply_number(struct flmem_reply_number *number, const char *text)
{
	uint64_t value;
	bool valid = flmem_text_read_digits(&text, &value) && !*text;

	number->known = valid && (!number->seen || (number->known && number->value == value));
	number->seen = true;
	if (valid)
		number->value = value;
}

static void read_upload_offset(struct flmem_reply *reply, const char *text)
{
	read_reply_number(&reply->upload_offset, text);
}

static void read_upload_length(struct flmem_reply *reply, const char *text)
{
	read_reply_number(&reply->upload_length, text);
}

static void read_upload_checksum(struct flmem_reply *reply, const char *text)
{
	copy_validator(reply->upload_checksum, text);
}

static const struct {
	const char *name;
	void (*read)(struct flmem_reply *reply, const char *value);
} reply_fields[] = {
	{"content-range:", read_content_range},
	{"content-length:", read_content_length},
	{"content-encoding:", read_encoding},
	{"retry-after:", read_retry},
	{"etag:", read_etag},
	{"last-modified:", read_modified},
	{"location:", read_location},
	{"upload-offset:", read_upload_offset},
	{"upload-length:", read_upload_length},
	{"upload-checksum:", read_upload_checksum},
};

/* Reads the header's value without the blanks around it. */
static void read_reply_field(struct flmem_reply *reply, char *line)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(reply_fields); i++) {
		size_t length = strlen(reply_fields[i].name), end;

		if (strncasecmp(line, reply_fields[i].name, length) != 0)
			continue;
		length += strspn(line + length, " \t");
		for (end = strlen(line); end > length && strchr(" \t\r\n", line[end - 1]); end--)
			line[end - 1] = '\0';
		reply_fields[i].read(reply, line + length);
	}
}

bool flmem_reply_add(struct flmem_reply *reply, const char *line, size_t length)
{
	char text[FLMEM_REPLY_VALIDATOR_MAX * 2];
	size_t header_bytes = reply->header_bytes + length;
	size_t some = length < sizeof(text) - 1 ? length : sizeof(text) - 1;

	if (header_bytes > FLMEM_REPLY_HEADERS_MAX)
		return false;
	memcpy(text, line, some);
	text[some] = '\0';
	if (flmem_text_starts(text, "HTTP/")) {
		*reply = (struct flmem_reply){0};
		read_status(reply, text);
	} else {
		read_reply_field(reply, text);
	}
	reply->header_bytes = header_bytes;
	return true;
}

bool flmem_reply_is_transient(const struct flmem_reply *reply)
{
	static const unsigned transient[] = {408, 429, 500, 502, 503, 504};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(transient); i++)
		if (reply->status == transient[i])
			return true;
	return false;
}

bool flmem_reply_redirects(const struct flmem_reply *reply)
{
	static const unsigned redirects[] = {301, 302, 303, 307, 308};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(redirects); i++)
		if (reply->status == redirects[i])
			return true;
	return false;
}

static int report_status(const struct flmem_reply *reply,
			 const struct flmem_reply_expected *expected, const char *name,
			 struct flmem_error *err)
{
	switch (reply->status) {
	case 200:
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "the server of '%s' ignores Range requests: it sends the "
				       "whole file for a part of it; download the file first",
				       name);
	case 401:
	case 403:
		return flmem_error_set(err, FLMEM_EPERM, 0,
				       "the server refuses '%s' with status %u; give credentials "
				       "with --header, or renew an expired signature",
				       name, reply->status);
	case 404:
	case 410:
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "the server does not have '%s': status %u", name,
				       reply->status);
	case 416:
		return flmem_error_set(
			err, expected->known ? FLMEM_EFAILED : FLMEM_EUSAGE, 0,
			"the server has no byte %llu of '%s': the file is empty or was truncated",
			(unsigned long long)expected->begin, name);
	default:
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "the server answers with status %u for '%s'", reply->status,
				       name);
	}
}

static bool is_other(const char *before, const char *now)
{
	return before && strcmp(before, now) != 0;
}

/* Reports whether the reply is about another version of the file. */
static bool has_changed(const struct flmem_reply *reply,
			const struct flmem_reply_expected *expected)
{
	return expected->known &&
	       (is_other(expected->etag, reply->etag) ||
		is_other(expected->modified, reply->modified) ||
		(reply->has_range && !reply->invalid_range && reply->size != expected->size));
}

static int check_range(const struct flmem_reply *reply, const struct flmem_reply_expected *expected,
		       const char *name, struct flmem_error *err)
{
	uint64_t end = expected->end;

	if (!reply->has_range || reply->invalid_range)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "the server of '%s' does not report which bytes it sends, "
				       "or the size of the file: its Content-Range is absent or "
				       "invalid",
				       name);
	if (!expected->known && reply->size < end)
		end = reply->size;
	if (reply->first != expected->begin || reply->last + 1 != end)
		return flmem_error_set(
			err, FLMEM_EFAILED, 0,
			"the server of '%s' sends bytes %llu to %llu instead of the requested %llu "
			"to %llu",
			name, (unsigned long long)reply->first, (unsigned long long)reply->last,
			(unsigned long long)expected->begin, (unsigned long long)end - 1);
	if (reply->has_length && reply->length != end - expected->begin)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "the server of '%s' announces %llu bytes for a part of %llu",
				       name, (unsigned long long)reply->length,
				       (unsigned long long)(end - expected->begin));
	return 0;
}

int flmem_reply_check(const struct flmem_reply *reply, const struct flmem_reply_expected *expected,
		      const char *name, struct flmem_error *err)
{
	bool file = reply->status == 200 || reply->status == 206;

	if (file && has_changed(reply, expected))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' changed while it was read; aggregate finished "
				       "files only",
				       name);
	if (reply->status != 206)
		return report_status(reply, expected, name, err);
	if (reply->encoded)
		return flmem_error_set(
			err, FLMEM_EFAILED, 0,
			"the server of '%s' sends compressed data, which was not requested", name);
	return check_range(reply, expected, name, err);
}
