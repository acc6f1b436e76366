/* SPDX-License-Identifier: Apache-2.0 */
/* Writes SARIF 2.1.0 (docs.oasis-open.org/sarif/sarif/v2.1.0), which code scanning reads. */
#include <flmem/report.h>

#include <stdbool.h>
#include <string.h>

#include <flmem/version.h>

#include "base/text/buf.h"
#include "base/text/text.h"
#include "report/json_build.h"

#define SCHEMA                                                                \
	"https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/" \
	"sarif-schema-2.1.0.json"

static const char *level_of(enum flmem_severity severity)
{
	return severity == FLMEM_SEVERITY_INFO ? "note" : flmem_severity_name(severity);
}

static void add_message(cJSON *object, const char *name, const char *text)
{
	flmem_json_add_text(cJSON_AddObjectToObject(object, name), "text", text);
}

static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-._~/", c));
}

/* Adds a path as a reference (RFC 3986); a relative one has no leading "./". */
static void add_uri(cJSON *object, const char *path)
{
	FLMEM_AUTO_BUF struct flmem_buf uri = FLMEM_BUF_INIT;

	while (flmem_text_starts(path, "./"))
		path += 2;
	if (*path == '/')
		flmem_buf_puts(&uri, "file://");
	for (; *path; path++) {
		if (is_unreserved(*path))
			flmem_buf_putc(&uri, *path);
		else
			flmem_buf_printf(&uri, "%%%02X", (unsigned char)*path);
	}
	flmem_json_add_text(cJSON_AddObjectToObject(object, "artifactLocation"), "uri", uri.data);
}

static void add_location(cJSON *list, const char *file, unsigned line, const char *path)
{
	cJSON *location = cJSON_CreateObject(), *physical, *logical;

	cJSON_AddItemToArray(list, location);
	physical = cJSON_AddObjectToObject(location, "physicalLocation");
	add_uri(physical, file);
	if (line)
		flmem_json_add_u64(cJSON_AddObjectToObject(physical, "region"), "startLine", line);
	if (!path)
		return;
	logical = cJSON_CreateObject();
	flmem_json_add_text(logical, "fullyQualifiedName", path);
	cJSON_AddItemToArray(cJSON_AddArrayToObject(location, "logicalLocations"), logical);
}

static void add_rule(cJSON *list, const struct flmem_rule *rule)
{
	cJSON *row = cJSON_CreateObject();

	cJSON_AddItemToArray(list, row);
	cJSON_AddStringToObject(row, "id", rule->id);
	add_message(row, "shortDescription", rule->condition);
	add_message(row, "fullDescription", rule->message);
	cJSON_AddStringToObject(cJSON_AddObjectToObject(row, "defaultConfiguration"), "level",
				level_of(rule->severity));
	cJSON_AddStringToObject(cJSON_AddObjectToObject(row, "properties"), "source", rule->source);
}

static size_t index_of(const struct flmem_rule *rule)
{
	size_t index = 0;

	while (flmem_recommend_rule(index) != rule)
		index++;
	return index;
}

/* Adds the replacement of --fix, which code scanning can apply. */
static void add_fix(cJSON *result, const struct flmem_finding *finding)
{
	cJSON *fix = cJSON_CreateObject(), *change = cJSON_CreateObject();
	cJSON *replacement = cJSON_CreateObject(), *region;

	cJSON_AddItemToArray(cJSON_AddArrayToObject(result, "fixes"), fix);
	add_message(fix, "description", "write the proposed value");
	cJSON_AddItemToArray(cJSON_AddArrayToObject(fix, "artifactChanges"), change);
	add_uri(change, finding->file);
	cJSON_AddItemToArray(cJSON_AddArrayToObject(change, "replacements"), replacement);
	region = cJSON_AddObjectToObject(replacement, "deletedRegion");
	flmem_json_add_u64(region, "byteOffset", finding->edit.start);
	flmem_json_add_u64(region, "byteLength", finding->edit.end - finding->edit.start);
	cJSON_AddStringToObject(cJSON_AddObjectToObject(replacement, "insertedContent"), "text",
				finding->edit.text);
}

static void add_result(cJSON *list, const struct flmem_finding *finding)
{
	cJSON *row = cJSON_CreateObject(), *properties;

	cJSON_AddItemToArray(list, row);
	cJSON_AddStringToObject(row, "ruleId", finding->rule->id);
	flmem_json_add_u64(row, "ruleIndex", index_of(finding->rule));
	cJSON_AddStringToObject(row, "level", level_of(finding->severity));
	add_message(row, "message", finding->message);
	add_location(cJSON_AddArrayToObject(row, "locations"), finding->file, finding->line,
		     finding->path);
	properties = cJSON_AddObjectToObject(row, "properties");
	flmem_json_add_text(properties, "current", finding->current);
	flmem_json_add_text(properties, "proposed", finding->proposed);
	cJSON_AddBoolToObject(properties, "fixable", finding->fixable);
	if (finding->fixable && finding->edit.text)
		add_fix(row, finding);
}

static void add_notification(cJSON *list, const struct flmem_input_problem *problem)
{
	cJSON *row = cJSON_CreateObject();

	cJSON_AddItemToArray(list, row);
	cJSON_AddStringToObject(row, "level", problem->warning ? "warning" : "error");
	add_message(row, "message", problem->message);
	add_location(cJSON_AddArrayToObject(row, "locations"), problem->file, problem->line, NULL);
}

static void add_tool(cJSON *run)
{
	cJSON *driver = cJSON_AddObjectToObject(cJSON_AddObjectToObject(run, "tool"), "driver");
	cJSON *rules;
	const struct flmem_rule *rule;

	cJSON_AddStringToObject(driver, "name", "flmem");
	cJSON_AddStringToObject(driver, "version", flmem_version());
	rules = cJSON_AddArrayToObject(driver, "rules");
	for (size_t i = 0; (rule = flmem_recommend_rule(i)); i++)
		add_rule(rules, rule);
}

static void add_invocation(cJSON *run, const struct flmem_recommendations *found)
{
	cJSON *invocation = cJSON_CreateObject(), *list;

	cJSON_AddItemToArray(cJSON_AddArrayToObject(run, "invocations"), invocation);
	cJSON_AddBoolToObject(invocation, "executionSuccessful",
			      !flmem_recommendations_failures(found));
	list = cJSON_AddArrayToObject(invocation, "toolExecutionNotifications");
	for (size_t i = 0; i < found->problem_count; i++)
		add_notification(list, &found->problems[i]);
}

char *flmem_report_recommend_sarif(const struct flmem_recommendations *found)
{
	cJSON *root = cJSON_CreateObject(), *run = cJSON_CreateObject(), *results;

	cJSON_AddStringToObject(root, "$schema", SCHEMA);
	cJSON_AddStringToObject(root, "version", "2.1.0");
	cJSON_AddItemToArray(cJSON_AddArrayToObject(root, "runs"), run);
	add_tool(run);
	add_invocation(run, found);
	cJSON_AddStringToObject(run, "columnKind", "utf16CodeUnits");
	results = cJSON_AddArrayToObject(run, "results");
	for (size_t i = 0; i < found->finding_count; i++)
		add_result(results, &found->findings[i]);
	return flmem_json_take(root);
}
