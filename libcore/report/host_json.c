/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/report.h>

#include "report/json_build.h"

static void add_libc(cJSON *object, const struct flmem_host_report *host)
{
	cJSON *libc = cJSON_AddObjectToObject(object, "libc");

	flmem_json_add_text(libc, "name", host->libc);
	flmem_json_add_text(libc, "version", host->libc_version);
}

static void add_numbers(cJSON *object, cJSON *unknown, const struct flmem_host_report *host)
{
	flmem_json_add_value(object, unknown, "page_bytes", host->page_bytes);
	flmem_json_add_value(object, unknown, "memory_total_bytes", host->memory_total_bytes);
	flmem_json_add_value(object, unknown, "memory_available_bytes",
			     host->memory_available_bytes);
	flmem_json_add_value(object, unknown, "swap_total_bytes", host->swap_total_bytes);
	flmem_json_add_value(object, unknown, "swap_free_bytes", host->swap_free_bytes);
	flmem_json_add_value(object, unknown, "cgroup_max_bytes", host->cgroup_max_bytes);
	flmem_json_add_value(object, unknown, "cgroup_used_bytes", host->cgroup_used_bytes);
}

static void add_permission(cJSON *object, const char *name,
			   const struct flmem_permission *permission)
{
	cJSON *row = cJSON_AddObjectToObject(object, name);

	cJSON_AddBoolToObject(row, "allowed", permission->allowed);
	flmem_json_add_text(row, "reason", permission->why);
	flmem_json_add_text(row, "remedy", permission->remedy);
}

static void add_trim(cJSON *object, const struct flmem_host_report *host)
{
	cJSON *trim = cJSON_AddObjectToObject(object, "trim");

	if (host->yama_level < 0)
		cJSON_AddNullToObject(trim, "yama_level");
	else
		cJSON_AddNumberToObject(trim, "yama_level", host->yama_level);
	add_permission(trim, "own_processes", &host->trim_own);
	add_permission(trim, "other_users", &host->trim_others);
}

static void add_installed(cJSON *object, const struct flmem_host_report *host)
{
	cJSON *list = cJSON_AddArrayToObject(object, "installed_allocators");

	for (size_t i = 0; i < host->installed_count; i++) {
		cJSON *row = cJSON_CreateObject();

		cJSON_AddStringToObject(row, "name", flmem_allocator_name(host->installed[i].kind));
		flmem_json_add_text(row, "path", host->installed[i].path);
		cJSON_AddItemToArray(list, row);
	}
}

static const char *name_mig(enum flmem_mig mig)
{
#define MIG_NAME(name, text) [FLMEM_MIG_##name] = (text),
	static const char *const names[] = {FLMEM_MIG_MODES(MIG_NAME)};
#undef MIG_NAME

	return names[mig];
}

static void add_gpus(cJSON *object, cJSON *unknown, const struct flmem_host_report *host)
{
	cJSON *list;

	flmem_json_add_text(object, "gpu_driver", host->gpu_driver);
	flmem_json_add_text(object, "cuda_driver", host->cuda_driver);
	flmem_json_add_text(object, "cuda_runtime", host->cuda_runtime);
	if (host->cuda_runtime_unknown)
		flmem_json_add_text(unknown, "cuda_runtime", host->cuda_runtime_unknown);
	if (host->gpu_unknown) {
		cJSON_AddNullToObject(object, "gpus");
		flmem_json_add_text(unknown, "gpus", host->gpu_unknown);
		return;
	}
	list = cJSON_AddArrayToObject(object, "gpus");
	for (size_t i = 0; i < host->gpu_count; i++) {
		cJSON *row = cJSON_CreateObject(), *row_unknown = cJSON_CreateObject();

		flmem_json_add_text(row, "name", host->gpus[i].name);
		flmem_json_add_value(row, row_unknown, "total_bytes", host->gpus[i].total_bytes);
		flmem_json_add_value(row, row_unknown, "used_bytes", host->gpus[i].used_bytes);
		flmem_json_add_value(row, row_unknown, "free_bytes", host->gpus[i].free_bytes);
		flmem_json_add_text(row, "mig", name_mig(host->gpus[i].mig));
		flmem_json_add_value(row, row_unknown, "mig_instances",
				     host->gpus[i].mig_instances);
		cJSON_AddItemToObject(row, "unknown", row_unknown);
		cJSON_AddItemToArray(list, row);
	}
}

static void add_features(cJSON *object, const struct flmem_host_report *host)
{
	cJSON *list = cJSON_AddArrayToObject(object, "features");

	for (size_t i = 0; i < host->feature_count; i++) {
		cJSON *row = cJSON_CreateObject();

		cJSON_AddStringToObject(row, "name", host->features[i].name);
		cJSON_AddBoolToObject(row, "works", host->features[i].works);
		flmem_json_add_text(row, "reason", host->features[i].why);
		cJSON_AddItemToArray(list, row);
	}
}

char *flmem_report_host_json(const struct flmem_host_report *host)
{
	cJSON *root = flmem_json_report("detect");
	cJSON *object = cJSON_AddObjectToObject(root, "host");
	cJSON *unknown = cJSON_CreateObject();

	add_libc(object, host);
	flmem_json_add_text(object, "kernel", host->kernel);
	flmem_json_add_text(object, "architecture", host->architecture);
	flmem_json_add_text(object, "thp_mode", host->thp_mode);
	add_numbers(object, unknown, host);
	add_trim(object, host);
	add_installed(object, host);
	add_gpus(object, unknown, host);
	add_features(object, host);
	cJSON_AddItemToObject(object, "unknown", unknown);
	return flmem_json_take(root);
}
