/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/report.h>

#include "base/text.h"
#include "report/json.h"

/* Values are kept exact, control characters as JSON escapes; only what is not UTF-8 is altered. */
static void add_exact(cJSON *object, const char *name, const char *text)
{
	if (text && flmem_text_is_utf8(text))
		cJSON_AddStringToObject(object, name, text);
	else
		flmem_json_add_text(object, name, text);
}

static void add_setting(cJSON *list, const struct flmem_setting *setting)
{
	cJSON *row = cJSON_CreateObject();

	cJSON_AddItemToArray(list, row);
	cJSON_AddStringToObject(row, "name", setting->name);
	add_exact(row, "value", setting->value);
	cJSON_AddStringToObject(row, "origin", flmem_setting_origin_name(setting->origin));
	cJSON_AddStringToObject(row, "reason", setting->reason);
	cJSON_AddStringToObject(row, "source", setting->source);
	if (setting->where)
		cJSON_AddStringToObject(row, "where", setting->where);
	if (setting->note)
		cJSON_AddStringToObject(row, "note", setting->note);
}

char *flmem_report_settings_json(const struct flmem_settings *settings)
{
	cJSON *root = flmem_json_report("env");
	cJSON *environment, *rows, *job, *omitted;

	flmem_json_add_text(root, "role", flmem_role_name(settings->role));
	flmem_json_add_text(root, "framework", flmem_framework_name(settings->framework));
	flmem_json_add_text(root, "allocator", flmem_allocator_name(settings->allocator));
	add_exact(root, "jemalloc_library", settings->jemalloc_library);
	environment = cJSON_AddObjectToObject(root, "environment");
	rows = cJSON_AddArrayToObject(root, "settings");
	job = cJSON_AddArrayToObject(root, "job_settings");
	omitted = cJSON_AddArrayToObject(root, "omitted");
	for (size_t i = 0; i < settings->count; i++) {
		const struct flmem_setting *setting = &settings->rows[i];

		if (setting->origin == FLMEM_SETTING_OMITTED) {
			add_setting(omitted, setting);
		} else if (setting->where) {
			add_setting(job, setting);
		} else {
			add_exact(environment, setting->name, setting->value);
			add_setting(rows, setting);
		}
	}
	return flmem_json_take(root);
}
