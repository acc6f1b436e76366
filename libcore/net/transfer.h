/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_NET_TRANSFER_H
#define FLMEM_NET_TRANSFER_H

/*
 * One connection and the request on it, driven by its reader: it receives only what is read,
 * except for one block of libcurl. One thread may use it at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/http.h>

#include "base/text/buf.h"
#include "net/curl.h"
#include "net/http.h"
#include "net/reply.h"

/* Why a step of a transfer ended. */
enum flmem_transfer_step {
	FLMEM_TRANSFER_OK,
	FLMEM_TRANSFER_RETRY, /* no answer yet; a retry may succeed */
	FLMEM_TRANSFER_FAIL,
};

struct flmem_transfer {
	const struct flmem_curl *curl;
	const struct flmem_http_access *access;
	CURL *easy;
	CURLM *multi;
	struct curl_slist *headers, *all_headers; /* headers without and with those of the user */
	bool active;				  /* a request is in progress, from `at` to `end` */
	uint64_t at, end;
	bool busy;	  /* in use by a thread */
	const void *file; /* the file whose bytes are transferred */

	bool answered, accepted, complete, paused, headers_large, excess;
	size_t redirect_bytes; /* bytes of the body of an answer that redirects */
	CURLcode result;
	struct flmem_reply reply;
	char *out; /* destination during a read */
	size_t wanted;
	struct flmem_buf rest; /* bytes received together with the last ones that were wanted */
	size_t rest_at;
	char message[CURL_ERROR_SIZE];
};

/* Initialises a transfer. Clear it also after a failure. */
int flmem_transfer_init(struct flmem_transfer *transfer, const struct flmem_http_access *access,
			struct flmem_error *err);

void flmem_transfer_clear(struct flmem_transfer *transfer);

struct flmem_transfer_request {
	const char *url, *name; /* `name` is for messages */
	bool with_headers;
	uint64_t begin, end;
};

/* Sends the request and receives the headers of the answer into `reply`. */
enum flmem_transfer_step flmem_transfer_start(struct flmem_transfer *transfer,
					      const struct flmem_transfer_request *request,
					      struct flmem_error *err);

/* Returns the address that the answer redirects to; NULL: nowhere. Valid until the next request. */
const char *flmem_transfer_target(const struct flmem_transfer *transfer);

/* Reads up to `bytes` after the reply was checked. *ret_got is set in any case. */
enum flmem_transfer_step flmem_transfer_read(struct flmem_transfer *transfer, const char *name,
					     char *out, size_t bytes, size_t *ret_got,
					     struct flmem_error *err);

/* Ends the request; the connection is kept if the whole answer was read. */
void flmem_transfer_stop(struct flmem_transfer *transfer);

#endif
