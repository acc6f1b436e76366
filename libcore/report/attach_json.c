/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/report.h>

#include "report/json_build.h"

static void add_attach_entries(cJSON *root, const struct flmem_attach_entries *entries)
{
	cJSON *object = cJSON_AddObjectToObject(root, "entries");

	flmem_json_add_u64(object, "redirected", entries->redirected);
	flmem_json_add_u64(object, "objects", entries->objects);
	flmem_json_add_u64(object, "fixed", entries->fixed);
	flmem_json_add_u64(object, "elsewhere", entries->elsewhere);
	flmem_json_add_u64(object, "unresolved", entries->unresolved);
	flmem_json_add_u64(object, "locked", entries->locked);
	flmem_json_add_u64(object, "still_loading", entries->still_loading);
}

char *flmem_report_attach_json(const char *command, const struct flmem_attach_result *result)
{
	cJSON *root = flmem_json_report(command), *unknown = cJSON_CreateObject();

	cJSON_AddNumberToObject(root, "pid", result->pid);
	cJSON_AddStringToObject(root, "engine", flmem_attach_engine_name(result->engine));
	cJSON_AddNumberToObject(root, "exit_status", flmem_code_exit_status(result->code));
	flmem_json_add_text(root, "reason", result->reason[0] ? result->reason : NULL);
	flmem_json_add_text(root, "profile", result->profile[0] ? result->profile : NULL);
	flmem_json_add_text(root, "channel", flmem_attach_way_name(result->way));
	flmem_json_add_text(root, "no_socket", result->no_socket[0] ? result->no_socket : NULL);
	flmem_json_add_text(root, "entry_point", result->entry);
	if (result->thread)
		cJSON_AddNumberToObject(root, "thread", result->thread);
	else
		cJSON_AddNullToObject(root, "thread");
	flmem_json_add_text(root, "thread_state",
			    result->thread_state[0] ? result->thread_state : NULL);
	flmem_json_add_value(root, unknown, "stopped_us", result->stopped_us);
	flmem_json_add_value(root, unknown, "longest_stop_us", result->longest_stop_us);
	cJSON_AddNumberToObject(root, "stops", result->stops);
	flmem_json_add_value(root, unknown, "took_us", result->took_us);
	cJSON_AddBoolToObject(root, "preloaded", result->preloaded);
	flmem_json_add_text(root, "loaded_by", result->loaded_by);
	cJSON_AddBoolToObject(root, "deleted", result->deleted);
	if (result->engine == FLMEM_ATTACH_SAMPLER)
		add_attach_entries(root, &result->entries);
	else
		cJSON_AddNullToObject(root, "entries");
	cJSON_AddItemToObject(root, "unknown", unknown);
	return flmem_json_take(root);
}
