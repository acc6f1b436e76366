/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/report.h>

#include "report/json_build.h"
#include "report/trim_json.h"

char *flmem_report_repeat_event_json(const struct flmem_repeat_event *event)
{
	cJSON *root = flmem_json_report("trim");

	flmem_json_add_u64(root, "at_ms", event->time_us / 1000U);
	cJSON_AddNumberToObject(root, "pid", event->pid);
	cJSON_AddStringToObject(root, "event", flmem_repeat_event_name(event->kind));
	flmem_json_add_text(root, "reason", event->reason);
	if (event->result)
		cJSON_AddItemToObject(root, "result", flmem_json_trim_result(event->result));
	else
		cJSON_AddNullToObject(root, "result");
	return flmem_json_take_line(root);
}
