/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_CLIENT_JSON_H
#define FLMEM_EXCHANGE_CLIENT_JSON_H

/* Documents that a server sends. They are untrusted: every value is checked before it is used. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>
#include <flmem/exchange_client.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "exchange/digest.h"
#include "exchange/wire.h"

#define FLMEM_EXCHANGE_ROUND_MAX UINT64_C(1000000000)

/* Why a request failed (RFC 9457); both are printable and may be empty. */
struct flmem_exchange_problem {
	char title[FLMEM_EXCHANGE_REASON_MAX], detail[FLMEM_EXCHANGE_REASON_MAX];
};

/* Reads a problem document; the result is empty if the body is none. */
void flmem_exchange_problem_parse(const struct flmem_buf *body, struct flmem_exchange_problem *ret);

/* Reads a document "flmem.exchange-state/1". The body is changed. `server` is for messages. */
int flmem_exchange_state_parse(struct flmem_buf *body, const char *server,
			       struct flmem_exchange_status *ret_status, struct flmem_error *err);

struct flmem_exchange_file {
	char name[FLMEM_EXCHANGE_NAME_MAX + 1];
	uint64_t bytes;
	char sha256[FLMEM_SHA256_HEX];
};

/* The files of a published model. */
struct flmem_exchange_index {
	uint64_t round;
	struct flmem_exchange_file *files; /* sorted by name, without duplicates; at least one */
	size_t count, room;
	uint64_t bytes; /* size of all files together */
};

void flmem_exchange_index_clear(struct flmem_exchange_index *index);

#define FLMEM_AUTO_EXCHANGE_INDEX FLMEM_AUTO(flmem_exchange_index_clear)

/*
 * Reads a document "flmem.exchange-model/1". The body is changed. Clear the index also after a
 * failure.
 */
int flmem_exchange_index_parse(struct flmem_buf *body, const char *server,
			       struct flmem_exchange_index *ret_index, struct flmem_error *err);

#endif
