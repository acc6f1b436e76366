/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include <flmem/report.h>

#include "report/json_build.h"

/* Adds the checksum; null if it was not computed. */
static void add_crc32c(cJSON *row, bool known, uint32_t crc32c)
{
	char digits[16];

	snprintf(digits, sizeof(digits), "%08" PRIx32, crc32c);
	flmem_json_add_text(row, "crc32c", known ? digits : NULL);
}

/* Adds the statistics; numbers that are NaN become null. */
static void add_statistics(cJSON *row, const struct flmem_inspected_tensor *tensor)
{
	const struct flmem_tensor_statistics *s = &tensor->statistics;
	cJSON *object;

	flmem_json_add_text(row, "no_statistics", tensor->no_statistics);
	if (tensor->no_statistics) {
		cJSON_AddNullToObject(row, "statistics");
		return;
	}
	object = cJSON_AddObjectToObject(row, "statistics");
	flmem_json_add_real(object, "min", s->min);
	flmem_json_add_real(object, "max", s->max);
	flmem_json_add_real(object, "mean", s->mean);
	flmem_json_add_real(object, "norm", s->norm);
	flmem_json_add_u64(object, "nans", s->nans);
	flmem_json_add_u64(object, "infinities", s->infinities);
}

static void add_inspected_tensor(cJSON *list, const struct flmem_inspection *inspection,
				 const struct flmem_inspected_tensor *tensor)
{
	cJSON *row = cJSON_CreateObject(), *shape;
	cJSON_AddItemToArray(list, row);

	flmem_json_add_name(row, "name", tensor->name);
	cJSON_AddStringToObject(row, "dtype", tensor->dtype);
	shape = cJSON_AddArrayToObject(row, "shape");
	for (size_t i = 0; i < tensor->rank; i++) {
		char digits[24];

		snprintf(digits, sizeof(digits), "%" PRIu64, tensor->shape[i]);
		cJSON_AddItemToArray(shape, cJSON_CreateRaw(digits));
	}
	flmem_json_add_u64(row, "elements", tensor->elements);
	flmem_json_add_u64(row, "size_bytes", tensor->bytes);
	flmem_json_add_u64(row, "file_index", tensor->file);
	add_crc32c(row, inspection->has_data, tensor->crc32c);
	add_statistics(row, tensor);
}

static void add_inspection(cJSON *list, const struct flmem_inspection *inspection)
{
	cJSON *row = cJSON_CreateObject(), *unknown = cJSON_CreateObject(), *files, *tensors;
	size_t count = inspection->tensors ? (size_t)inspection->tensor_count.value : 0;

	cJSON_AddItemToArray(list, row);
	flmem_json_add_name(row, "path", inspection->path);
	cJSON_AddStringToObject(row, "format", inspection->format);
	flmem_json_add_value(row, unknown, "tensor_count", inspection->tensor_count);
	flmem_json_add_value(row, unknown, "parameters", inspection->parameters);
	flmem_json_add_u64(row, "size_bytes", inspection->bytes);
	flmem_json_add_text(row, "unlisted", inspection->unlisted);
	files = cJSON_AddArrayToObject(row, "files");
	for (size_t i = 0; i < inspection->file_count; i++) {
		cJSON *file = cJSON_CreateObject();

		cJSON_AddItemToArray(files, file);
		flmem_json_add_name(file, "path", inspection->files[i].path);
		flmem_json_add_u64(file, "size_bytes", inspection->files[i].bytes);
		add_crc32c(file, inspection->has_data, inspection->files[i].crc32c);
	}
	tensors = cJSON_AddArrayToObject(row, "tensors");
	for (size_t i = 0; i < count; i++)
		add_inspected_tensor(tensors, inspection, &inspection->tensors[i]);
	cJSON_AddItemToObject(row, "unknown", unknown);
}

char *flmem_report_inspect_json(const struct flmem_inspection *inspections, size_t count)
{
	cJSON *root = flmem_json_report("aggregate-inspect");
	cJSON *list = cJSON_AddArrayToObject(root, "models");

	for (size_t i = 0; i < count; i++)
		add_inspection(list, &inspections[i]);
	return flmem_json_take(root);
}
