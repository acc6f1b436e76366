/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/report.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "report/json_build.h"
#include "report/recommend_json.h"
#include "report/watch_action_json.h"

static void add_i64(cJSON *object, cJSON *unknown, const char *name, struct flmem_i64 value)
{
	char digits[24];

	if (value.unknown) {
		cJSON_AddNullToObject(object, name);
		cJSON_AddStringToObject(unknown, name, value.unknown);
		return;
	}
	snprintf(digits, sizeof(digits), "%" PRId64, value.value);
	cJSON_AddRawToObject(object, name, digits);
}

static cJSON *make_line(const char *type)
{
	cJSON *root = flmem_json_report("watch");

	cJSON_AddStringToObject(root, "type", type);
	return root;
}

static void add_watch_process(cJSON *object, const struct flmem_watch_process *process)
{
	cJSON_AddNumberToObject(object, "pid", process->pid);
	flmem_json_add_u64(object, "start_time_ticks", process->start_time);
}

static void add_split(cJSON *object, const struct flmem_watch_split *split)
{
	cJSON *kinds, *unknown;

	if (!split) {
		cJSON_AddNullToObject(object, "memory");
		return;
	}
	kinds = cJSON_AddObjectToObject(object, "memory");
	unknown = cJSON_CreateObject();
	flmem_json_add_value(kinds, unknown, "anon_bytes", split->anon_bytes);
	flmem_json_add_value(kinds, unknown, "file_bytes", split->file_bytes);
	flmem_json_add_value(kinds, unknown, "shmem_bytes", split->shmem_bytes);
	flmem_json_add_value(kinds, unknown, "swap_bytes", split->swap_bytes);
	cJSON_AddItemToObject(kinds, "unknown", unknown);
}

static cJSON *sample_object(const struct flmem_watch_sample *sample)
{
	cJSON *root = make_line("sample");

	add_watch_process(root, sample->process);
	flmem_json_add_u64(root, "at_ms", sample->at_us / 1000);
	flmem_json_add_u64(root, "elapsed_ms", sample->elapsed_us / 1000);
	flmem_json_add_u64(root, "rss_bytes", sample->rss_bytes);
	if (sample->round.unknown)
		cJSON_AddNullToObject(root, "round");
	else
		flmem_json_add_u64(root, "round", sample->round.value);
	add_split(root, sample->split);
	flmem_json_add_pressure(root, "pressure", sample->pressure);
	return root;
}

/* Samples are the most frequent lines; they hold numbers only and need no cJSON tree. */
char *flmem_report_watch_sample_json(const struct flmem_watch_sample *sample)
{
	char round[24] = "null", *text;

	if (sample->split || sample->pressure)
		return flmem_json_take_line(sample_object(sample));
	if (!sample->round.unknown)
		snprintf(round, sizeof(round), "%" PRIu64, sample->round.value);
	if (asprintf(&text,
		     "{\"schema\":\"flmem.watch/1\",\"type\":\"sample\",\"pid\":%d,"
		     "\"start_time_ticks\":%" PRIu64 ",\"at_ms\":%" PRIu64
		     ",\"elapsed_ms\":%" PRIu64 ",\"rss_bytes\":%" PRIu64
		     ",\"round\":%s,\"memory\":null,\"pressure\":null}\n",
		     (int)sample->process->pid, sample->process->start_time, sample->at_us / 1000,
		     sample->elapsed_us / 1000, sample->rss_bytes, round) < 0)
		return NULL;
	return text;
}

char *flmem_report_watch_round_json(const struct flmem_watch_round *round)
{
	cJSON *root = make_line("round"), *unknown = cJSON_CreateObject();

	add_watch_process(root, round->process);
	flmem_json_add_u64(root, "round", round->number);
	flmem_json_add_u64(root, "elapsed_ms", round->elapsed_us / 1000);
	flmem_json_add_u64(root, "duration_ms", round->duration_us / 1000);
	flmem_json_add_value(root, unknown, "peak_bytes", round->peak_bytes);
	cJSON_AddBoolToObject(root, "peak_exact", round->peak_exact);
	flmem_json_add_value(root, unknown, "group_peak_bytes", round->group_peak_bytes);
	flmem_json_add_value(root, unknown, "trough_bytes", round->trough_bytes);
	add_i64(root, unknown, "growth_bytes", round->growth_bytes);
	cJSON_AddItemToObject(root, "unknown", unknown);
	return flmem_json_take_line(root);
}

/* Adds the confidence with three decimals: the estimate has no more precision. */
static void add_confidence(cJSON *object, double confidence)
{
	char digits[16];

	snprintf(digits, sizeof(digits), "%.3f", confidence);
	cJSON_AddRawToObject(object, "confidence", digits);
}

static void add_trend(cJSON *object, const struct flmem_trend *trend,
		      const struct flmem_forecast *forecast)
{
	cJSON *t = cJSON_AddObjectToObject(object, "trend"), *unknown = cJSON_CreateObject();

	cJSON_AddStringToObject(t, "verdict", flmem_trend_verdict_name(trend->verdict));
	cJSON_AddStringToObject(t, "reason", trend->reason);
	add_confidence(t, trend->confidence);
	add_i64(t, unknown, "growth_per_round_bytes", trend->growth_per_round_bytes);
	add_i64(t, unknown, "growth_per_hour_bytes", trend->growth_per_hour_bytes);
	cJSON_AddStringToObject(t, "basis",
				trend->basis == FLMEM_TREND_BY_ROUND ? "round" : "hour");
	add_i64(t, unknown, "growth_low_bytes", trend->low_bytes);
	add_i64(t, unknown, "growth_high_bytes", trend->high_bytes);
	add_i64(t, unknown, "step_bytes", trend->step_bytes);
	flmem_json_add_value(t, unknown, "exhausted_in_s", forecast->exhausted_in_s);
	flmem_json_add_value(t, unknown, "exhausted_earliest_s", forecast->exhausted_earliest_s);
	flmem_json_add_value(t, unknown, "exhausted_in_rounds", forecast->exhausted_in_rounds);
	cJSON_AddNumberToObject(t, "points", (double)trend->points);
	cJSON_AddItemToObject(t, "unknown", unknown);
}

static void add_identity(cJSON *object, const struct flmem_watch_process *process)
{
	add_watch_process(object, process);
	flmem_json_add_text(object, "command", process->command);
	flmem_json_add_text(object, "framework", flmem_framework_name(process->framework));
	flmem_json_add_text(object, "role", flmem_role_name(process->role));
	flmem_json_add_text(object, "site", process->site);
}

static void add_watch_limit(cJSON *object, const struct flmem_watch_result *result)
{
	cJSON *limit = cJSON_AddObjectToObject(object, "limit"), *unknown = cJSON_CreateObject();

	cJSON_AddStringToObject(limit, "of", result->limit_is_cgroup ? "cgroup" : "host");
	flmem_json_add_value(limit, unknown, "limit_bytes", result->limit_bytes);
	flmem_json_add_value(limit, unknown, "headroom_bytes", result->headroom_bytes);
	cJSON_AddItemToObject(limit, "unknown", unknown);
}

static cJSON *result_object(const struct flmem_watch_result *result)
{
	cJSON *object = cJSON_CreateObject(), *unknown = cJSON_CreateObject(), *findings;

	add_identity(object, &result->process);
	cJSON_AddBoolToObject(object, "ended", result->ended);
	flmem_json_add_u64(object, "restarts", result->restarts);
	flmem_json_add_u64(object, "samples", result->samples);
	flmem_json_add_u64(object, "rounds", result->rounds);
	flmem_json_add_u64(object, "watched_ms", result->watched_us / 1000);
	flmem_json_add_value(object, unknown, "first_bytes", result->first_bytes);
	flmem_json_add_value(object, unknown, "last_bytes", result->last_bytes);
	flmem_json_add_value(object, unknown, "lowest_bytes", result->lowest_bytes);
	flmem_json_add_value(object, unknown, "peak_bytes", result->peak_bytes);
	add_split(object, &result->split);
	add_trend(object, &result->trend, &result->forecast);
	add_watch_limit(object, result);
	flmem_json_add_value(object, unknown, "gpu_bytes", result->gpu_bytes);
	flmem_json_add_pressure(object, "pressure", &result->pressure);
	flmem_json_add_pressure(object, "pressure_rise", &result->pressure_rise);
	flmem_json_add_actions(object, &result->actions);
	findings = cJSON_AddArrayToObject(object, "findings");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(result->findings) && result->findings[i]; i++)
		cJSON_AddItemToArray(findings, cJSON_CreateString(result->findings[i]));
	flmem_json_add_text(object, "undecided", result->undecided);
	cJSON_AddItemToObject(object, "unknown", unknown);
	return object;
}

/* Adds the rules that were checked; without them an empty list of findings means nothing. */
static void add_watch_advice(cJSON *root, const struct flmem_watch_advice *advice)
{
	cJSON *rules = cJSON_AddArrayToObject(root, "rules");

	if (advice->rules != FLMEM_WATCH_RULES_NONE)
		flmem_json_append_text(rules, "trend");
	if (advice->rules == FLMEM_WATCH_RULES_LIVE)
		flmem_json_append_text(rules, "live");
	flmem_json_add_findings(root, &advice->found);
}

char *flmem_report_watch_summary_json(const struct flmem_watch_summary *summary,
				      const struct flmem_watch_advice *advice)
{
	cJSON *root = make_line("summary"), *unknown = cJSON_CreateObject(), *processes;

	if (summary->count == 1) {
		cJSON_AddNumberToObject(root, "pid", summary->results[0].process.pid);
		add_trend(root, &summary->results[0].trend, &summary->results[0].forecast);
	} else {
		cJSON_AddNullToObject(root, "pid");
		cJSON_AddNullToObject(root, "trend");
	}
	processes = cJSON_AddArrayToObject(root, "processes");
	for (size_t i = 0; i < summary->count; i++)
		cJSON_AddItemToArray(processes, result_object(&summary->results[i]));
	flmem_json_add_u64(root, "rounds", summary->rounds);
	flmem_json_add_u64(root, "unlisted", summary->unlisted);
	flmem_json_add_value(root, unknown, "missed", summary->missed);
	flmem_json_add_u64(root, "record_lost", summary->record_lost);
	flmem_json_add_u64(root, "record_skipped_bytes", summary->record_skipped_bytes);
	flmem_json_add_u64(root, "record_overlaps", summary->record_overlaps);
	cJSON_AddBoolToObject(root, "limit_passed", summary->limit_passed);
	cJSON_AddBoolToObject(root, "limit_undecided", summary->limit_undecided);
	add_watch_advice(root, advice);
	cJSON_AddItemToObject(root, "unknown", unknown);
	return flmem_json_take_line(root);
}
