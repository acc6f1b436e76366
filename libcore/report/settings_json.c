/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/report.h>

#include "base/text/text.h"
#include "report/json_build.h"

/* Adds an exact value; control characters are JSON escapes, and only invalid UTF-8 is altered. */
static void add_exact(cJSON *object, const char *name, const char *text)
{
	if (text && flmem_text_is_utf8(text))
		cJSON_AddStringToObject(object, name, text);
	else
		flmem_json_add_text(object, name, text);
}

static void add_word_json(cJSON *list, const char *word)
{
	cJSON *holder = cJSON_CreateObject();

	add_exact(holder, "word", word);
	cJSON_AddItemToArray(list, cJSON_DetachItemFromObject(holder, "word"));
	cJSON_Delete(holder);
}

static void add_setting_json(cJSON *list, const struct flmem_setting *setting)
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

static void add_settings(cJSON *root, const struct flmem_settings *settings)
{
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
			add_setting_json(omitted, setting);
		} else if (setting->where) {
			add_setting_json(job, setting);
		} else {
			add_exact(environment, setting->name, setting->value);
			add_setting_json(rows, setting);
		}
	}
}

char *flmem_report_settings_json(const struct flmem_settings *settings)
{
	cJSON *root = flmem_json_report("env");

	add_settings(root, settings);
	return flmem_json_take(root);
}

char *flmem_report_start_json(const struct flmem_settings *settings, char *const *argv,
			      const struct flmem_preload_proof *proof)
{
	cJSON *root = flmem_json_report("start");
	cJSON *words = cJSON_AddArrayToObject(root, "command"), *object;

	for (char *const *a = argv; *a; a++)
		add_word_json(words, *a);
	add_settings(root, settings);
	if (!proof) {
		cJSON_AddNullToObject(root, "probe");
		return flmem_json_take(root);
	}
	object = cJSON_AddObjectToObject(root, "probe");
	flmem_json_add_text(object, "program", proof->program);
	cJSON_AddBoolToObject(object, "is_shell", proof->is_shell);
	flmem_json_add_text(object, "library", proof->library);
	add_exact(object, "stderr", proof->stderr_text);
	flmem_json_add_u64(object, "took_us", proof->took_us);
	return flmem_json_take(root);
}

char *flmem_report_role_json(const struct flmem_settings *settings)
{
	cJSON *root = flmem_json_report("recommend"), *rows;

	flmem_json_add_text(root, "role", flmem_role_name(settings->role));
	rows = cJSON_AddArrayToObject(root, "settings");
	for (size_t i = 0; i < settings->count; i++)
		if (settings->rows[i].origin != FLMEM_SETTING_OMITTED)
			add_setting_json(rows, &settings->rows[i]);
	return flmem_json_take(root);
}
