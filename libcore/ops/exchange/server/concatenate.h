/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_CONCATENATE_H
#define FLMEM_OPS_EXCHANGE_CONCATENATE_H

/* Makes one upload from parts that were sent in parallel (tus: concatenation). */

#include "ops/exchange/server/server_state.h"

/*
 * Assembles the parts, removes them, and answers. The bytes are copied within the file system,
 * which shares them where it can.
 */
void flmem_exchange_concatenate(struct flmem_exchange *x, struct flmem_http_request *request,
				struct flmem_upload_record *record,
				const struct flmem_tus_concat *concat);

/*
 * Returns the upload of a record, and creates it if there is none; NULL if the request was refused.
 * Called with x->lock held, which is released while the upload is created.
 */
struct flmem_upload *flmem_upload_obtain(struct flmem_exchange *x,
					 struct flmem_http_request *request,
					 struct flmem_upload_record *record);

#endif
