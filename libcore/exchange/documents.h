/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_DOCUMENTS_H
#define FLMEM_EXCHANGE_DOCUMENTS_H

/* Prints the JSON documents of the protocol. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "exchange/digest.h"
#include "exchange/wire.h"

struct flmem_status_document {
	uint64_t round, rounds, published_round;
	const char *phase;
	uint64_t expected, quorum, complete;
	const char *name; /* the asking client, if its update is complete; or NULL */
	bool has_deadline;
	uint64_t deadline_s, chunk_bytes;
	uint64_t max_request_bytes; /* 0: no limit */
	bool lockstep;
	const char *reason; /* or NULL */
};

void flmem_exchange_status_print(const struct flmem_status_document *status, struct flmem_buf *out);

/* A file of a published model. */
struct flmem_published_file {
	char name[FLMEM_EXCHANGE_NAME_MAX + 1];
	uint64_t bytes;
	unsigned char sha256[FLMEM_SHA256_BYTES];
};

void flmem_exchange_index_print(uint64_t round, const struct flmem_published_file *files,
				size_t count, struct flmem_buf *out);

/* Prints a problem document (RFC 9457). */
void flmem_exchange_problem_print(unsigned status, const char *title, const char *detail,
				  struct flmem_buf *out);

#endif
