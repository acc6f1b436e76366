/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/http_body.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define MADE_BYTES ((size_t)256 << 10) /* bytes that are made at a time */
#define READ_BYTES ((size_t)64 << 10)

/* The data that an answer's body needs until it is sent. */
struct streamed_body {
	void (*make)(const void *context, uint64_t offset, uint64_t bytes, char *out);
	const void *context;
	int file;
	uint64_t offset, bytes;
};

static size_t next_bytes(const struct streamed_body *body, uint64_t at, size_t room)
{
	return body->bytes - at < room ? (size_t)(body->bytes - at) : room;
}

static ssize_t read_made_body(void *context, uint64_t at, char *out, size_t room)
{
	const struct streamed_body *body = context;
	size_t some = next_bytes(body, at, room);

	body->make(body->context, body->offset + at, some, out);
	return (ssize_t)some;
}

/*
 * Reads the body from a file. A truncated file ends the connection, so that the client does not
 * take it for complete.
 */
static ssize_t read_file_body(void *context, uint64_t at, char *out, size_t room)
{
	const struct streamed_body *body = context;
	ssize_t got;

	do
		got = pread(body->file, out, next_bytes(body, at, room),
			    (off_t)(body->offset + at));
	while (got < 0 && errno == EINTR);
	return got > 0 ? got : (ssize_t)MHD_CONTENT_READER_END_WITH_ERROR;
}

static void close_file_body(void *context)
{
	const struct streamed_body *body = context;

	close(body->file);
	free(context);
}

/*
 * Streams a body, also from a file: for a file with TLS the library would read 4 KiB at a time, and
 * send, push and wait for each as a record.
 */
static struct MHD_Response *open_streamed_body(const struct flmem_microhttpd *http,
					       const struct flmem_http_answer *answer)
{
	struct streamed_body *body = malloc(sizeof(*body));
	struct MHD_Response *response;

	if (!body)
		return NULL;
	*body = (struct streamed_body){answer->make, answer->context, answer->file, answer->offset,
				       answer->bytes};
	response = answer->make ? http->create_response_from_callback(answer->bytes, MADE_BYTES,
								      read_made_body, body, free)
				: http->create_response_from_callback(answer->bytes, READ_BYTES,
								      read_file_body, body,
								      close_file_body);
	if (!response)
		free(body);
	return response;
}

struct MHD_Response *flmem_http_body_open(const struct flmem_microhttpd *http,
					  const struct flmem_http_answer *answer, bool encrypted)
{
	struct MHD_Response *response;

	if (answer->make)
		return open_streamed_body(http, answer);
	if (!answer->has_file)
		return http->create_response_from_buffer(answer->length, (void *)answer->body,
							 MHD_RESPMEM_MUST_COPY);
	response = encrypted ? open_streamed_body(http, answer)
			     : http->create_response_from_fd_at_offset64(
				       answer->bytes, answer->file, answer->offset);
	if (!response)
		close(answer->file);
	return response;
}
