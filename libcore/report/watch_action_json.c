/* SPDX-License-Identifier: Apache-2.0 */
#include "report/watch_action_json.h"

#include <flmem/report.h>

#include "report/json_build.h"
#include "report/trim_json.h"

char *flmem_report_watch_action_json(const struct flmem_watch_action *action)
{
	cJSON *root = flmem_json_report("watch"), *unknown = cJSON_CreateObject();

	cJSON_AddStringToObject(root, "type", "action");
	cJSON_AddNumberToObject(root, "pid", action->process->pid);
	flmem_json_add_u64(root, "start_time_ticks", action->process->start_time);
	flmem_json_add_u64(root, "at_ms", action->at_us / 1000);
	flmem_json_add_u64(root, "elapsed_ms", action->elapsed_us / 1000);
	cJSON_AddStringToObject(root, "action", flmem_watch_action_name(action->kind));
	flmem_json_add_text(root, "reason", action->reason);
	flmem_json_add_value(root, unknown, "round", action->round);
	flmem_json_add_u64(root, "every_rounds", action->every_rounds);
	flmem_json_add_value(root, unknown, "rss_before_bytes", action->rss_before_bytes);
	flmem_json_add_value(root, unknown, "rss_after_bytes", action->rss_after_bytes);
	flmem_json_add_value(root, unknown, "released_bytes", action->released_bytes);
	flmem_json_add_value(root, unknown, "stopped_us", action->stopped_us);
	if (action->result)
		cJSON_AddItemToObject(root, "result", flmem_json_trim_result(action->result));
	else
		cJSON_AddNullToObject(root, "result");
	cJSON_AddItemToObject(root, "unknown", unknown);
	return flmem_json_take_line(root);
}

void flmem_json_add_pressure(cJSON *object, const char *name, const struct flmem_pressure *pressure)
{
	cJSON *p, *unknown;

	if (!pressure) {
		cJSON_AddNullToObject(object, name);
		return;
	}
	p = cJSON_AddObjectToObject(object, name);
	unknown = cJSON_CreateObject();
	flmem_json_add_value(p, unknown, "high", pressure->high);
	flmem_json_add_value(p, unknown, "max", pressure->max);
	flmem_json_add_value(p, unknown, "oom", pressure->oom);
	flmem_json_add_value(p, unknown, "oom_kill", pressure->oom_kill);
	flmem_json_add_value(p, unknown, "some_avg10_hundredths", pressure->some_avg10_hundredths);
	flmem_json_add_value(p, unknown, "full_avg10_hundredths", pressure->full_avg10_hundredths);
	flmem_json_add_value(p, unknown, "some_total_us", pressure->some_total_us);
	cJSON_AddStringToObject(p, "stall_source", pressure->stalls_of_host ? "host" : "cgroup");
	cJSON_AddItemToObject(p, "unknown", unknown);
}

void flmem_json_add_actions(cJSON *object, const struct flmem_watch_actions *actions)
{
	cJSON *a;

	if (!actions->every_rounds) {
		cJSON_AddNullToObject(object, "actions");
		return;
	}
	a = cJSON_AddObjectToObject(object, "actions");
	for (size_t i = 0; i < FLMEM_WATCH_ACTION_KINDS; i++)
		flmem_json_add_u64(a, flmem_watch_action_name((enum flmem_watch_action_kind)i),
				   actions->count[i]);
	flmem_json_add_u64(a, "released_bytes", actions->released_bytes);
	flmem_json_add_u64(a, "stopped_us", actions->stopped_us);
	flmem_json_add_u64(a, "every_rounds", actions->every_rounds);
}
