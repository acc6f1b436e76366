/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/recommend.h>

#include <stdlib.h>

#include "rules/rules.h"

static void recordings_clear(struct flmem_recommendations *recommendations)
{
	for (size_t i = 0; i < recommendations->recording_count; i++) {
		free(recommendations->recordings[i].file);
		flmem_watch_summary_clear(recommendations->recordings[i].summary);
		free(recommendations->recordings[i].summary);
	}
	for (size_t i = 0; i < recommendations->oom_log_count; i++)
		free(recommendations->oom_logs[i].file);
	free(recommendations->recordings);
	free(recommendations->oom_logs);
}

static bool move_findings(struct flmem_recommendations *into, struct flmem_recommendations *from)
{
	bool moved = true;

	for (size_t i = 0; i < from->finding_count && moved; i++)
		moved = flmem_findings_add(into, &from->findings[i]);
	for (size_t i = 0; i < from->problem_count && moved; i++)
		moved = flmem_problems_add(into, &from->problems[i]);
	return moved;
}

int flmem_recommendations_join(struct flmem_recommendations *into,
			       struct flmem_recommendations *from, struct flmem_error *err)
{
	bool joined = move_findings(into, from);

	into->file_count += joined ? from->file_count : 0;
	into->process_count += joined ? from->process_count : 0;
	flmem_recommendations_clear(from);
	return joined ? 0 : flmem_error_nomem(err, "cannot store the findings");
}

void flmem_recommendations_clear(struct flmem_recommendations *recommendations)
{
	for (size_t i = 0; i < recommendations->finding_count; i++)
		flmem_finding_clear(&recommendations->findings[i]);
	for (size_t i = 0; i < recommendations->problem_count; i++) {
		free(recommendations->problems[i].file);
		free(recommendations->problems[i].message);
	}
	free(recommendations->findings);
	free(recommendations->problems);
	recordings_clear(recommendations);
	*recommendations = (struct flmem_recommendations){0};
}

size_t flmem_recommendations_failures(const struct flmem_recommendations *recommendations)
{
	size_t count = 0;

	for (size_t i = 0; i < recommendations->problem_count; i++)
		count += !recommendations->problems[i].warning;
	return count;
}

size_t flmem_recommendations_count(const struct flmem_recommendations *recommendations,
				   enum flmem_severity severity)
{
	size_t count = 0;

	for (size_t i = 0; i < recommendations->finding_count; i++)
		count += recommendations->findings[i].severity <= severity;
	return count;
}
