/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/heap_report.h>

#include "report/heap_json.h"

static void add_findings(cJSON *row, const struct flmem_heap_profile *profile,
			 const struct flmem_heap_analysis *analysis)
{
	cJSON *list = cJSON_AddArrayToObject(row, "findings");

	for (size_t i = 0; i < analysis->finding_count; i++) {
		const struct flmem_heap_finding *finding = &analysis->findings[i];
		cJSON *item = cJSON_CreateObject(), *unknown = cJSON_CreateObject();

		cJSON_AddItemToArray(list, item);
		cJSON_AddStringToObject(item, "kind", flmem_heap_finding_name(finding->kind));
		flmem_json_add_heap_frame(item, "frame",
					  flmem_json_heap_frame(profile, finding->frame));
		flmem_json_add_heap_own_frame(item, unknown,
					      flmem_json_heap_frame(profile, finding->own_frame));
		flmem_json_add_u64(item, "bytes", finding->bytes);
		flmem_json_add_real(item, "of_peak", finding->share);
		flmem_json_add_real(item, "confidence", finding->confidence);
		cJSON_AddItemToObject(item, "unknown", unknown);
	}
}

static void add_changes(cJSON *row, const struct flmem_heap_folder *folder, size_t index,
			enum flmem_heap_measure measure,
			const struct flmem_heap_comparison *comparison, size_t limit)
{
	const struct flmem_heap_profile *const pair[2] = {folder->profiles[folder->baseline],
							  folder->profiles[index]};
	cJSON *list = cJSON_AddArrayToObject(row, "changes");

	for (size_t i = 0; i < comparison->count && i < limit; i++)
		cJSON_AddItemToArray(
			list, flmem_json_heap_difference(pair, measure, &comparison->rows[i]));
}

char *flmem_report_heap_analyze_json(const struct flmem_heap_folder *folder,
				     enum flmem_heap_measure measure,
				     const struct flmem_heap_analysis *analyses, size_t limit)
{
	cJSON *root = flmem_json_report("profile-analyze"), *list;

	cJSON_AddStringToObject(root, "measure", flmem_heap_measure_name(measure));
	flmem_json_add_u64(root, "baseline", folder->baseline);
	list = cJSON_AddArrayToObject(root, "profiles");
	for (size_t i = 0; i < folder->count; i++) {
		cJSON *row = cJSON_CreateObject();

		cJSON_AddItemToArray(list, row);
		flmem_json_add_heap_profile(row, "profile", folder->profiles[i]);
		flmem_json_add_heap_amounts(row, "total", folder->profiles[i],
					    &folder->profiles[i]->totals);
		flmem_json_add_text(row, "too_few", flmem_heap_leaks_too_few(folder->profiles[i]));
		add_findings(row, folder->profiles[i], &analyses[i]);
		add_changes(row, folder, i, measure, &analyses[i].comparison, limit);
	}
	list = cJSON_AddArrayToObject(root, "unread");
	for (size_t i = 0; i < folder->unread_count; i++) {
		cJSON *row = cJSON_CreateObject();

		cJSON_AddItemToArray(list, row);
		flmem_json_add_text(row, "name", folder->unread[i].name);
		flmem_json_add_text(row, "reason", folder->unread[i].reason);
	}
	return flmem_json_take(root);
}
