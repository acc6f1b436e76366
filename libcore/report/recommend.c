/* SPDX-License-Identifier: Apache-2.0 */
#include "report/recommend.h"

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

static void add_problem(cJSON *list, const struct flmem_input_problem *problem)
{
	cJSON *row = cJSON_CreateObject();

	cJSON_AddItemToArray(list, row);
	flmem_json_add_text(row, "file", problem->file);
	if (problem->line)
		flmem_json_add_u64(row, "line", problem->line);
	else
		cJSON_AddNullToObject(row, "line");
	cJSON_AddStringToObject(row, "code", flmem_code_name(problem->code));
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
		add_problem(list, &found->problems[i]);
}

char *flmem_report_recommend_json(const struct flmem_recommendations *found)
{
	cJSON *root = flmem_json_report("recommend");

	flmem_json_add_u64(root, "files", found->file_count);
	add_counts(root, found);
	flmem_json_add_u64(root, "silenced", found->silenced_count);
	flmem_json_add_findings(root, found);
	return flmem_json_take(root);
}
