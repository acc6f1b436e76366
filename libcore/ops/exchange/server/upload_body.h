/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_UPLOAD_BODY_H
#define FLMEM_OPS_EXCHANGE_UPLOAD_BODY_H

/* Receives one body of an upload, from the first byte to its commit. */

#include "ops/exchange/server/answers.h"

struct flmem_transfer_start {
	const char *id; /* identifier of an upload that this request has seized */
	uint64_t offset, length;
	uint64_t flushed; /* committed bytes that are on the disk */
	bool finite;	  /* the committed bytes are known to be finite */
	bool creates;	  /* the request creates the upload: the answer is 201 with a location */
	const struct flmem_tus_checksum *checksum; /* checksum of the body, or NULL */
};

/*
 * Reads the header Upload-Checksum; *ret_given is false without one. Returns false if the request
 * was refused.
 */
bool flmem_transfer_read_checksum(struct flmem_http_request *request,
				  struct flmem_tus_checksum *ret_checksum, bool *ret_given);

/* Begins to receive. Returns NULL if the request was refused; the upload is then released. */
struct flmem_upload_transfer *flmem_transfer_begin(struct flmem_exchange *x,
						   struct flmem_http_request *request,
						   const struct flmem_transfer_start *start);

/*
 * Answers a request that has changed an upload; 409 if the upload is gone. Called without x->lock.
 */
void flmem_transfer_answer(struct flmem_exchange *x, struct flmem_http_request *request,
			   const char *id, bool creates);

/* Fills in the fields that all answers about an upload have. Called with x->lock held. */
void flmem_transfer_fill(const struct flmem_exchange *x, const struct flmem_upload *upload,
			 bool creates, struct flmem_http_answer *answer);

#endif
