/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/http_body.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define MADE_BYTES ((size_t)256 << 10) /* at once */
#define READ_BYTES ((size_t)64 << 10)

struct made_body {
	void (*make)(const void *context, uint64_t offset, uint64_t bytes, char *out);
	const void *context;
	uint64_t offset, bytes;
};

static ssize_t read_made_body(void *context, uint64_t at, char *out, size_t room)
{
	const struct made_body *body = context;
	uint64_t left = body->bytes - at;
	size_t some = left < room ? (size_t)left : room;

	body->make(body->context, body->offset + at, some, out);
	return (ssize_t)some;
}

static struct MHD_Response *open_made_body(const struct flmem_microhttpd *http,
					   const struct flmem_http_answer *answer)
{
	struct made_body *body = malloc(sizeof(*body));
	struct MHD_Response *response;

	if (!body)
		return NULL;
	*body = (struct made_body){answer->make, answer->context, answer->offset, answer->bytes};
	response = http->create_response_from_callback(answer->bytes, MADE_BYTES, read_made_body,
						       body, free);
	if (!response)
		free(body);
	return response;
}

struct file_body {
	int fd;
	uint64_t offset, bytes;
};

/* A file that was cut ends the connection, so that the client does not take less for all. */
static ssize_t read_file_body(void *context, uint64_t at, char *out, size_t room)
{
	const struct file_body *body = context;
	uint64_t left = body->bytes - at;
	ssize_t got;

	do
		got = pread(body->fd, out, left < room ? (size_t)left : room,
			    (off_t)(body->offset + at));
	while (got < 0 && errno == EINTR);
	return got > 0 ? got : (ssize_t)MHD_CONTENT_READER_END_WITH_ERROR;
}

static void close_file_body(void *context)
{
	struct file_body *body = context;

	close(body->fd);
	free(body);
}

/* The library would read 4 KiB at a time, and send, push and wait for each as a record of TLS. */
static struct MHD_Response *open_file_body(const struct flmem_microhttpd *http,
					   const struct flmem_http_answer *answer)
{
	struct file_body *body = malloc(sizeof(*body));
	struct MHD_Response *response;

	if (!body)
		return NULL;
	*body = (struct file_body){answer->file, answer->offset, answer->bytes};
	response = http->create_response_from_callback(answer->bytes, READ_BYTES, read_file_body,
						       body, close_file_body);
	if (!response)
		free(body);
	return response;
}

struct MHD_Response *flmem_http_body_open(const struct flmem_microhttpd *http,
					  const struct flmem_http_answer *answer, bool encrypted)
{
	struct MHD_Response *response;

	if (answer->make)
		return open_made_body(http, answer);
	if (!answer->has_file)
		return http->create_response_from_buffer(answer->length, (void *)answer->body,
							 MHD_RESPMEM_MUST_COPY);
	response = encrypted ? open_file_body(http, answer)
			     : http->create_response_from_fd_at_offset64(
				       answer->bytes, answer->file, answer->offset);
	if (!response)
		close(answer->file);
	return response;
}
