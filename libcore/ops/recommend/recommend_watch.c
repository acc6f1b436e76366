/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/recommend.h>

#include <stdio.h>
#include <stdlib.h>

#include <flmem/detect.h>

#include "base/cleanup.h"
#include "frameworks/framework.h"
#include "ops/recommend/recommend_files.h"
#include "ops/recommend/recommend_live.h"
#include "ops/recommend/recommend_recording.h"
#include "rules/rules.h"

/* Limits: the end of a watch must not wait for heap reads, so only the first processes are read. */
#define READ_MAX    200U
#define READ_FOR_US 3000000U

/* Reports of live processes, for the rules about them. */
struct live_reading {
	struct flmem_detect_report report;
	size_t left_out; /* number of processes that were not read, because there were too many */
};

static void clear_reading(struct live_reading *reading)
{
	flmem_detect_report_clear(&reading->report);
}

/* Processes with a role come first: most rules are about them. */
static size_t choose_processes(const struct flmem_watch_summary *summary, pid_t *pids,
			       size_t *ret_left_out)
{
	size_t chosen = 0, left_out = 0;

	for (int with_role = 1; with_role >= 0; with_role--) {
		for (size_t i = 0; i < summary->count; i++) {
			const struct flmem_watch_result *r = &summary->results[i];

			if (r->ended || (r->process.role != FLMEM_ROLE_NONE) != with_role)
				continue;
			if (chosen < READ_MAX)
				pids[chosen++] = r->process.pid;
			else
				left_out++;
		}
	}
	*ret_left_out = left_out;
	return chosen;
}

static int read_processes(const struct flmem_watch_summary *summary,
			  struct live_reading *ret_reading, struct flmem_error *err)
{
	const struct flmem_detect_options options = {.total_budget_us = READ_FOR_US};
	pid_t pids[READ_MAX];
	size_t left_out, count = choose_processes(summary, pids, &left_out);
	int rc = flmem_detect(pids, count, &options, &ret_reading->report, err);

	ret_reading->left_out = rc ? 0 : left_out;
	return rc;
}

static const struct flmem_process_report *find_result(const struct flmem_detect_report *report,
						      const struct flmem_watch_process *process)
{
	for (size_t i = 0; i < report->process_count; i++)
		if (report->processes[i].pid == process->pid &&
		    report->processes[i].start_time == process->start_time)
			return &report->processes[i];
	return NULL;
}

static int check_result(const struct flmem_watch_result *result, const struct live_reading *reading,
			struct flmem_recommendations *found, struct flmem_watch_span *ret_span,
			struct flmem_error *err)
{
	const struct flmem_version_number any = {0};
	const struct flmem_process_report *report = find_result(&reading->report, &result->process);
	char file[32];
	int rc;

	snprintf(file, sizeof(file), "process %d", (int)result->process.pid);
	ret_span->first = found->finding_count;
	rc = flmem_recommend_recorded(result, report, file, &any, found, err);
	if (!rc && report)
		rc = flmem_recommend_process(report, &any, found, err);
	ret_span->count = found->finding_count - ret_span->first;
	return rc;
}

/* Reports processes that run but were not read: access was denied, or there were too many. */
static int report_unread(const struct live_reading *reading, struct flmem_recommendations *found,
			 struct flmem_error *err)
{
	const struct flmem_detect_report *report = &reading->report;
	struct flmem_error why = {0};
	int rc = 0;

	for (size_t i = 0; i < report->skipped_count && !rc; i++)
		rc = flmem_recommend_skipped(&report->skipped[i], found, err);
	if (rc || !reading->left_out)
		return rc;
	flmem_error_set(&why, FLMEM_EFAILED, 0,
			"the rules about live processes checked only the first %u; check others "
			"with flmem recommend --pid",
			READ_MAX);
	if (flmem_recommendations_add_problem(found, "processes", 0, &why))
		return 0;
	return flmem_error_nomem(err, "cannot report the processes that were not checked");
}

static int check_watch_results(const struct flmem_watch_summary *summary,
			       const struct live_reading *reading,
			       struct flmem_watch_advice *advice, struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < summary->count && !rc; i++)
		rc = check_result(&summary->results[i], reading, &advice->found, &advice->spans[i],
				  err);
	return rc ? rc : report_unread(reading, &advice->found, err);
}

int flmem_recommend_watch(const struct flmem_watch_summary *summary, enum flmem_watch_rules rules,
			  struct flmem_watch_advice *ret_advice, struct flmem_error *err)
{
	FLMEM_AUTO(flmem_watch_advice_clear)
	struct flmem_watch_advice advice = {.rules = rules};
	FLMEM_AUTO(clear_reading) struct live_reading reading = {0};
	int rc = 0;

	if (rules == FLMEM_WATCH_RULES_NONE) {
		*ret_advice = (struct flmem_watch_advice){0};
		return 0;
	}
	flmem_recommendations_init(&advice.found);
	advice.found.file_count = summary->count;
	advice.spans = calloc(summary->count ? summary->count : 1, sizeof(*advice.spans));
	if (!advice.spans)
		return flmem_error_nomem(err, "cannot check the watched processes");
	if (rules == FLMEM_WATCH_RULES_LIVE)
		rc = read_processes(summary, &reading, err);
	if (!rc)
		rc = check_watch_results(summary, &reading, &advice, err);
	if (rc)
		return rc;
	*ret_advice = advice;
	advice = (struct flmem_watch_advice){0};
	return 0;
}

void flmem_watch_advice_clear(struct flmem_watch_advice *advice)
{
	flmem_recommendations_clear(&advice->found);
	free(advice->spans);
	*advice = (struct flmem_watch_advice){0};
}
