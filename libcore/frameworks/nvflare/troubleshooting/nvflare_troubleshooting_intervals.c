/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether cleanups are as frequent as the lists demand, by settings and by the trend of a
 * recording.
 */
#include "frameworks/nvflare/troubleshooting/nvflare_troubleshooting.h"

#include <inttypes.h>
#include <string.h>

#include <flmem/text.h>

#include "frameworks/framework.h"
#include "frameworks/nvflare/rules/nvflare_rules.h"
#include "frameworks/nvflare/troubleshooting/nvflare_troubleshooting_answers.h"
#include "rules/live_rules.h"
#include "rules/trend_rules.h"

static bool is_watchable_instead(const struct flmem_troubleshoot_case *one,
				 struct flmem_troubleshoot_answer *answer)
{
	if (!flmem_answer_is_foreign(one, answer, "memory_gc_rounds"))
		return false;
	if (one->process)
		flmem_answer_set_next(answer, "flmem watch --pid %d --auto trims it from outside",
				      (int)one->pid);
	return true;
}

static const char in_job[] = "in the job", in_environment[] = "in its environment";

#define GUIDE_MAX 5U /* largest interval that the guide names */

static void report_rare(struct flmem_troubleshoot_answer *answer, uint64_t rounds,
			const char *where, unsigned then)
{
	flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE,
			       "memory_gc_rounds is %" PRIu64 " %s, above the guide's %u", rounds,
			       where, GUIDE_MAX);
	flmem_answer_set_next(answer, "set it to %u", then);
}

/*
 * Sets the answer about an interval. `wanted` is the guide's value; `bad` is a finding about it, or
 * NULL.
 */
static void report_interval(struct flmem_troubleshoot_answer *answer, struct flmem_u64 rounds,
			    const char *where, unsigned wanted, const struct flmem_finding *bad)
{
	if (bad) {
		flmem_answer_report(answer, bad);
	} else if (rounds.unknown) {
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL, "%s", rounds.unknown);
		flmem_answer_set_next(answer, "%s", FLMEM_ANSWER_NAME_JOB);
	} else if (!rounds.value) {
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE, "memory_gc_rounds is 0 %s",
				       where);
		flmem_answer_set_next(answer, "%s",
				      where == in_job
					      ? "flmem recommend --fix on the job"
					      : "start it without NVFLARE_CLIENT_MEMORY_GC_ROUNDS");
	} else if (rounds.value > GUIDE_MAX) {
		report_rare(answer, rounds.value, where, wanted);
	} else {
		flmem_answer_set_state(answer, FLMEM_STEP_DONE,
				       "memory_gc_rounds is %" PRIu64 " %s", rounds.value, where);
	}
}

void flmem_troubleshoot_server_gc(const struct flmem_troubleshoot_case *one,
				  struct flmem_troubleshoot_answer *answer)
{
	if (!is_watchable_instead(one, answer))
		report_interval(answer, one->found->server_gc_rounds, in_job, 5,
				FLMEM_ANSWER_FINDING(one, "NVF-SRV-GC-OFF", "NVF-SRV-GC-IGNORED"));
}

static struct flmem_u64 client_rounds(const struct flmem_troubleshoot_case *one)
{
	struct flmem_u64 job = one->found->client_gc_rounds;

	return one->process ? flmem_gc_rounds_of(one->process, job) : job;
}

/*
 * The finding that proposes another interval for a recorded client: with `back`, to return to 1 as
 * memory rises or is short; else, to raise it. NULL: none.
 */
static const struct flmem_finding *find_interval_advice(const struct flmem_troubleshoot_case *one,
							bool back)
{
	const struct flmem_finding *f = FLMEM_ANSWER_FINDING(one, "NVF-CLI-GC-TUNE");

	return f && f->proposed && (strcmp(f->proposed, "1") == 0) == back ? f : NULL;
}

void flmem_troubleshoot_client_gc(const struct flmem_troubleshoot_case *one,
				  struct flmem_troubleshoot_answer *answer)
{
	const struct flmem_finding *bad =
		FLMEM_ANSWER_FINDING(one, "NVF-CLI-GC-OFF", "NVF-CUDA-NOOP");
	struct flmem_u64 nothing = FLMEM_UNKNOWN(""), own = nothing;

	/*
	 * An interval in the environment overrides the job, and the findings about the job with it.
	 */
	if (one->process)
		own = flmem_gc_rounds_of(one->process, nothing);
	if (!own.unknown)
		bad = NULL;
	if (!is_watchable_instead(one, answer))
		report_interval(answer, client_rounds(one), own.unknown ? in_job : in_environment,
				1, bad ? bad : find_interval_advice(one, true));
}

static bool is_unstable(const struct flmem_watch_result *recorded)
{
	return recorded->trend.verdict == FLMEM_TREND_CLIMBING ||
	       flmem_recorded_had_pressure(recorded);
}

void flmem_troubleshoot_interval(const struct flmem_troubleshoot_case *one,
				 struct flmem_troubleshoot_answer *answer)
{
	const struct flmem_watch_result *recorded = one->recorded;
	const struct flmem_finding *more = find_interval_advice(one, false);
	struct flmem_u64 rounds = client_rounds(one);
	char count[FLMEM_TEXT_COUNTED_MAX];

	if (is_watchable_instead(one, answer))
		return;
	if (more) {
		flmem_answer_report(answer, more);
	} else if (!rounds.unknown && rounds.value > 1 && recorded && is_unstable(recorded)) {
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE,
				       "RSS is not stable at memory_gc_rounds %" PRIu64 ": %s",
				       rounds.value,
				       flmem_trend_verdict_name(recorded->trend.verdict));
		flmem_answer_set_next(answer, "set it back to 1");
	} else if (!rounds.unknown && rounds.value > GUIDE_MAX) {
		report_rare(answer, rounds.value, "now", 1);
	} else if (!rounds.unknown && rounds.value == GUIDE_MAX) {
		flmem_answer_set_state(answer, FLMEM_STEP_DONE, "memory_gc_rounds is %" PRIu64,
				       rounds.value);
	} else if (!recorded) {
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL,
				       "a recording is needed to check whether RSS is stable");
		flmem_answer_advise_watch(one, answer, "");
	} else if (recorded->trend.verdict == FLMEM_TREND_TOO_EARLY) {
		flmem_answer_set_state(
			answer, FLMEM_STEP_CANNOT_TELL, "recorded for %s: %s",
			flmem_text_counted(recorded->rounds, "round", count, sizeof(count)),
			recorded->trend.reason);
		flmem_answer_advise_watch(one, answer, "");
	} else if (recorded->trend.verdict != FLMEM_TREND_FLAT ||
		   flmem_recorded_had_pressure(recorded)) {
		flmem_answer_set_state(
			answer, FLMEM_STEP_NOT_NEEDED, "RSS is not stable: %s%s",
			flmem_trend_verdict_name(recorded->trend.verdict),
			flmem_recorded_had_pressure(recorded) ? ", and memory was short" : "");
	} else {
		flmem_answer_set_state(
			answer, FLMEM_STEP_CANNOT_TELL, "RSS is flat; memory_gc_rounds: %s",
			rounds.unknown ? rounds.unknown : "too few recorded rounds to raise it");
	}
}

/*
 * Why the interval of a side is unknown although a job sets it; NULL if it is known, or no job sets
 * one.
 */
static const char *why_open(bool asked, struct flmem_u64 rounds)
{
	return asked && !flmem_nvflare_is_in_no_job(rounds) ? rounds.unknown : NULL;
}

/* Answers for the side of the process; if its role is unknown, for both sides that a job sets. */
void flmem_troubleshoot_every_round(const struct flmem_troubleshoot_case *one,
				    struct flmem_troubleshoot_answer *answer)
{
	struct flmem_u64 server = one->found->server_gc_rounds, client = client_rounds(one);
	bool at_server = !one->role || flmem_role_is_server(one->role);
	bool at_client = !one->role || !flmem_role_is_server(one->role);
	bool rare_server = at_server && !server.unknown && server.value != 1;
	bool rare_client = at_client && !client.unknown && client.value != 1;
	const char *open = why_open(at_client, client);

	if (is_watchable_instead(one, answer))
		return;
	open = open ? open : why_open(at_server, server);
	if (!open && (!at_server || server.unknown) && (!at_client || client.unknown))
		open = at_client ? client.unknown : server.unknown;
	if (rare_server || rare_client) {
		flmem_answer_set_state(answer, FLMEM_STEP_NOT_DONE,
				       "memory_gc_rounds is %" PRIu64 " for the %s",
				       rare_server ? server.value : client.value,
				       rare_server ? "server" : "clients");
		flmem_answer_set_next(answer, "set it to 1 until memory is stable");
	} else if (open) {
		flmem_answer_set_state(answer, FLMEM_STEP_CANNOT_TELL, "%s", open);
		flmem_answer_set_next(answer, "%s", FLMEM_ANSWER_NAME_JOB);
	} else {
		flmem_answer_set_state(answer, FLMEM_STEP_DONE, "memory_gc_rounds is 1 in the job");
	}
}
