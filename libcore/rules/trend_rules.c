/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/trend_rules.h"

#include <inttypes.h>
#include <stdio.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "rules/rules.h"

#define SOON_S (UINT64_C(7) * 24 * 3600)

static bool has_risen(struct flmem_u64 count)
{
	return !count.unknown && count.value;
}

bool flmem_recorded_had_pressure(const struct flmem_watch_result *result)
{
	const struct flmem_pressure *rise = &result->pressure_rise;

	return has_risen(rise->high) || has_risen(rise->max) || has_risen(rise->oom) ||
	       has_risen(rise->oom_kill);
}

static bool report_rising(const struct flmem_recorded *recorded, struct flmem_live_remark *remark)
{
	const struct flmem_trend *trend = &recorded->result->trend;
	bool by_round = trend->basis == FLMEM_TREND_BY_ROUND;
	struct flmem_i64 growth =
		by_round ? trend->growth_per_round_bytes : trend->growth_per_hour_bytes;
	enum flmem_role role = recorded->result->process.role;
	bool every_round = role && !flmem_role_is_server(role) && !recorded->gc_rounds.unknown &&
			   recorded->gc_rounds.value == 1;
	char shown[FLMEM_TEXT_BYTES_MAX] = "an unknown amount";

	if (trend->verdict != FLMEM_TREND_CLIMBING)
		return false;
	if (!growth.unknown && growth.value >= 0)
		flmem_text_bytes((uint64_t)growth.value, shown, sizeof(shown));
	remark->path = "trend.verdict";
	snprintf(remark->current, sizeof(remark->current), "%s",
		 flmem_trend_verdict_name(trend->verdict));
	snprintf(remark->detail, sizeof(remark->detail), "%s each %s%s", shown,
		 by_round ? "round" : "hour",
		 every_round ? "; memory_gc_rounds is 1, so the interval is not the cause" : "");
	return true;
}

/*
 * Reports that there are not enough samples: no report would look like memory that does not rise.
 */
static bool report_too_early(const struct flmem_recorded *recorded,
			     struct flmem_live_remark *remark)
{
	const struct flmem_trend *trend = &recorded->result->trend;

	if (trend->verdict != FLMEM_TREND_TOO_EARLY)
		return false;
	remark->path = "trend.verdict";
	snprintf(remark->current, sizeof(remark->current), "%s",
		 flmem_trend_verdict_name(trend->verdict));
	snprintf(remark->detail, sizeof(remark->detail), "%s", trend->reason);
	return true;
}

/* Reports the forecast of the watch; a limit more than a week ahead is only information. */
static bool report_exhausted(const struct flmem_recorded *recorded,
			     struct flmem_live_remark *remark)
{
	static const enum flmem_severity info = FLMEM_SEVERITY_INFO;
	const struct flmem_watch_result *result = recorded->result;
	const struct flmem_forecast *forecast = &result->forecast;
	char in[FLMEM_TEXT_BYTES_MAX], earliest[64] = "", limit[FLMEM_TEXT_BYTES_MAX];

	if (forecast->exhausted_in_s.unknown || result->limit_bytes.unknown)
		return false;
	if (!forecast->exhausted_earliest_s.unknown &&
	    forecast->exhausted_earliest_s.value < forecast->exhausted_in_s.value) {
		flmem_text_span(forecast->exhausted_earliest_s.value, in, sizeof(in));
		snprintf(earliest, sizeof(earliest), ", in %s at the earliest", in);
	}
	if (forecast->exhausted_in_s.value > SOON_S)
		remark->severity = &info;
	remark->path = "forecast.exhausted_in_s";
	snprintf(remark->current, sizeof(remark->current), "%" PRIu64,
		 forecast->exhausted_in_s.value);
	snprintf(remark->detail, sizeof(remark->detail), "in %s%s; the limit of %s is %s",
		 flmem_text_span(forecast->exhausted_in_s.value, in, sizeof(in)), earliest,
		 result->limit_is_cgroup ? "its control group" : "the host",
		 flmem_text_bytes(result->limit_bytes.value, limit, sizeof(limit)));
	return true;
}

static bool report_limit_reached(const struct flmem_recorded *recorded,
				 struct flmem_live_remark *remark)
{
	const struct flmem_pressure *rise = &recorded->result->pressure_rise;
	uint64_t met = has_risen(rise->max) ? rise->max.value : 0;
	uint64_t killed = has_risen(rise->oom_kill) ? rise->oom_kill.value : 0;
	char times[FLMEM_TEXT_COUNTED_MAX], processes[FLMEM_TEXT_COUNTED_MAX];

	if (!met && !killed)
		return false;
	remark->path = killed ? "pressure.oom_kill" : "pressure.max";
	snprintf(remark->current, sizeof(remark->current), "%" PRIu64, killed ? killed : met);
	snprintf(remark->detail, sizeof(remark->detail), "the limit was reached %s, %s %s killed",
		 flmem_text_counted(met, "time", times, sizeof(times)),
		 flmem_text_counted(killed, "process", processes, sizeof(processes)),
		 killed == 1 ? "was" : "were");
	return true;
}

static const struct flmem_trend_row trend_rules_rows[] = {
	{.rule = {.id = "TREND-CLIMBING",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "a recorded process whose memory keeps rising",
		  .message = "memory does not return to the same level, so the job needs more the "
			     "longer it runs; check what retains it: clear_cache off, references "
			     "in the training code, the allocator (flmem detect reports which); "
			     "to find the code, sample the process: flmem profile attach for a "
			     "running Python process, flmem profile run to start any other "
			     "program; then read the profile with flmem profile leaks",
		  .source = FLMEM_SOURCE_NVFLARE_GUIDE},
	 .check = report_rising},
	{.rule = {.id = "TREND-TOO-EARLY",
		  .severity = FLMEM_SEVERITY_INFO,
		  .condition = "a recorded process that was not watched long enough to show "
			       "whether its memory keeps rising",
		  .message = "whether memory keeps rising is not known; record more rounds, or "
			     "watch longer",
		  .source = "flmem's measure of trends, docs/guides/watch.md"},
	 .check = report_too_early},
	{.rule = {.id = "TREND-EXHAUSTED",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "a recorded process whose memory rises towards a known limit; "
			       "information where that is more than a week ahead",
		  .message = "at this growth memory reaches its limit, at which the kernel kills "
			     "the job; stop the growth, or end or restart the job before that",
		  .source = "Linux documentation, cgroup-v2, \"memory.max\""},
	 .check = report_exhausted},
	{.rule = {.id = "TREND-LIMIT-MET",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "a control group that reached its memory limit, or in which the "
			       "kernel killed a process, while a process in it was recorded",
		  .message = "memory was short: clean up after every round, and raise the limit of "
			     "the group or reduce the job",
		  .source = "Linux documentation, cgroup-v2, \"memory.events\""},
	 .check = report_limit_reached},
};

const struct flmem_trend_table flmem_trend_rules = {trend_rules_rows,
						    FLMEM_ARRAY_SIZE(trend_rules_rows)};

/* Writes "process 4711 (client-job): ", which precedes the path. */
static void put_owner(const struct flmem_watch_process *process, char *out, size_t size)
{
	if (process->role)
		snprintf(out, size, "process %d (%s): ", (int)process->pid,
			 flmem_role_name(process->role));
	else
		snprintf(out, size, "process %d: ", (int)process->pid);
}

int flmem_trend_rules_run(const struct flmem_trend_table *table,
			  const struct flmem_recorded *recorded, const char *file,
			  const struct flmem_version_number *release,
			  struct flmem_recommendations *found, struct flmem_error *err)
{
	struct flmem_finding_place place = {.file = file};
	char owner[64];
	int rc = 0;

	put_owner(&recorded->result->process, owner, sizeof(owner));
	place.owner = owner;
	for (size_t i = 0; i < table->count && !rc; i++) {
		const struct flmem_trend_row *row = &table->rows[i];
		struct flmem_live_remark remark = {0};

		if (flmem_rule_holds(&row->rule, release) && row->check(recorded, &remark))
			rc = flmem_live_finding_add(&row->rule, &place, &remark, found, err);
	}
	return rc;
}
