/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/trend_rules.h"

#include <inttypes.h>
#include <stdio.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "rules/rules.h"

/* The guide's "stable": at least this many cleanups after the rounds of the warm-up. */
#define CLEANUPS_SEEN 2U
#define WARM_UP	      2U

#define SOON_S (UINT64_C(7) * 24 * 3600)

static bool has_risen(struct flmem_u64 count)
{
	return !count.unknown && count.value;
}

bool flmem_recorded_was_short(const struct flmem_watch_result *result)
{
	const struct flmem_pressure *rise = &result->pressure_rise;

	return has_risen(rise->high) || has_risen(rise->max) || has_risen(rise->oom) ||
	       has_risen(rise->oom_kill);
}

static bool is_nvflare(const struct flmem_recorded *recorded, bool server)
{
	const struct flmem_watch_process *process = &recorded->result->process;

	return process->framework == FLMEM_FRAMEWORK_NVFLARE && process->role &&
	       flmem_role_is_server(process->role) == server;
}

/* Flat over enough rounds, and nothing requires more cleanups. */
static bool is_stable(const struct flmem_recorded *recorded)
{
	const struct flmem_watch_result *result = recorded->result;
	uint64_t needed = (recorded->gc_rounds.value + 1) * CLEANUPS_SEEN + WARM_UP;

	return result->trend.verdict == FLMEM_TREND_FLAT &&
	       result->trend.basis == FLMEM_TREND_BY_ROUND && result->rounds >= needed &&
	       !flmem_recorded_was_short(result);
}

static void put_interval(struct flmem_live_remark *remark, uint64_t now, unsigned then)
{
	remark->path = "memory_gc_rounds";
	snprintf(remark->current, sizeof(remark->current), "%" PRIu64, now);
	snprintf(remark->proposed, sizeof(remark->proposed), "%u", then);
}

static void put_flat(const struct flmem_recorded *recorded, struct flmem_live_remark *remark)
{
	snprintf(remark->detail, sizeof(remark->detail), "flat over %" PRIu64 " rounds",
		 recorded->result->rounds);
}

/* 1, 2, 5 while memory is flat; any interval back to 1 once memory rises or is short. */
static bool report_client_interval(const struct flmem_recorded *recorded,
				   struct flmem_live_remark *remark)
{
	static const enum flmem_severity warning = FLMEM_SEVERITY_WARNING;
	bool climbs = recorded->result->trend.verdict == FLMEM_TREND_CLIMBING;
	uint64_t now = recorded->gc_rounds.value;

	if (!is_nvflare(recorded, false) || recorded->gc_rounds.unknown || !now || now > INT32_MAX)
		return false;
	if (now > 1 && (climbs || flmem_recorded_was_short(recorded->result))) {
		put_interval(remark, now, 1);
		remark->severity = &warning;
		snprintf(remark->detail, sizeof(remark->detail), "%s",
			 climbs ? "memory keeps rising" : "its control group ran short of memory");
		return true;
	}
	if (now >= 5 || !is_stable(recorded))
		return false;
	put_interval(remark, now, now < 2 ? 2 : 5);
	put_flat(recorded, remark);
	return true;
}

static bool report_server_every_round(const struct flmem_recorded *recorded,
				      struct flmem_live_remark *remark)
{
	if (!is_nvflare(recorded, true) || recorded->gc_rounds.unknown ||
	    recorded->gc_rounds.value != 1 || !is_stable(recorded))
		return false;
	put_interval(remark, 1, 5);
	put_flat(recorded, remark);
	return true;
}

static bool report_rising(const struct flmem_recorded *recorded, struct flmem_live_remark *remark)
{
	const struct flmem_trend *trend = &recorded->result->trend;
	bool by_round = trend->basis == FLMEM_TREND_BY_ROUND;
	struct flmem_i64 growth =
		by_round ? trend->growth_per_round_bytes : trend->growth_per_hour_bytes;
	bool every_round = is_nvflare(recorded, false) && !recorded->gc_rounds.unknown &&
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

/* The forecast of the watch; a limit more than a week ahead is only information. */
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

	if (!met && !killed)
		return false;
	remark->path = killed ? "pressure.oom_kill" : "pressure.max";
	snprintf(remark->current, sizeof(remark->current), "%" PRIu64, killed ? killed : met);
	snprintf(remark->detail, sizeof(remark->detail),
		 "the limit was reached %" PRIu64 " times, %" PRIu64 " processes were killed", met,
		 killed);
	return true;
}

const struct flmem_trend_row flmem_trend_rows[] = {
	{.rule = {.id = "NVF-CLI-GC-TUNE",
		  .severity = FLMEM_SEVERITY_INFO,
		  .framework = FLMEM_FRAMEWORK_NVFLARE,
		  .since = "2.7.2",
		  .condition = "a recorded client that is flat while memory_gc_rounds is 1 to 4; "
			       "one whose memory keeps rising, or whose control group ran short of "
			       "memory, while it is above 1 (a warning)",
		  .message =
			  "start a client with memory_gc_rounds 1, raise it to 2 and then 5 while "
			  "its memory is flat, and set it back to 1 when memory rises or is short",
		  .source = FLMEM_SOURCE_NVFLARE_GUIDE},
	 .check = report_client_interval},
	{.rule = {.id = "NVF-SRV-GC-EVERY-ROUND",
		  .severity = FLMEM_SEVERITY_INFO,
		  .framework = FLMEM_FRAMEWORK_NVFLARE,
		  .since = "2.7.2",
		  .condition = "a recorded server that is flat while memory_gc_rounds is 1",
		  .message = "memory is flat with a cleanup after every round; every 5 rounds, as "
			     "recommended for servers, costs less",
		  .source = FLMEM_SOURCE_NVFLARE_GUIDE},
	 .check = report_server_every_round},
	{.rule = {.id = "TREND-CLIMBING",
		  .severity = FLMEM_SEVERITY_WARNING,
		  .condition = "a recorded process whose memory keeps rising",
		  .message = "memory does not return to the same level, so the job needs more the "
			     "longer it runs; check what retains it: clear_cache off, references "
			     "in the training code, the allocator (flmem detect reports which)",
		  .source = FLMEM_SOURCE_NVFLARE_GUIDE},
	 .check = report_rising},
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

const size_t flmem_trend_row_count = FLMEM_ARRAY_SIZE(flmem_trend_rows);

/* "process 4711 (client-job): ", before the path. */
static void put_owner(const struct flmem_watch_process *process, char *out, size_t size)
{
	if (process->role)
		snprintf(out, size, "process %d (%s): ", (int)process->pid,
			 flmem_role_name(process->role));
	else
		snprintf(out, size, "process %d: ", (int)process->pid);
}

int flmem_trend_rules_run(const struct flmem_watch_result *result, const char *file,
			  const struct flmem_release *release, struct flmem_recommendations *found,
			  struct flmem_error *err)
{
	bool server = flmem_role_is_server(result->process.role);
	const struct flmem_recorded recorded = {
		.result = result,
		.gc_rounds = server ? found->server_gc_rounds : found->client_gc_rounds,
	};
	struct flmem_finding_place place = {.file = file};
	char owner[64];
	int rc = 0;

	put_owner(&result->process, owner, sizeof(owner));
	place.owner = owner;
	for (size_t i = 0; i < flmem_trend_row_count && !rc; i++) {
		const struct flmem_trend_row *row = &flmem_trend_rows[i];
		struct flmem_live_remark remark = {0};

		if (flmem_rule_holds(&row->rule, release) && row->check(&recorded, &remark))
			rc = flmem_live_finding_add(&row->rule, &place, &remark, found, err);
	}
	return rc;
}
