/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_NET_REPLY_H
#define FLMEM_NET_REPLY_H

/* Parses the headers of an answer that reading and uploading files needs. They are untrusted. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#define FLMEM_REPLY_HEADERS_MAX	  65536U
#define FLMEM_REPLY_VALIDATOR_MAX 256U

/* A header with a decimal number; not known if it is invalid, or occurs with two values. */
struct flmem_reply_number {
	bool seen, known;
	uint64_t value;
};

struct flmem_reply {
	unsigned status;
	size_t header_bytes;
	bool has_range, has_length, encoded, invalid_range;
	uint64_t first, last, size; /* values of Content-Range, if has_range */
	uint64_t length;	    /* value of Content-Length, if has_length */
	uint64_t retry_seconds;	    /* value of Retry-After; 0: none */
	char etag[FLMEM_REPLY_VALIDATOR_MAX], modified[FLMEM_REPLY_VALIDATOR_MAX];
	char location[FLMEM_REPLY_VALIDATOR_MAX];
	struct flmem_reply_number upload_offset, upload_length; /* headers of tus 1.0.0 */
	char upload_checksum[FLMEM_REPLY_VALIDATOR_MAX];
};

/* Adds a line. A status line begins a new reply. False if the headers are too large. */
bool flmem_reply_add(struct flmem_reply *reply, const char *line, size_t length);

/* The range that was requested, and what is known of its file. */
struct flmem_reply_expected {
	uint64_t begin, end;
	bool known; /* the size must be that of `file`; else the range may end with the file */
	uint64_t size;
	const char *etag, *modified;
};

/* Checks whether the reply answers a request for a range: 0, or an error with the reason. */
int flmem_reply_check(const struct flmem_reply *reply, const struct flmem_reply_expected *expected,
		      const char *name, struct flmem_error *err);

/* Reports whether the request may succeed later. */
bool flmem_reply_is_transient(const struct flmem_reply *reply);

bool flmem_reply_redirects(const struct flmem_reply *reply);

#endif
