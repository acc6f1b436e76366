/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_VERIFIED_ROUND_H
#define FLMEM_OPS_EXCHANGE_VERIFIED_ROUND_H

/*
 * A round in lockstep whose result is compared and not written: the operator names the generator of
 * each client's update. Nothing of it is journalled, so a server that was killed compares all
 * again; the directory of the round has a file once that is done.
 */

#include "ops/exchange/server/server_state.h"

static inline bool flmem_exchange_verifies(const struct flmem_exchange *x)
{
	return x->options->verify_count;
}

/* Refuses what has no exact mean, or needs the model. */
int flmem_verified_check_options(const struct flmem_exchange_serve_options *options,
				 struct flmem_error *err);

/* FLMEM_EUSAGE if a generated update would not fit the model. After that was read. */
int flmem_verified_check_models(struct flmem_exchange *x, struct flmem_error *err);

/* The generated update of a client; NULL if none was named. */
const char *flmem_verified_model(const struct flmem_exchange *x, const char *client);

/* False, after an answer, for an update that could not be compared. With the lock. */
bool flmem_verified_admits(const struct flmem_exchange *x, struct flmem_http_request *request,
			   const struct flmem_upload_record *record);

/* All elements are right: keeps that for a later start. */
int flmem_verified_keep(struct flmem_exchange *x, uint64_t elements, struct flmem_error *err);

/* What an earlier server has kept. */
int flmem_verified_load(struct flmem_exchange *x, struct flmem_error *err);

#endif
