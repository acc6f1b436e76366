/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_LOCKSTEP_COMBINE_H
#define FLMEM_OPS_EXCHANGE_LOCKSTEP_COMBINE_H

/* The aggregation of lockstep, which reads the windows of memory that requests fill. */

#include "ops/exchange/server/server_state.h"

/* Combines the updates of the round. Called without x->lock, by the thread of the combiner. */
int flmem_lockstep_combine(struct flmem_exchange *x, struct flmem_aggregate_request *request,
			   struct flmem_aggregate_result *ret_result, struct flmem_error *err);

#endif
