/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_UPLOAD_BODY_H
#define FLMEM_OPS_EXCHANGE_UPLOAD_BODY_H

/* One body of an upload, from the first byte to its commit. */

#include "ops/exchange/server/answers.h"

struct flmem_transfer_start {
	const char *id; /* of an upload that this request has seized */
	uint64_t offset, length;
	uint64_t flushed;			   /* of what is committed: on the disk */
	bool finite;				   /* so is what is committed */
	bool creates;				   /* answered 201 with a location */
	const struct flmem_tus_checksum *checksum; /* or NULL */
};

/* NULL if it was refused; the upload is released then. */
struct flmem_upload_transfer *flmem_transfer_begin(struct flmem_exchange *x,
						   struct flmem_http_request *request,
						   const struct flmem_transfer_start *start);

/* Answers a request that has changed an upload, 409 if that is gone. Without the lock. */
void flmem_transfer_answer(struct flmem_exchange *x, struct flmem_http_request *request,
			   const char *id, bool creates);

/* What is common to answers about an upload. With the lock. */
void flmem_transfer_fill(const struct flmem_exchange *x, const struct flmem_upload *upload,
			 bool creates, struct flmem_http_answer *answer);

#endif
