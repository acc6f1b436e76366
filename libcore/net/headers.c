/* SPDX-License-Identifier: Apache-2.0 */
#include "net/headers.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

#define NAME_SHOWN_MAX 60

/* Headers that flmem sets itself, or that change the meaning of an answer. */
static const char *const own_headers[] = {"range",	"if-range", "accept-encoding",
					  "connection", "host",	    "transfer-encoding"};

static const char name_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789!#$%&'*+-.^_`|~";

static bool is_reserved_header(const char *header, size_t length)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(own_headers); i++)
		if (strlen(own_headers[i]) == length &&
		    strncasecmp(own_headers[i], header, length) == 0)
			return true;
	return false;
}

static bool has_control(const char *value)
{
	for (; *value; value++)
		if (((unsigned char)*value < ' ' && *value != '\t') || *value == 0x7f)
			return true;
	return false;
}

static int check_header(const char *header, size_t number, struct flmem_error *err)
{
	size_t length = strspn(header, name_characters);
	const char *value = header + length;
	int shown = length < NAME_SHOWN_MAX ? (int)length : NAME_SHOWN_MAX;

	if (!length || *value != ':' || has_control(value) || !value[1 + strspn(value + 1, " \t")])
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "header %zu is invalid; expected 'Name: value'", number);
	if (is_reserved_header(header, length))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "the header '%.*s' cannot be set; flmem sets it", shown,
				       header);
	return 0;
}

int flmem_headers_check(const struct flmem_http_options *options, struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; options && i < options->header_count && !rc; i++)
		rc = check_header(options->headers[i], i + 1, err);
	if (!rc && options && options->retries > FLMEM_HTTP_RETRIES_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "--retries accepts at most %u",
				       FLMEM_HTTP_RETRIES_MAX);
	if (!rc && options && options->timeout_seconds > FLMEM_HTTP_TIMEOUT_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "--timeout accepts at most %u s",
				       FLMEM_HTTP_TIMEOUT_MAX);
	return rc;
}
