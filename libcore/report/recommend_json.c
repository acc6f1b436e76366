/* SPDX-License-Identifier: Apache-2.0 */
#include "report/recommend_json.h"

#include <flmem/report.h>

static void add_finding(cJSON *list, const struct flmem_finding *finding)
{
	cJSON *row = cJSON_CreateObject();

	cJSON_AddItemToArray(list, row);
	cJSON_AddStringToObject(row, "rule", finding->rule->id);
	cJSON_AddStringToObject(row, "severity", flmem_severity_name(finding->severity));
	flmem_json_add_text(row, "message", finding->message);
	flmem_json_add_text(row, "file", finding->file);
	if (finding->line)
		flmem_json_add_u64(row, "line", finding->line);
	else
		cJSON_AddNullToObject(row, "line");
	flmem_json_add_text(row, "path", finding->path);
	flmem_json_add_text(row, "current", finding->current);
	flmem_json_add_text(row, "proposed", finding->proposed);
	cJSON_AddStringToObject(row, "source", finding->rule->source);
	cJSON_AddBoolToObject(row, "fixable", finding->fixable);
}

static void add_problem_json(cJSON *list, const struct flmem_input_problem *problem)
{
	cJSON *row = cJSON_CreateObject();

	cJSON_AddItemToArray(list, row);
	flmem_json_add_text(row, "file", problem->file);
	if (problem->line)
		flmem_json_add_u64(row, "line", problem->line);
	else
		cJSON_AddNullToObject(row, "line");
	cJSON_AddStringToObject(row, "code", flmem_code_name(problem->code));
	cJSON_AddBoolToObject(row, "warning", problem->warning);
	flmem_json_add_text(row, "message", problem->message);
}

static void add_counts(cJSON *root, const struct flmem_recommendations *found)
{
	cJSON *counts = cJSON_AddObjectToObject(root, "counts");
	size_t before = 0;

#define ADD_COUNT(symbol, text)                                                           \
	{                                                                                 \
		size_t all = flmem_recommendations_count(found, FLMEM_SEVERITY_##symbol); \
		flmem_json_add_u64(counts, text, all - before);                           \
		before = all;                                                             \
	}
	FLMEM_SEVERITIES(ADD_COUNT)
#undef ADD_COUNT
}

void flmem_json_add_findings(cJSON *object, const struct flmem_recommendations *found)
{
	cJSON *list = cJSON_AddArrayToObject(object, "findings");

	for (size_t i = 0; i < found->finding_count; i++)
		add_finding(list, &found->findings[i]);
	list = cJSON_AddArrayToObject(object, "problems");
	for (size_t i = 0; i < found->problem_count; i++)
		add_problem_json(list, &found->problems[i]);
}

static void add_step(cJSON *list, const struct flmem_step_answer *answer)
{
	cJSON *row = cJSON_CreateObject();

	cJSON_AddItemToArray(list, row);
	cJSON_AddStringToObject(row, "id", answer->step->id);
	cJSON_AddStringToObject(row, "text", answer->step->text);
	cJSON_AddStringToObject(row, "state", flmem_step_state_name(answer->state));
	flmem_json_add_text(row, "evidence", answer->evidence);
	flmem_json_add_text(row, "next", answer->next);
}

static void add_step_json(cJSON *list, const struct flmem_troubleshoot_evaluation *evaluation)
{
	cJSON *row = cJSON_CreateObject(), *steps;

	cJSON_AddItemToArray(list, row);
	flmem_json_add_text(row, "subject", evaluation->subject);
	cJSON_AddStringToObject(row, "list", flmem_troubleshoot_list_name(evaluation->list));
	flmem_json_add_text(row, "reason", evaluation->reason);
	steps = cJSON_AddArrayToObject(row, "steps");
	for (size_t i = 0; i < evaluation->step_count; i++)
		add_step(steps, &evaluation->steps[i]);
}

static void add_held_plan(cJSON *root, const struct flmem_held_plan *plan)
{
	cJSON *object = cJSON_AddObjectToObject(root, "held_plan");

	cJSON_AddStringToObject(object, "strategy", plan->strategy);
	flmem_json_add_u64(object, "server_peak_bytes", plan->server_peak_bytes);
	flmem_json_add_u64(object, "client_peak_bytes", plan->client_peak_bytes);
	if (plan->simulator_bytes)
		flmem_json_add_u64(object, "simulator_bytes", plan->simulator_bytes);
	flmem_json_add_u64(object, "limits", plan->limits);
}

static cJSON *make_report(const struct flmem_recommendations *found)
{
	cJSON *root = flmem_json_report("recommend");

	flmem_json_add_u64(root, "files", found->file_count);
	add_counts(root, found);
	flmem_json_add_u64(root, "suppressed", found->suppressed_count);
	flmem_json_add_findings(root, found);
	if (found->held_plan.strategy)
		add_held_plan(root, &found->held_plan);
	return root;
}

char *flmem_report_recommend_json(const struct flmem_recommendations *found)
{
	return flmem_json_take(make_report(found));
}

char *flmem_report_troubleshoot_json(const struct flmem_recommendations *found,
				     const struct flmem_troubleshoot_report *troubles)
{
	cJSON *root = make_report(found);
	cJSON *list = cJSON_AddArrayToObject(root, "troubleshooting");

	for (size_t i = 0; i < troubles->count; i++)
		add_step_json(list, &troubles->evaluations[i]);
	return flmem_json_take(root);
}
