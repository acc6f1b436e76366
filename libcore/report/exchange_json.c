/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/report.h>

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "report/json_build.h"

#define US_PER_SECOND UINT64_C(1000000)

char *flmem_report_exchange_served(const struct flmem_exchange_served *served)
{
	cJSON *root = flmem_json_report("exchange-serve");

	flmem_json_add_u64(root, "rounds", served->rounds);
	flmem_json_add_u64(root, "published_round", served->published_round);
	flmem_json_add_u64(root, "updates", served->updates);
	flmem_json_add_u64(root, "refused_updates", served->refused_updates);
	flmem_json_add_u64(root, "received_bytes", served->received_bytes);
	flmem_json_add_u64(root, "verified_elements", served->verified_elements);
	cJSON_AddBoolToObject(root, "stopped", served->stopped);
	flmem_json_add_name(root, "model", served->model);
	return flmem_json_take(root);
}

static void add_time(cJSON *object, uint64_t wall_us)
{
	time_t seconds = (time_t)(wall_us / US_PER_SECOND);
	char text[64], day[32];
	struct tm utc;

	if (!gmtime_r(&seconds, &utc) || !strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &utc))
		return;
	snprintf(text, sizeof(text), "%s.%06" PRIu64 "Z", day, wall_us % US_PER_SECOND);
	flmem_json_add_text(object, "time", text);
}

char *flmem_report_exchange_event(const struct flmem_exchange_event *event)
{
	cJSON *root = cJSON_CreateObject();

	add_time(root, event->wall_us);
	flmem_json_add_text(root, "level", event->warning ? "warning" : "info");
	flmem_json_add_text(root, "event", event->event);
	if (event->round != FLMEM_EXCHANGE_NO_ROUND)
		flmem_json_add_u64(root, "round", event->round);
	if (event->client)
		flmem_json_add_name(root, "client", event->client);
	if (event->bytes)
		flmem_json_add_u64(root, "bytes", event->bytes);
	if (event->took_us)
		flmem_json_add_u64(root, "took_us", event->took_us);
	if (event->detail)
		flmem_json_add_text(root, "detail", event->detail);
	return flmem_json_take_line(root);
}
