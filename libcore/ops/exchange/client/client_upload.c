/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/client/client_upload.h"

#include <string.h>

#include <flmem/text.h>

#include "base/clock.h"
#include "exchange/metadata.h"
#include "exchange/valid_names.h"
#include "exchange/wire.h"

int flmem_push_check(const struct flmem_exchange_push_request *request, struct flmem_error *err)
{
	char shown[FLMEM_EXCHANGE_REASON_MAX];
	double weight;

	if (request->client && !flmem_exchange_client_name_is_valid(request->client))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is not a name for a client; expected at most %u of "
				       "the characters A-Z a-z 0-9 . _ -",
				       flmem_text_escape(request->client, shown, sizeof(shown)),
				       FLMEM_EXCHANGE_NAME_MAX);
	if (!request->weight)
		return 0;
	if (strlen(request->weight) >= FLMEM_EXCHANGE_NAME_MAX ||
	    !flmem_exchange_weight_parse(request->weight, &weight))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "invalid weight '%.60s'; expected " FLMEM_EXCHANGE_WEIGHTS
				       ", for example 1, 600 or 0.5",
				       flmem_text_escape(request->weight, shown, sizeof(shown)));
	return 0;
}

int flmem_push_choose_round(struct flmem_exchange_client *client,
			    const struct flmem_exchange_push_request *request,
			    struct flmem_exchange_status *ret_status, struct flmem_error *err)
{
	int rc = flmem_exchange_client_state(client, NULL, 0, ret_status, err);

	while (!rc && !request->has_round && ret_status->phase == FLMEM_EXCHANGE_COMBINING) {
		uint64_t after = ret_status->published_round;

		flmem_clock_sleep_us(100000);
		rc = flmem_exchange_client_state(client, &after, FLMEM_EXCHANGE_WAIT_MAX,
						 ret_status, err);
	}
	if (rc)
		return rc;
	if (ret_status->phase == FLMEM_EXCHANGE_FAILED)
		return flmem_error_set(err, FLMEM_EFAILED, 0, "the exchange of '%s' failed%s%s",
				       client->name, ret_status->reason[0] ? ": " : "",
				       ret_status->reason);
	if (ret_status->phase == FLMEM_EXCHANGE_DONE && !request->has_round)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "the exchange of '%s' is over: its last model is that of "
				       "round %llu",
				       client->name,
				       (unsigned long long)ret_status->published_round);
	return 0;
}

int flmem_push_delete(struct flmem_exchange_client *client, const char *url,
		      struct flmem_connection_answer *answer, struct flmem_error *err)
{
	static const char *const headers[] = {FLMEM_TUS_RESUMABLE ": " FLMEM_TUS_VERSION, NULL};
	const struct flmem_connection_request request = {
		.method = "DELETE",
		.url = url,
		.name = client->name,
		.headers = headers,
		.answer_max = FLMEM_EXCHANGE_ANSWER_MAX,
	};
	const struct flmem_reply *reply = &answer->reply;
	int rc;

	do {
		rc = flmem_exchange_client_ask(client, &request, answer, err);
		if (rc || reply->status == 200 || reply->status == 204 || reply->status == 404 ||
		    reply->status == 410)
			return rc;
		rc = flmem_exchange_client_refused(client, "the upload is not replaced", answer,
						   err);
		if (reply->status == 423)
			rc = flmem_exchange_client_pause(client, answer, err);
	} while (!rc);
	return rc;
}
