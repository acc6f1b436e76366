/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <flmem/report.h>

#include "base/cleanup.h"
#include "base/text/url.h"
#include "report/json_build.h"

/* Adds a number, "infinite", or null where elements were not compared. */
static void add_distance(cJSON *row, const char *name, double distance)
{
	if (isinf(distance))
		cJSON_AddStringToObject(row, name, "infinite");
	else
		flmem_json_add_real(row, name, distance);
}

static void add_shapes(cJSON *row, const struct flmem_compared_tensor *tensor)
{
	cJSON *list = cJSON_AddArrayToObject(row, "shapes");

	for (size_t i = 0; i < 2; i++)
		cJSON_AddItemToArray(list, tensor->shapes[i] ? cJSON_Parse(tensor->shapes[i])
							     : cJSON_CreateNull());
}

static void add_compared_tensor(cJSON *list, const struct flmem_compared_tensor *tensor)
{
	cJSON *row = cJSON_CreateObject(), *dtypes;

	cJSON_AddItemToArray(list, row);
	flmem_json_add_name(row, "name", tensor->name);
	cJSON_AddStringToObject(row, "difference", tensor->difference);
	dtypes = cJSON_AddArrayToObject(row, "dtypes");
	for (size_t i = 0; i < 2; i++)
		cJSON_AddItemToArray(dtypes, tensor->dtypes[i]
						     ? cJSON_CreateString(tensor->dtypes[i])
						     : cJSON_CreateNull());
	add_shapes(row, tensor);
	flmem_json_add_u64(row, "differing", tensor->differing);
	add_distance(row, "absolute", tensor->absolute);
	add_distance(row, "relative", tensor->relative);
	if (isnan(tensor->absolute) || !tensor->differing)
		cJSON_AddNullToObject(row, "element_index");
	else
		flmem_json_add_u64(row, "element_index", tensor->at);
	cJSON_AddBoolToObject(row, "exceeds", tensor->exceeds);
}

/* Adds a path; an address loses its query, which may have a signature. */
static void add_compared_path(cJSON *root, const char *name, const char *path)
{
	FLMEM_AUTO_FREE char *shown = flmem_url_show(path);

	flmem_json_add_name(root, name, shown);
}

char *flmem_report_compare_json(const struct flmem_compare_request *request,
				const struct flmem_comparison *comparison)
{
	cJSON *root = flmem_json_report("aggregate-diff"), *list;

	add_compared_path(root, "first", request->paths[0]);
	add_compared_path(root, "second", request->paths[1]);
	flmem_json_add_real(root, "tolerance", request->tolerance);
	flmem_json_add_u64(root, "tensors", comparison->tensors);
	flmem_json_add_u64(root, "exceeding", comparison->exceeding);
	list = cJSON_AddArrayToObject(root, "differing");
	for (size_t i = 0; i < comparison->differing_count; i++)
		add_compared_tensor(list, &comparison->differing[i]);
	return flmem_json_take(root);
}
