/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/report.h>

#include "report/json.h"

static void add_steps(cJSON *object, const struct flmem_trim_result *result)
{
	cJSON *steps = cJSON_AddArrayToObject(object, "steps");

	for (size_t i = 0; i < result->step_count; i++) {
		const struct flmem_trim_step *step = &result->steps[i];
		cJSON *row = cJSON_CreateObject(), *unknown = cJSON_CreateObject();

		cJSON_AddStringToObject(row, "name", step->name);
		cJSON_AddStringToObject(row, "outcome", flmem_trim_outcome_name(step->outcome));
		flmem_json_add_value(row, unknown, "took_us", step->took_us);
		cJSON_AddItemToObject(row, "unknown", unknown);
		cJSON_AddItemToArray(steps, row);
	}
}

static void add_thread(cJSON *object, const struct flmem_trim_result *result)
{
	if (!result->thread) {
		cJSON_AddNullToObject(object, "thread");
		cJSON_AddNullToObject(object, "thread_state");
		return;
	}
	cJSON_AddNumberToObject(object, "thread", result->thread);
	flmem_json_add_text(object, "thread_state", result->thread_state);
}

static cJSON *result_object(const struct flmem_trim_result *result)
{
	cJSON *object = cJSON_CreateObject(), *unknown = cJSON_CreateObject();

	cJSON_AddNumberToObject(object, "pid", result->pid);
	flmem_json_add_u64(object, "start_time", result->start_time);
	cJSON_AddStringToObject(object, "outcome", flmem_trim_outcome_name(result->outcome));
	flmem_json_add_text(object, "reason", result->reason[0] ? result->reason : NULL);
	flmem_json_add_text(object, "note", result->note[0] ? result->note : NULL);
	cJSON_AddNumberToObject(object, "exit_status", flmem_code_exit_status(result->code));
	flmem_json_add_value(object, unknown, "rss_before_bytes", result->rss_before_bytes);
	flmem_json_add_value(object, unknown, "rss_after_bytes", result->rss_after_bytes);
	flmem_json_add_value(object, unknown, "released_bytes", result->released_bytes);
	flmem_json_add_value(object, unknown, "predicted_bytes", result->predicted_bytes);
	add_steps(object, result);
	flmem_json_add_value(object, unknown, "stopped_us", result->stopped_us);
	flmem_json_add_value(object, unknown, "overhead_us", result->overhead_us);
	add_thread(object, result);
	cJSON_AddItemToObject(object, "unknown", unknown);
	return object;
}

char *flmem_report_trim_json(const struct flmem_trim_result *results, size_t count)
{
	cJSON *root = flmem_json_report("trim");
	cJSON *array = cJSON_AddArrayToObject(root, "results");

	for (size_t i = 0; i < count; i++)
		cJSON_AddItemToArray(array, result_object(&results[i]));
	return flmem_json_take(root);
}
