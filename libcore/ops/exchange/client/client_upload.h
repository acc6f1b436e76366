/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_CLIENT_UPLOAD_H
#define FLMEM_EXCHANGE_CLIENT_UPLOAD_H

/* The steps of a push that send no data. */

#include <flmem/error.h>
#include <flmem/exchange_client.h>

#include "ops/exchange/client/client.h"

int flmem_push_check(const struct flmem_exchange_push_request *request, struct flmem_error *err);

/* Finds the round of a push. If the request has none, the call waits until a round is collected. */
int flmem_push_choose_round(struct flmem_exchange_client *client,
			    const struct flmem_exchange_push_request *request,
			    struct flmem_exchange_status *ret_status, struct flmem_error *err);

/* Deletes an unfinished upload; one that no longer exists is not a failure. */
int flmem_push_delete(struct flmem_exchange_client *client, const char *url,
		      struct flmem_connection_answer *answer, struct flmem_error *err);

#endif
