/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/auto.h"

#include <errno.h>
#include <stdio.h>

#include <flmem/repeat.h>

#include "base/cleanup.h"
#include "ops/chores.h"
#include "ops/outlook.h"
#include "series/policy.h"

#define LOOK_US		30000000U
#define EVERY_ON_CLIENT 1U
#define EVERY_ON_SERVER 5U

struct flmem_auto {
	struct flmem_watch_auto options;
	uint64_t look_us;
	struct flmem_condition *fallback; /* where no rounds are known */
	struct flmem_chores *chores;
};

/* One process of the watch. */
struct flmem_ward {
	struct flmem_policy policy;
	bool busy;		/* a chore is under way */
	bool dropped;		/* it is left alone */
	bool pressed;		/* at the last tick */
	const char *told;	/* why the condition was undecided when that was last told */
	struct flmem_u64 round; /* that ended last */
};

static void fill_defaults(struct flmem_auto *a)
{
	struct flmem_watch_auto *o = &a->options;

	if (!o->trim.timeout_us)
		o->trim.timeout_us = FLMEM_WATCH_TRIM_TIMEOUT_US_DEFAULT;
	a->look_us = o->cool_down_us ? o->cool_down_us : LOOK_US;
	if (!o->cool_down_us)
		o->cool_down_us = FLMEM_WATCH_COOL_DOWN_US_DEFAULT;
	if (!o->least_bytes)
		o->least_bytes = FLMEM_REPEAT_LEAST_BYTES_DEFAULT;
	if (!o->in_vain_max)
		o->in_vain_max = FLMEM_REPEAT_IN_VAIN_MAX_DEFAULT;
}

int flmem_auto_open(const struct flmem_watch_auto *options, struct flmem_auto **ret_auto,
		    struct flmem_error *err)
{
	struct flmem_auto *a = calloc(1, sizeof(*a));
	int rc = 0;

	if (a) {
		a->options = *options;
		fill_defaults(a);
		a->chores = flmem_chores_new();
		rc = flmem_condition_parse(FLMEM_WATCH_WHEN_DEFAULT, &a->fallback, err);
	}
	if (a && a->chores && !rc) {
		*ret_auto = a;
		return 0;
	}
	flmem_auto_free(a);
	return rc ? rc : flmem_error_set(err, FLMEM_EFAILED, ENOMEM, "cannot prepare trims");
}

void flmem_auto_free(struct flmem_auto *automatic)
{
	if (!automatic)
		return;
	flmem_chores_free(automatic->chores);
	flmem_condition_free(automatic->fallback);
	free(automatic);
}

static struct flmem_ward *ward_of(const struct flmem_auto *a, struct flmem_followed *f)
{
	const struct flmem_watch_auto *o = &a->options;
	const struct flmem_policy_rules rules = {
		.every_rounds = o->every_rounds			   ? o->every_rounds
				: flmem_role_is_server(f->id.role) ? EVERY_ON_SERVER
								   : EVERY_ON_CLIENT,
		.fixed = o->every_rounds != 0,
		.cool_down_us = o->cool_down_us,
		.look_us = a->look_us,
		.least_bytes = o->least_bytes,
		.in_vain_max = o->in_vain_max,
	};

	if (f->ward)
		return f->ward;
	f->ward = calloc(1, sizeof(*f->ward));
	if (f->ward) {
		flmem_policy_init(&f->ward->policy, &rules);
		f->ward->round = FLMEM_UNKNOWN("no round has ended");
	}
	return f->ward;
}

static struct flmem_watch_action action(const struct flmem_followed *f,
					enum flmem_watch_action_kind kind, const char *reason,
					const struct flmem_moment *moment)
{
	static const char none[] = "no trim was made";

	return (struct flmem_watch_action){
		.process = &f->id,
		.kind = kind,
		.at_us = moment->at_us,
		.elapsed_us = moment->now_us,
		.round = f->ward->round,
		.every_rounds = f->ward->policy.every,
		.reason = reason,
		.rss_before_bytes = FLMEM_UNKNOWN(none),
		.rss_after_bytes = FLMEM_UNKNOWN(none),
		.released_bytes = FLMEM_UNKNOWN(none),
		.stopped_us = FLMEM_UNKNOWN(none),
	};
}

static void tell_change(struct flmem_watching *w, struct flmem_followed *f,
			const struct flmem_policy_decision *decision,
			const struct flmem_moment *moment)
{
	static const enum flmem_watch_action_kind kinds[] = {
		[FLMEM_POLICY_LOOSENED] = FLMEM_WATCH_LOOSENED,
		[FLMEM_POLICY_TIGHTENED] = FLMEM_WATCH_TIGHTENED,
		[FLMEM_POLICY_RESTING] = FLMEM_WATCH_RESTING,
		[FLMEM_POLICY_RESUMED] = FLMEM_WATCH_RESUMED,
	};
	struct flmem_watch_action told;

	if (decision->change == FLMEM_POLICY_SAME)
		return;
	told = action(f, kinds[decision->change], decision->change_reason, moment);
	flmem_watching_action(w, f, &told);
}

static const struct flmem_condition *condition_for(const struct flmem_auto *a,
						   const struct flmem_followed *f)
{
	if (a->options.when)
		return a->options.when;
	return f->rounds.any ? NULL : a->fallback;
}

static void ask_for_trim(const struct flmem_auto *a, const struct flmem_followed *f,
			 const char *reason, const struct flmem_condition *when)
{
	struct flmem_chore *chore = calloc(1, sizeof(*chore));

	if (!chore)
		return;
	chore->pid = f->id.pid;
	chore->start_time = f->id.start_time;
	chore->when = when;
	chore->options = a->options.trim;
	snprintf(chore->reason, sizeof(chore->reason), "%s", reason);
	f->ward->busy = flmem_chores_add(a->chores, chore);
}

static void decide(const struct flmem_auto *a, struct flmem_watching *w, struct flmem_followed *f,
		   struct flmem_policy_signs *signs, const struct flmem_moment *moment)
{
	struct flmem_policy_decision decision;
	struct flmem_trend trend;

	flmem_outlook_trend(f, &trend);
	signs->now_us = moment->now_us;
	signs->rss_bytes = f->last_bytes;
	signs->verdict = trend.verdict;
	flmem_policy_decide(&f->ward->policy, signs, &decision);
	tell_change(w, f, &decision, moment);
	if (decision.trim && !f->ward->busy)
		ask_for_trim(a, f, decision.trim_reason,
			     signs->occasion == FLMEM_POLICY_CONDITION ? condition_for(a, f)
								       : NULL);
}

void flmem_auto_round(struct flmem_auto *automatic, struct flmem_watching *watching,
		      const struct flmem_pressures *pressures, struct flmem_followed *followed,
		      const struct flmem_moment *moment)
{
	struct flmem_policy_signs signs = {.occasion = FLMEM_POLICY_ROUND};
	struct flmem_ward *ward = ward_of(automatic, followed);

	if (!ward || ward->dropped)
		return;
	signs.pressure = flmem_pressures_short(pressures, followed->group, moment->now_us);
	signs.pressed = signs.pressure != NULL;
	ward->round = FLMEM_KNOWN(followed->rounds.last.number);
	decide(automatic, watching, followed, &signs, moment);
}

static void look(const struct flmem_auto *a, struct flmem_watching *w,
		 const struct flmem_pressures *pressures, struct flmem_followed *f,
		 const struct flmem_moment *moment)
{
	struct flmem_policy_signs signs = {.occasion = FLMEM_POLICY_CONDITION};
	struct flmem_ward *ward = ward_of(a, f);
	bool pressed;

	if (!ward || ward->dropped)
		return;
	signs.pressure = flmem_pressures_short(pressures, f->group, moment->now_us);
	signs.pressed = signs.pressure != NULL;
	pressed = signs.pressed && !ward->pressed;
	ward->pressed = signs.pressed;
	if (pressed)
		signs.occasion = FLMEM_POLICY_PRESSURE;
	else if (ward->busy || !condition_for(a, f) ||
		 !flmem_policy_may_look(&ward->policy, moment->now_us))
		return;
	decide(a, w, f, &signs, moment);
}

static struct flmem_followed *find(const struct flmem_watching *w, const struct flmem_chore *chore)
{
	for (size_t i = 0; i < w->count; i++) {
		struct flmem_followed *f = w->followed[i];

		if (f->id.pid == chore->pid && f->id.start_time == chore->start_time)
			return f->ward ? f : NULL;
	}
	return NULL;
}

static enum flmem_watch_action_kind kind_of(const struct flmem_trim_result *result)
{
	switch (result->code) {
	case 0:
	case FLMEM_EPARTLY:
		return FLMEM_WATCH_TRIMMED;
	case FLMEM_EPERM:
	case FLMEM_EUNSUPPORTED:
		return FLMEM_WATCH_DROPPED;
	default:
		return FLMEM_WATCH_REFUSED;
	}
}

static void tell_trim(struct flmem_watching *w, struct flmem_followed *f,
		      const struct flmem_chore *chore, const struct flmem_moment *moment)
{
	const struct flmem_trim_result *result = &chore->result;
	char reason[FLMEM_POLICY_REASON_MAX + FLMEM_ERROR_MESSAGE_MAX + 4];
	struct flmem_policy_decision decision;
	struct flmem_watch_action told;

	told = action(f, kind_of(result), reason, moment);
	told.result = result;
	snprintf(reason, sizeof(reason), "%s%s%s", chore->reason, result->reason[0] ? ": " : "",
		 result->reason);
	if (told.kind == FLMEM_WATCH_DROPPED)
		f->ward->dropped = true;
	if (told.kind == FLMEM_WATCH_TRIMMED) {
		told.rss_before_bytes = result->rss_before_bytes;
		told.rss_after_bytes = result->rss_after_bytes;
		told.released_bytes = result->released_bytes;
		told.stopped_us = result->stopped_us;
	}
	flmem_watching_action(w, f, &told);
	if (told.kind != FLMEM_WATCH_TRIMMED)
		return;
	flmem_policy_done(&f->ward->policy, moment->now_us, result->released_bytes,
			  result->rss_after_bytes, &decision);
	tell_change(w, f, &decision, moment);
}

static void tell_undecided(struct flmem_watching *w, struct flmem_followed *f,
			   const struct flmem_chore *chore, const struct flmem_moment *moment)
{
	struct flmem_watch_action told;

	if (!chore->why || chore->why == f->ward->told)
		return;
	f->ward->told = chore->why;
	told = action(f, FLMEM_WATCH_UNDECIDED, chore->why, moment);
	flmem_watching_action(w, f, &told);
}

static void collect(const struct flmem_auto *a, struct flmem_watching *w,
		    const struct flmem_moment *moment)
{
	for (;;) {
		FLMEM_AUTO_FREE struct flmem_chore *chore = flmem_chores_take(a->chores);
		struct flmem_followed *f = chore ? find(w, chore) : NULL;

		if (!chore)
			return;
		if (!f)
			continue;
		f->ward->busy = false;
		if (chore->truth == FLMEM_UNDECIDED)
			tell_undecided(w, f, chore, moment);
		else if (chore->truth == FLMEM_TRUE && chore->result.code != FLMEM_ENOPROC)
			tell_trim(w, f, chore, moment);
	}
}

void flmem_auto_tick(struct flmem_auto *automatic, struct flmem_watching *watching,
		     const struct flmem_pressures *pressures, const struct flmem_moment *moment)
{
	collect(automatic, watching, moment);
	for (size_t i = 0; i < watching->count; i++)
		if (!watching->followed[i]->ended)
			look(automatic, watching, pressures, watching->followed[i], moment);
}

void flmem_auto_finish(struct flmem_auto *automatic, struct flmem_watching *watching,
		       const struct flmem_moment *moment)
{
	flmem_chores_finish(automatic->chores);
	collect(automatic, watching, moment);
}
