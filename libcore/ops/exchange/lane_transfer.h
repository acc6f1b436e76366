/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_LANE_TRANSFER_H
#define FLMEM_OPS_EXCHANGE_LANE_TRANSFER_H

/* One body of an upload in lockstep: its header goes to the file, its data to the ring. */

#include "ops/exchange/answers.h"

struct flmem_lane_transfer;

/* The data of the request is the transfer, unless it was refused. */
void flmem_lane_transfer_begin(struct flmem_exchange *x, struct flmem_http_request *request,
			       const struct flmem_transfer_start *start);

void flmem_lane_transfer_add(struct flmem_lane_transfer *transfer, const char *bytes,
			     size_t length);
void flmem_lane_transfer_end(struct flmem_lane_transfer *transfer,
			     struct flmem_http_request *request);

/* Keeps what arrived of a body that was cut, and frees it. NULL is allowed. */
void flmem_lane_transfer_free(struct flmem_lane_transfer *transfer);

#endif
