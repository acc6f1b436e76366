/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_NET_HTTP_H
#define FLMEM_NET_HTTP_H

/*
 * Reads files on web servers in parts with Range requests. Every answer is compared with the
 * request and with the first answer: range, size, ETag and Last-Modified. Transient failures are
 * retried. Each connection uses one block of memory. Any number of threads may read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/http.h>

/* How to reach servers, and when to stop waiting for them. */
struct flmem_http_access {
	const struct flmem_http_options *options; /* NULL: the defaults */
	/* Called a few times a second, true: stop; NULL: never. */
	bool (*ended)(void *context);
	void *context;
};

struct flmem_http;	/* the connections */
struct flmem_http_file; /* a file that is read through them */

/*
 * Opens the connections, which keep the pointer `access`. FLMEM_EUNSUPPORTED where there is no
 * libcurl.
 */
int flmem_http_open(const struct flmem_http_access *access, struct flmem_http **ret_http,
		    struct flmem_error *err);

/* Closes the connections; close their files first. NULL is allowed for both. */
void flmem_http_close(struct flmem_http *http);
void flmem_http_file_close(struct flmem_http_file *file);

/* Opens a file: asks for its size, and whether its parts can be read. */
int flmem_http_file_open(struct flmem_http *http, const char *url,
			 struct flmem_http_file **ret_file, struct flmem_error *err);

/* Returns the address without secrets. */
const char *flmem_http_file_name(const struct flmem_http_file *file);

uint64_t flmem_http_file_size(const struct flmem_http_file *file);

/*
 * Continues a hash with what identifies the content: the hash is equal for the same version of the
 * file.
 */
uint64_t flmem_http_file_mix(const struct flmem_http_file *file, uint64_t hash);

/* Announces that these bytes will be read, so that one request asks for them. */
void flmem_http_file_expect(struct flmem_http_file *file, uint64_t offset, uint64_t bytes);

int flmem_http_file_read(struct flmem_http_file *file, uint64_t offset, uint64_t bytes, char *out,
			 struct flmem_error *err);

/* Checks the file's version: FLMEM_EUSAGE if the file has changed since it was opened. */
int flmem_http_file_check(struct flmem_http_file *file, struct flmem_error *err);

#endif
