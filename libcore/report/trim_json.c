/* SPDX-License-Identifier: Apache-2.0 */
#include "report/trim_json.h"

#include <flmem/report.h>

#include <stdio.h>
#include <string.h>

#include "report/json_build.h"

static void add_step_thread(cJSON *row, const struct flmem_trim_step *step)
{
	if (step->thread)
		cJSON_AddNumberToObject(row, "thread", step->thread);
	else
		cJSON_AddNullToObject(row, "thread");
	flmem_json_add_text(row, "thread_state", step->thread_state[0] ? step->thread_state : NULL);
}

static void add_steps(cJSON *object, const struct flmem_trim_result *result)
{
	cJSON *steps = cJSON_AddArrayToObject(object, "steps");

	for (size_t i = 0; i < result->step_count; i++) {
		const struct flmem_trim_step *step = &result->steps[i];
		cJSON *row = cJSON_CreateObject(), *unknown = cJSON_CreateObject();

		cJSON_AddStringToObject(row, "name", step->name);
		cJSON_AddStringToObject(row, "outcome", flmem_trim_outcome_name(step->outcome));
		flmem_json_add_value(row, unknown, "took_us", step->took_us);
		flmem_json_add_value(row, unknown, "released_bytes", step->released_bytes);
		flmem_json_add_value(row, unknown, "stopped_us", step->stopped_us);
		flmem_json_add_text(row, "entry_point", step->entry);
		add_step_thread(row, step);
		flmem_json_add_text(row, "detail", step->detail[0] ? step->detail : NULL);
		cJSON_AddItemToObject(row, "unknown", unknown);
		cJSON_AddItemToArray(steps, row);
	}
}

static void add_thread_json(cJSON *object, const struct flmem_trim_result *result)
{
	if (!result->thread) {
		cJSON_AddNullToObject(object, "thread");
		cJSON_AddNullToObject(object, "thread_state");
		return;
	}
	cJSON_AddNumberToObject(object, "thread", result->thread);
	flmem_json_add_text(object, "thread_state",
			    result->thread_state[0] ? result->thread_state : NULL);
}

/* Adds one string per line; control characters within a line are escaped as in all foreign text. */
static void add_output(cJSON *object, const char *output)
{
	cJSON *lines = cJSON_AddArrayToObject(object, "output");
	char line[FLMEM_TRIM_OUTPUT_MAX + 1];

	while (*output) {
		size_t length = strcspn(output, "\n");

		snprintf(line, sizeof(line), "%.*s", (int)length, output);
		flmem_json_append_text(lines, line);
		output += length + (output[length] == '\n');
	}
}

cJSON *flmem_json_trim_result(const struct flmem_trim_result *result)
{
	cJSON *object = cJSON_CreateObject(), *unknown = cJSON_CreateObject();

	cJSON_AddNumberToObject(object, "pid", result->pid);
	flmem_json_add_u64(object, "start_time_ticks", result->start_time);
	cJSON_AddStringToObject(object, "outcome", flmem_trim_outcome_name(result->outcome));
	flmem_json_add_text(object, "reason", result->reason[0] ? result->reason : NULL);
	flmem_json_add_text(object, "note", result->note[0] ? result->note : NULL);
	cJSON_AddNumberToObject(object, "exit_status", flmem_code_exit_status(result->code));
	flmem_json_add_value(object, unknown, "rss_before_bytes", result->rss_before_bytes);
	flmem_json_add_value(object, unknown, "rss_after_bytes", result->rss_after_bytes);
	flmem_json_add_value(object, unknown, "released_bytes", result->released_bytes);
	flmem_json_add_value(object, unknown, "returned_bytes", result->returned_bytes);
	flmem_json_add_value(object, unknown, "taken_bytes", result->taken_bytes);
	flmem_json_add_value(object, unknown, "predicted_bytes", result->predicted_bytes);
	add_steps(object, result);
	flmem_json_add_value(object, unknown, "stopped_us", result->stopped_us);
	flmem_json_add_value(object, unknown, "overhead_us", result->overhead_us);
	add_thread_json(object, result);
	add_output(object, result->output);
	cJSON_AddItemToObject(object, "unknown", unknown);
	return object;
}

char *flmem_report_trim_json(const struct flmem_trim_result *results, size_t count)
{
	cJSON *root = flmem_json_report("trim");
	cJSON *array = cJSON_AddArrayToObject(root, "results");

	for (size_t i = 0; i < count; i++)
		cJSON_AddItemToArray(array, flmem_json_trim_result(&results[i]));
	return flmem_json_take(root);
}
