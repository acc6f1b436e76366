/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/report.h>

#include "report/json_build.h"

static void add_model(cJSON *root, const struct flmem_model *model)
{
	cJSON *row = cJSON_AddObjectToObject(root, "model"), *unknown = cJSON_CreateObject();

	flmem_json_add_text(row, "name", model->name);
	flmem_json_add_text(row, "dtype", model->dtype);
	flmem_json_add_u64(row, "model_bytes", model->bytes);
	flmem_json_add_value(row, unknown, "parameters", model->parameters);
	flmem_json_add_value(row, unknown, "tensors", model->tensors);
	flmem_json_add_value(row, unknown, "largest_tensor_bytes", model->largest_bytes);
	cJSON_AddItemToObject(row, "unknown", unknown);
}

static void add_strategy(cJSON *list, const struct flmem_plan_strategy *strategy)
{
	cJSON *row = cJSON_CreateObject(), *unknown = cJSON_CreateObject(), *steps;

	cJSON_AddItemToArray(list, row);
	cJSON_AddStringToObject(row, "name", strategy->name);
	cJSON_AddStringToObject(row, "summary", strategy->summary);
	cJSON_AddBoolToObject(row, "fits", strategy->fits);
	flmem_json_add_u64(row, "server_peak_bytes", strategy->server_peak_bytes);
	flmem_json_add_u64(row, "client_peak_bytes", strategy->client_peak_bytes);
	flmem_json_add_u64(row, "server_disk_bytes", strategy->server_disk_bytes);
	flmem_json_add_value(row, unknown, "simulator_bytes", strategy->simulator_bytes);
	flmem_json_add_value(row, unknown, "chunk_bytes", strategy->chunk_bytes);
	flmem_json_add_value(row, unknown, "message_bytes", strategy->message_bytes);
	steps = cJSON_AddArrayToObject(row, "steps");
	for (size_t i = 0; i < strategy->step_count; i++) {
		cJSON *step = cJSON_CreateObject();

		cJSON_AddItemToArray(steps, step);
		cJSON_AddStringToObject(step, "role", flmem_role_name(strategy->steps[i].role));
		cJSON_AddStringToObject(step, "name", strategy->steps[i].name);
		cJSON_AddStringToObject(step, "contents", strategy->steps[i].contents);
		flmem_json_add_u64(step, "memory_bytes", strategy->steps[i].bytes);
	}
	cJSON_AddItemToObject(row, "unknown", unknown);
}

char *flmem_report_plan_json(const struct flmem_plan_request *request,
			     const struct flmem_plan *plan)
{
	cJSON *root = flmem_json_report("recommend"), *unknown = cJSON_CreateObject(), *list;

	add_model(root, request->model);
	cJSON_AddStringToObject(root, "framework", flmem_framework_name(request->framework));
	flmem_json_add_u64(root, "clients", request->clients);
	flmem_json_add_value(root, unknown, "node_memory_bytes",
			     request->node_bytes ? FLMEM_KNOWN(request->node_bytes)
						 : FLMEM_UNKNOWN("not given"));
	flmem_json_add_u64(root, "runtime_bytes", plan->runtime_bytes);
	list = cJSON_AddArrayToObject(root, "strategies");
	for (size_t i = 0; i < plan->strategy_count; i++)
		add_strategy(list, &plan->strategies[i]);
	cJSON_AddStringToObject(root, "chosen", plan->strategies[plan->chosen].name);
	list = cJSON_AddArrayToObject(root, "configuration");
	for (size_t i = 0; i < plan->text_count; i++) {
		cJSON *row = cJSON_CreateObject();

		cJSON_AddItemToArray(list, row);
		cJSON_AddStringToObject(row, "where", plan->texts[i].where);
		cJSON_AddStringToObject(row, "text", plan->texts[i].text);
	}
	flmem_json_add_text(root, "caveat", plan->caveat);
	flmem_json_add_text(root, "not_counted", plan->beside);
	cJSON_AddItemToObject(root, "unknown", unknown);
	return flmem_json_take(root);
}
