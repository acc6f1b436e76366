/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_LOCKSTEP_UPLOAD_H
#define FLMEM_OPS_EXCHANGE_LOCKSTEP_UPLOAD_H

/* Receives one body of an upload in lockstep: the header goes to a file, the data to the ring. */

#include "ops/exchange/server/answers.h"

struct flmem_lockstep_upload;

/* Begins to receive. The transfer is then the data of the request, unless it was refused. */
void flmem_lockstep_upload_begin(struct flmem_exchange *x, struct flmem_http_request *request,
				 const struct flmem_transfer_start *start);

void flmem_lockstep_upload_add(struct flmem_lockstep_upload *transfer, const char *bytes,
			       size_t length);
void flmem_lockstep_upload_end(struct flmem_lockstep_upload *transfer,
			       struct flmem_http_request *request);

/* Keeps what arrived of a body that was cut, and frees the transfer. NULL is allowed. */
void flmem_lockstep_upload_free(struct flmem_lockstep_upload *transfer);

#endif
