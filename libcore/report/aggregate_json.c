/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include <flmem/report.h>

#include "report/json_build.h"

static void add_inputs(cJSON *root, const struct flmem_aggregate_result *result)
{
	cJSON *list = cJSON_AddArrayToObject(root, "inputs");

	for (size_t i = 0; i < result->input_count; i++) {
		cJSON *row = cJSON_CreateObject();

		cJSON_AddItemToArray(list, row);
		flmem_json_add_name(row, "path", result->inputs[i].path);
		cJSON_AddNumberToObject(row, "weight", result->inputs[i].weight);
		flmem_json_add_text(row, "skipped", result->inputs[i].skipped);
		flmem_json_add_name(row, "same_as", result->inputs[i].same_as);
	}
}

static char *make_aggregate_json(const char *command, const struct flmem_aggregate_result *result)
{
	cJSON *root = flmem_json_report(command), *unknown = cJSON_CreateObject();
	char digits[16];

	flmem_json_add_name(root, "output", result->output);
	cJSON_AddStringToObject(root, "algorithm", result->algorithm);
	add_inputs(root, result);
	flmem_json_add_u64(root, "tensors", result->tensors);
	flmem_json_add_u64(root, "output_bytes", result->output_bytes);
	flmem_json_add_u64(root, "read_bytes", result->read_bytes);
	flmem_json_add_u64(root, "resumed_bytes", result->resumed_bytes);
	cJSON_AddBoolToObject(root, "restarted", result->restarted);
	flmem_json_add_u64(root, "verified_elements", result->verified_elements);
	flmem_json_add_u64(root, "took_us", result->took_us);
	flmem_json_add_value(root, unknown, "peak_anon_bytes", result->peak_anon_bytes);
	flmem_json_add_u64(root, "chunk_bytes", result->chunk_bytes);
	flmem_json_add_u64(root, "threads", result->threads);
	flmem_json_add_u64(root, "processes", result->processes);
	cJSON_AddStringToObject(root, "kernels", result->kernels);
	snprintf(digits, sizeof(digits), "%08" PRIx32, result->crc32c);
	cJSON_AddStringToObject(root, "crc32c", digits);
	cJSON_AddItemToObject(root, "unknown", unknown);
	return flmem_json_take(root);
}

char *flmem_report_aggregate_json(const struct flmem_aggregate_result *result)
{
	return make_aggregate_json("aggregate", result);
}

char *flmem_report_generate_json(const struct flmem_aggregate_result *result)
{
	return make_aggregate_json("aggregate-generate", result);
}
