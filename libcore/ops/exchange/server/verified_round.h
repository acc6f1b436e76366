/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_VERIFIED_ROUND_H
#define FLMEM_OPS_EXCHANGE_VERIFIED_ROUND_H

/*
 * A round in lockstep whose result is compared instead of written: the operator names the generator
 * of each client's update. Nothing of the round is journalled, so a server that was killed compares
 * everything again. The directory of the round gets a file once the comparison is done.
 */

#include "ops/exchange/server/server_state.h"

static inline bool flmem_exchange_verifies(const struct flmem_exchange *x)
{
	return x->options->verify_count;
}

/* Refuses options for which there is no exact mean, or that need the model to be written. */
int flmem_verified_check_options(const struct flmem_exchange_serve_options *options,
				 struct flmem_error *err);

/* FLMEM_EUSAGE if a generated update would not fit the model, which must have been read. */
int flmem_verified_check_models(struct flmem_exchange *x, struct flmem_error *err);

/* Returns the name of a client's generated update; NULL if none was named. */
const char *flmem_verified_model(const struct flmem_exchange *x, const char *client);

/*
 * Returns false, after it answered, for an update that could not be compared. Called with x->lock
 * held.
 */
bool flmem_verified_admits(const struct flmem_exchange *x, struct flmem_http_request *request,
			   const struct flmem_upload_record *record);

/* Stores for a later start that all elements are right. */
int flmem_verified_keep(struct flmem_exchange *x, uint64_t elements, struct flmem_error *err);

/* Loads what an earlier server has stored. */
int flmem_verified_load(struct flmem_exchange *x, struct flmem_error *err);

#endif
