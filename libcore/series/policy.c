/* SPDX-License-Identifier: Apache-2.0 */
#include "series/policy.h"

#include <stdio.h>

#include <flmem/text.h>

#include "base/cleanup.h"

static const unsigned policy_steps[] = {1, 2, 5};

/* Growth after the last trim, as a share (1/n), that justifies another trim. */
#define REGROWTH_SHARE 10U

void flmem_policy_init(struct flmem_policy *policy, const struct flmem_policy_rules *rules)
{
	*policy = (struct flmem_policy){.rules = *rules, .every = rules->every_rounds};
}

static void record_change(struct flmem_policy_decision *d, enum flmem_policy_change what,
			  const char *reason)
{
	d->change = what;
	snprintf(d->change_reason, sizeof(d->change_reason), "%s", reason);
}

static unsigned next_step(unsigned every)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(policy_steps); i++)
		if (policy_steps[i] > every)
			return policy_steps[i];
	return every;
}

/*
 * Adapts the number of rounds between trims. Rising memory and memory pressure make trims frequent
 * at once; flat rounds make them rarer slowly.
 */
static void adapt_interval(struct flmem_policy *p, const struct flmem_policy_inputs *inputs,
			   struct flmem_policy_decision *d)
{
	bool climbs = inputs->verdict == FLMEM_TREND_CLIMBING;
	char reason[FLMEM_POLICY_REASON_MAX];

	if (climbs || inputs->under_pressure) {
		p->flat = 0;
		if (p->every == policy_steps[0] || p->rules.fixed)
			return;
		p->every = policy_steps[0];
		record_change(d, FLMEM_POLICY_INTERVAL_LOWERED,
			      climbs ? "its memory keeps rising" : inputs->pressure);
		return;
	}
	if (inputs->occasion != FLMEM_POLICY_ROUND)
		return;
	p->flat = inputs->verdict == FLMEM_TREND_FLAT ? p->flat + 1 : 0;
	if (p->flat < FLMEM_POLICY_FLAT_ROUNDS || p->rules.fixed || next_step(p->every) == p->every)
		return;
	p->every = next_step(p->every);
	p->flat = 0;
	snprintf(reason, sizeof(reason), "its memory has been flat for %u rounds",
		 FLMEM_POLICY_FLAT_ROUNDS);
	record_change(d, FLMEM_POLICY_INTERVAL_RAISED, reason);
}

static bool has_regrown(const struct flmem_policy *p, uint64_t rss_bytes)
{
	uint64_t more = p->after_bytes / REGROWTH_SHARE;

	if (more < p->rules.min_release_bytes)
		more = p->rules.min_release_bytes;
	return rss_bytes > p->after_bytes && rss_bytes - p->after_bytes > more;
}

/*
 * Resumes paused trims on a new condition only: a leak keeps rising, and trims of it stay
 * ineffective.
 */
static void resume_trims(struct flmem_policy *p, const struct flmem_policy_inputs *inputs,
			 struct flmem_policy_decision *d)
{
	const char *reason = NULL;

	if (inputs->under_pressure &&
	    (!p->under_pressure || inputs->occasion == FLMEM_POLICY_PRESSURE))
		reason = inputs->pressure;
	else if (inputs->verdict == FLMEM_TREND_CLIMBING && !p->was_climbing)
		reason = "its memory has begun to rise";
	else if (has_regrown(p, inputs->rss_bytes))
		reason = "its memory is a tenth above the level after the last trim";
	if (!reason)
		return;
	p->paused = false;
	/* The next ineffective trim pauses trims again. */
	p->ineffective = p->rules.max_ineffective ? p->rules.max_ineffective - 1 : 0;
	record_change(d, FLMEM_POLICY_RESUMED, reason);
}

static void put_round_reason(const struct flmem_policy *p, struct flmem_policy_decision *d)
{
	char count[FLMEM_TEXT_COUNTED_MAX];

	if (p->every == 1)
		snprintf(d->trim_reason, sizeof(d->trim_reason),
			 "a round has ended, and a trim follows each");
	else
		snprintf(d->trim_reason, sizeof(d->trim_reason), "%s %s ended since the last trim",
			 flmem_text_counted(p->rounds, "round", count, sizeof(count)),
			 p->rounds == 1 ? "has" : "have");
}

static bool is_cooling(const struct flmem_policy *p, uint64_t now_us)
{
	return p->trimmed && now_us - p->trimmed_us < p->rules.cool_down_us;
}

/* Both the last trim and the last check must be long enough ago. */
bool flmem_policy_may_check(const struct flmem_policy *policy, uint64_t now_us)
{
	const struct flmem_policy *p = policy;

	return now_us - p->checked_us >= p->rules.check_us &&
	       (!p->trimmed || now_us - p->trimmed_us >= p->rules.check_us);
}

static void decide_trim(struct flmem_policy *p, const struct flmem_policy_inputs *inputs,
			struct flmem_policy_decision *d)
{
	if (p->paused || is_cooling(p, inputs->now_us))
		return;
	switch (inputs->occasion) {
	case FLMEM_POLICY_ROUND:
		d->trim = p->rounds >= p->every;
		if (d->trim)
			put_round_reason(p, d);
		break;
	case FLMEM_POLICY_CONDITION:
		d->trim = flmem_policy_may_check(p, inputs->now_us);
		if (!d->trim)
			break;
		p->checked_us = inputs->now_us;
		snprintf(d->trim_reason, sizeof(d->trim_reason), "the condition is met");
		break;
	case FLMEM_POLICY_PRESSURE:
		d->trim = true;
		snprintf(d->trim_reason, sizeof(d->trim_reason), "%s", inputs->pressure);
		break;
	}
}

void flmem_policy_decide(struct flmem_policy *policy, const struct flmem_policy_inputs *inputs,
			 struct flmem_policy_decision *ret_decision)
{
	*ret_decision = (struct flmem_policy_decision){0};
	if (inputs->occasion == FLMEM_POLICY_ROUND)
		policy->rounds++;
	if (policy->paused)
		resume_trims(policy, inputs, ret_decision);
	else
		adapt_interval(policy, inputs, ret_decision);
	decide_trim(policy, inputs, ret_decision);
	policy->under_pressure = inputs->under_pressure;
	policy->was_climbing = inputs->verdict == FLMEM_TREND_CLIMBING;
}

void flmem_policy_done(struct flmem_policy *policy, uint64_t now_us, struct flmem_u64 released,
		       struct flmem_u64 after, struct flmem_policy_decision *ret_decision)
{
	char reason[FLMEM_POLICY_REASON_MAX], count[FLMEM_TEXT_COUNTED_MAX];

	*ret_decision = (struct flmem_policy_decision){0};
	policy->trimmed = true;
	policy->trimmed_us = now_us;
	policy->rounds = 0;
	if (!after.unknown)
		policy->after_bytes = after.value;
	if (released.unknown || released.value >= policy->rules.min_release_bytes) {
		policy->ineffective = 0;
		return;
	}
	if (++policy->ineffective < policy->rules.max_ineffective)
		return;
	policy->paused = true;
	policy->flat = 0;
	snprintf(reason, sizeof(reason), "%s in a row %s lowered RSS by almost nothing",
		 flmem_text_counted(policy->ineffective, "trim", count, sizeof(count)),
		 policy->ineffective == 1 ? "has" : "have");
	record_change(ret_decision, FLMEM_POLICY_PAUSED, reason);
}
