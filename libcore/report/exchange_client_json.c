/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/report.h>

#include "report/json_build.h"

static void add_state(cJSON *object, const struct flmem_exchange_status *status)
{
	cJSON *clients = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "phase", flmem_exchange_phase_name(status->phase));
	flmem_json_add_u64(object, "round", status->round);
	flmem_json_add_u64(object, "rounds", status->rounds);
	flmem_json_add_u64(object, "published_round", status->published_round);
	flmem_json_add_u64(clients, "expected", status->clients_expected);
	flmem_json_add_u64(clients, "quorum", status->clients_quorum);
	flmem_json_add_u64(clients, "complete", status->clients_complete);
	cJSON_AddItemToObject(object, "clients", clients);
	if (status->has_deadline)
		flmem_json_add_u64(object, "deadline_s", status->deadline_s);
	flmem_json_add_u64(object, "chunk_bytes", status->chunk_bytes);
	if (status->has_request_limit)
		flmem_json_add_u64(object, "max_request_bytes", status->max_request_bytes);
	if (status->reason[0])
		flmem_json_add_text(object, "reason", status->reason);
}

char *flmem_report_exchange_status_json(const struct flmem_exchange_status *status)
{
	cJSON *root = flmem_json_report("exchange-status");

	add_state(root, status);
	return flmem_json_take(root);
}

char *flmem_report_exchange_wait_json(const struct flmem_exchange_status *status)
{
	cJSON *root = flmem_json_report("exchange-wait");

	add_state(root, status);
	return flmem_json_take(root);
}

char *flmem_report_exchange_push_json(const struct flmem_exchange_push_result *result)
{
	cJSON *root = flmem_json_report("exchange-push");

	flmem_json_add_u64(root, "round", result->round);
	flmem_json_add_u64(root, "files", result->files);
	flmem_json_add_u64(root, "model_bytes", result->bytes);
	flmem_json_add_u64(root, "sent_bytes", result->sent_bytes);
	flmem_json_add_u64(root, "resumed_bytes", result->resumed_bytes);
	flmem_json_add_u64(root, "chunk_bytes", result->chunk_bytes);
	flmem_json_add_u64(root, "retries", result->retries);
	flmem_json_add_u64(root, "took_us", result->took_us);
	return flmem_json_take(root);
}

char *flmem_report_exchange_pull_json(const struct flmem_exchange_pull_request *request,
				      const struct flmem_exchange_pull_result *result)
{
	cJSON *root = flmem_json_report("exchange-pull");

	flmem_json_add_name(root, "output", request->output);
	flmem_json_add_u64(root, "round", result->round);
	flmem_json_add_u64(root, "files", result->files);
	flmem_json_add_u64(root, "model_bytes", result->bytes);
	flmem_json_add_u64(root, "resumed_bytes", result->resumed_bytes);
	flmem_json_add_u64(root, "retries", result->retries);
	flmem_json_add_u64(root, "took_us", result->took_us);
	return flmem_json_take(root);
}
