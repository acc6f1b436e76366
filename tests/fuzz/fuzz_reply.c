/* SPDX-License-Identifier: Apache-2.0 */
/* Parses headers of a web server: an answer that is accepted has the bytes that were requested. */
#include <string.h>

#include "fuzz.h"
#include "net/reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct flmem_reply_expected expected[] = {
		{.begin = 5, .end = 10},
		{.begin = 5, .end = 10, .known = true, .size = 20, .etag = "\"1\"", .modified = ""},
	};
	struct flmem_reply reply = {0};

	for (size_t at = 0; at < size;) {
		const uint8_t *end = memchr(data + at, '\n', size - at);
		size_t length = end ? (size_t)(end - data) + 1 - at : size - at;

		if (!flmem_reply_add(&reply, (const char *)data + at, length))
			return 0;
		at += length;
	}
	for (size_t i = 0; i < 2; i++) {
		if (flmem_reply_check(&reply, &expected[i], "name", NULL))
			continue;
		if (reply.status != 206 || reply.first != 5 || reply.encoded ||
		    reply.last >= reply.size || reply.last > 9)
			abort();
		if (i && (reply.size != 20 || reply.last != 9 || strcmp(reply.etag, "\"1\"") != 0))
			abort();
	}
	return 0;
}
