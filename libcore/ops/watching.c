/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watching.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "ops/outlook.h"
#include "ops/succession.h"
#include "ops/watch_advice.h"

/* What a kill may cost a recording. */
#define FLUSH_EVERY_US 10000000U

static const char no_round[] = "no round is known to run";

void flmem_watching_init(struct flmem_watching *watching, const struct flmem_watch_options *options,
			 const struct flmem_watch_callbacks *callbacks, uint64_t interval_us)
{
	*watching = (struct flmem_watching){
		.options = options,
		.callbacks = callbacks,
		.interval_us = interval_us,
		.round = FLMEM_UNKNOWN(no_round),
		.recorder = {.fd = -1, .block = FLMEM_BUF_INIT, .intro = FLMEM_BUF_INIT},
	};
}

void flmem_watching_clear(struct flmem_watching *watching)
{
	for (size_t i = 0; i < watching->count; i++)
		flmem_followed_free(watching->followed[i]);
	free(watching->followed);
	watching->followed = NULL;
	watching->count = 0;
	flmem_recorder_close(&watching->recorder);
}

static void record(struct flmem_watching *w, const struct flmem_record *record)
{
	if (w->recorder.fd >= 0)
		flmem_recorder_add(&w->recorder, record);
}

static void record_process(struct flmem_watching *w, const struct flmem_followed *f)
{
	struct flmem_record r = {
		.kind = FLMEM_RECORD_PROCESS,
		.process = f->number,
		.pid = (uint64_t)f->id.pid,
		.start_time = f->id.start_time,
		.framework = f->id.framework,
		.role = f->id.role,
		.command = f->id.command,
		.site = f->id.site ? f->id.site : "",
	};

	record(w, &r);
}

static void record_running(struct flmem_watching *w)
{
	const struct flmem_record runs = {.kind = FLMEM_RECORD_ROUND_RUNS, .round = w->round.value};

	if (!w->round.unknown)
		record(w, &runs);
}

int flmem_watching_record(struct flmem_watching *watching, struct flmem_error *err)
{
	struct flmem_record session = {
		.kind = FLMEM_RECORD_SESSION,
		.interval_us = watching->interval_us,
		.at_us = flmem_clock_wall_us(),
	};
	int rc;

	if (!watching->options->record_path)
		return 0;
	rc = flmem_recorder_open(watching->options->record_path, &watching->recorder, err);
	if (rc)
		return rc;
	record(watching, &session);
	for (size_t i = 0; i < watching->count; i++)
		record_process(watching, watching->followed[i]);
	record_running(watching);
	return 0;
}

static int make_room(struct flmem_watching *w)
{
	size_t capacity = w->capacity ? w->capacity * 2 : 16;
	struct flmem_followed **grown;

	if (w->count < w->capacity)
		return 0;
	if (w->count >= FLMEM_WATCHING_MAX)
		return -ENOSPC;
	grown = reallocarray(w->followed, capacity, sizeof(struct flmem_followed *));
	if (!grown)
		return -ENOMEM;
	w->followed = grown;
	w->capacity = capacity;
	return 0;
}

int flmem_watching_add(struct flmem_watching *watching, struct flmem_followed *followed, bool fresh,
		       struct flmem_followed **ret_followed, struct flmem_error *err)
{
	struct flmem_followed *heir;
	int rc;

	followed->number = watching->numbered++;
	heir = flmem_succession_join(watching, followed);
	rc = heir ? 0 : make_room(watching);
	if (rc) {
		flmem_followed_free(followed);
		return flmem_error_set(err, FLMEM_EFAILED, -rc,
				       "cannot follow more than %zu processes", watching->count);
	}
	if (!heir) {
		heir = followed;
		flmem_round_stats_init(&heir->rounds, watching->interval_us, fresh);
		watching->followed[watching->count++] = heir;
	}
	watching->alive++;
	record_process(watching, heir);
	if (ret_followed)
		*ret_followed = heir;
	return 0;
}

void flmem_watching_tick(struct flmem_watching *watching, uint64_t now_us, uint64_t at_us)
{
	const struct flmem_record tick = {
		.kind = FLMEM_RECORD_TICK, .elapsed_us = now_us, .at_us = at_us};

	watching->at_us = at_us;
	if (watching->recorder.fd < 0)
		return;
	if (now_us - watching->flushed_us >= FLUSH_EVERY_US) {
		flmem_recorder_flush(&watching->recorder);
		watching->flushed_us = now_us;
	}
	flmem_recorder_add(&watching->recorder, &tick);
}

static void tell_round(struct flmem_watching *w, const struct flmem_followed *f,
		       struct flmem_watch_round *round)
{
	round->process = &f->id;
	if (w->callbacks->round && !w->callbacks->round(w->callbacks->context, round))
		w->stopped = true;
}

static uint64_t or_none(struct flmem_u64 value)
{
	return value.unknown ? UINT64_MAX : value.value;
}

static void record_action(struct flmem_watching *w, const struct flmem_followed *f,
			  const struct flmem_watch_action *action)
{
	const struct flmem_record r = {
		.kind = FLMEM_RECORD_ACTION,
		.process = f->number,
		.action = action->kind,
		.numbers = {[FLMEM_RECORD_EVERY] = action->every_rounds,
			    [FLMEM_RECORD_ROUND] = or_none(action->round),
			    [FLMEM_RECORD_BEFORE] = or_none(action->rss_before_bytes),
			    [FLMEM_RECORD_AFTER] = or_none(action->rss_after_bytes),
			    [FLMEM_RECORD_RELEASED] = or_none(action->released_bytes),
			    [FLMEM_RECORD_STOPPED] = or_none(action->stopped_us)},
		.reason = action->reason,
	};

	flmem_recorder_add(&w->recorder, &r);
}

static void record_pressure(struct flmem_watching *w, const struct flmem_followed *f)
{
	struct flmem_record r = {
		.kind = FLMEM_RECORD_PRESSURE,
		.process = f->number,
		.of_host = f->pressure.stalls_of_host,
	};

	memcpy(r.numbers, f->pressure_told, sizeof(f->pressure_told));
	flmem_recorder_add(&w->recorder, &r);
}

/* Only what is new is told: want of memory is rare, and a replay tells what was recorded. */
static bool pressure_differs(struct flmem_followed *f)
{
	const struct flmem_pressure *p = &f->pressure;
	const uint64_t numbers[FLMEM_RECORD_NUMBERS] = {
		[FLMEM_RECORD_HIGH] = or_none(p->high),
		[FLMEM_RECORD_MAX] = or_none(p->max),
		[FLMEM_RECORD_OOM] = or_none(p->oom),
		[FLMEM_RECORD_OOM_KILL] = or_none(p->oom_kill),
		[FLMEM_RECORD_SOME] = or_none(p->some_avg10_hundredths),
		[FLMEM_RECORD_FULL] = or_none(p->full_avg10_hundredths),
		[FLMEM_RECORD_TOTAL] = or_none(p->some_total_us),
	};

	if (f->pressure_is_told && memcmp(f->pressure_told, numbers, sizeof(numbers)) == 0)
		return false;
	memcpy(f->pressure_told, numbers, sizeof(numbers));
	f->pressure_is_told = true;
	return true;
}

static void record_split(struct flmem_watching *w, const struct flmem_followed *f)
{
	const struct flmem_u64 *kinds[] = {
		[FLMEM_RECORD_ANON] = &f->split.anon_bytes,
		[FLMEM_RECORD_FILE] = &f->split.file_bytes,
		[FLMEM_RECORD_SHMEM] = &f->split.shmem_bytes,
		[FLMEM_RECORD_SWAP] = &f->split.swap_bytes,
	};
	struct flmem_record r = {.kind = FLMEM_RECORD_SPLIT, .process = f->number};

	for (size_t i = 0; i < FLMEM_RECORD_KINDS; i++)
		r.kinds[i] = or_none(*kinds[i]);
	flmem_recorder_add(&w->recorder, &r);
}

static void record_sample(struct flmem_watching *w, const struct flmem_followed *f, bool split)
{
	const struct flmem_record sample = {
		.kind = FLMEM_RECORD_SAMPLE, .process = f->number, .bytes = f->last_bytes};

	/* In this order a reader has the split when it comes to the sample that took it. */
	if (split)
		record_split(w, f);
	if (f->pressure_is_new)
		record_pressure(w, f);
	flmem_recorder_add(&w->recorder, &sample);
}

static struct flmem_u64 own_round(const struct flmem_followed *f)
{
	return f->rounds.running ? FLMEM_KNOWN(f->rounds.now.number) : FLMEM_UNKNOWN(no_round);
}

static void tell_sample(struct flmem_watching *w, const struct flmem_followed *f, uint64_t at_us,
			bool split)
{
	const struct flmem_watch_sample sample = {
		.process = &f->id,
		.at_us = at_us,
		.elapsed_us = f->last_us,
		.rss_bytes = f->last_bytes,
		.round = f->own_rounds ? own_round(f) : w->round,
		.split = split ? &f->split : NULL,
		.pressure = f->pressure_is_new ? &f->pressure : NULL,
	};

	if (w->callbacks->sample && !w->callbacks->sample(w->callbacks->context, &sample))
		w->stopped = true;
}

void flmem_watching_sample(struct flmem_watching *watching, struct flmem_followed *followed,
			   uint64_t at_us, bool split)
{
	const struct flmem_watch_options *o = watching->options;
	struct flmem_watch_round round;

	if (o->fail_above_bytes && followed->last_bytes > o->fail_above_bytes)
		followed->passed_above = true;
	if (followed->pressure_is_new)
		followed->pressure_is_new = pressure_differs(followed);
	if (watching->recorder.fd >= 0)
		record_sample(watching, followed, split);
	tell_sample(watching, followed, at_us, split);
	followed->pressure_is_new = false;
	if (watching->rounds_told && flmem_round_stats_sample(&followed->rounds, followed->last_us,
							      followed->last_bytes, &round))
		tell_round(watching, followed, &round);
}

const char *flmem_watch_action_name(enum flmem_watch_action_kind kind)
{
	static const char *const names[] = {
#define ACTION_NAME(name, text) text,
		FLMEM_WATCH_ACTIONS(ACTION_NAME)
#undef ACTION_NAME
	};

	return names[(size_t)kind < FLMEM_ARRAY_SIZE(names) ? kind : FLMEM_WATCH_REFUSED];
}

static void count_action(struct flmem_watch_actions *sum, const struct flmem_watch_action *action)
{
	sum->count[action->kind]++;
	sum->every_rounds = action->every_rounds;
	if (!action->released_bytes.unknown)
		sum->released_bytes += action->released_bytes.value;
	if (!action->stopped_us.unknown)
		sum->stopped_us += action->stopped_us.value;
}

void flmem_watching_action(struct flmem_watching *watching, struct flmem_followed *followed,
			   const struct flmem_watch_action *action)
{
	const struct flmem_watch_callbacks *callbacks = watching->callbacks;

	count_action(&followed->actions, action);
	if (action->kind == FLMEM_WATCH_TRIMMED)
		flmem_round_stats_trimmed(&followed->rounds);
	if (action->kind == FLMEM_WATCH_RESTING || action->kind == FLMEM_WATCH_DROPPED)
		flmem_round_stats_trims_stop(&followed->rounds);
	if (watching->recorder.fd >= 0)
		record_action(watching, followed, action);
	if (callbacks->action && !callbacks->action(callbacks->context, action))
		watching->stopped = true;
}

void flmem_watching_renamed(struct flmem_watching *watching, const struct flmem_followed *followed)
{
	record_process(watching, followed);
}

void flmem_watching_end(struct flmem_watching *watching, struct flmem_followed *followed)
{
	const struct flmem_record end = {.kind = FLMEM_RECORD_END, .process = followed->number};

	if (followed->ended)
		return;
	flmem_followed_end(followed);
	watching->alive--;
	record(watching, &end);
}

static void change_round(struct flmem_watching *w, struct flmem_followed *f, uint64_t now_us,
			 const struct flmem_round_change *change)
{
	struct flmem_watch_round round;

	if (change->finished && flmem_round_stats_finish(&f->rounds, now_us, &round))
		tell_round(w, f, &round);
	if (change->started &&
	    flmem_round_stats_start(&f->rounds, now_us, change->started_number, &round))
		tell_round(w, f, &round);
}

void flmem_watching_round(struct flmem_watching *watching, uint64_t now_us,
			  const struct flmem_round_change *change)
{
	struct flmem_record r = {.kind = FLMEM_RECORD_ROUND_END, .round = change->finished_number};

	watching->rounds_told = true;
	if (change->finished)
		record(watching, &r);
	if (change->finished && watching->seen_start)
		watching->complete++;
	if (change->finished)
		watching->round = FLMEM_UNKNOWN(no_round);
	if (change->started) {
		r.kind = FLMEM_RECORD_ROUND_START;
		r.round = change->started_number;
		record(watching, &r);
		watching->round = FLMEM_KNOWN(change->started_number);
	}
	watching->seen_start = change->started;
	for (size_t i = 0; i < watching->count; i++)
		if (!watching->followed[i]->ended && !watching->followed[i]->own_rounds)
			change_round(watching, watching->followed[i], now_us, change);
}

void flmem_watching_own_rounds(struct flmem_watching *watching, struct flmem_followed *followed)
{
	const struct flmem_record own = {.kind = FLMEM_RECORD_OWN_ROUNDS,
					 .process = followed->number};

	followed->own_rounds = true;
	followed->rounds.running = false;
	record(watching, &own);
}

void flmem_watching_round_of(struct flmem_watching *watching, struct flmem_followed *followed,
			     uint64_t now_us, const struct flmem_round_change *change)
{
	struct flmem_record r = {.kind = FLMEM_RECORD_OWN_END,
				 .process = followed->number,
				 .round = change->finished_number};

	watching->rounds_told = true;
	if (change->finished)
		record(watching, &r);
	r.kind = FLMEM_RECORD_OWN_START;
	r.round = change->started_number;
	if (change->started)
		record(watching, &r);
	change_round(watching, followed, now_us, change);
}

void flmem_watching_round_runs(struct flmem_watching *watching, struct flmem_u64 number)
{
	watching->round = number.unknown ? FLMEM_UNKNOWN(no_round) : number;
	watching->seen_start = false;
	for (size_t i = 0; i < watching->count; i++)
		watching->followed[i]->rounds.running = false;
}

bool flmem_watching_is_settling(const struct flmem_watching *watching)
{
	for (size_t i = 0; i < watching->count; i++)
		if (!watching->followed[i]->ended && watching->followed[i]->rounds.settling)
			return true;
	return false;
}

/* Rounds whose trough is still looked for end with what there is. */
static void flush_rounds(struct flmem_watching *w)
{
	struct flmem_watch_round round;

	for (size_t i = 0; i < w->count; i++)
		if (flmem_round_stats_flush(&w->followed[i]->rounds, &round))
			tell_round(w, w->followed[i], &round);
}

int flmem_watching_finish(struct flmem_watching *watching, bool live,
			  struct flmem_watch_summary *ret_summary, struct flmem_error *err)
{
	struct flmem_watch_summary summary = {.rounds = watching->complete,
					      .forgotten = watching->forgotten,
					      .limit_passed = watching->forgotten_passed,
					      .missed = watching->missed};
	int rc;

	flush_rounds(watching);
	if (watching->recorder.fd >= 0)
		flmem_recorder_flush(&watching->recorder);
	summary.record_lost = watching->recorder.lost;
	summary.record_errno = watching->recorder.error;
	summary.results = calloc(watching->count ? watching->count : 1, sizeof(*summary.results));
	if (!summary.results)
		return flmem_error_set(err, FLMEM_EFAILED, ENOMEM, "cannot sum up");
	rc = flmem_outlook_make(watching, live, summary.results, err);
	if (rc) {
		free(summary.results);
		return rc;
	}
	summary.count = watching->count;
	for (size_t i = 0; i < summary.count; i++)
		summary.limit_passed |= summary.results[i].findings[0] != NULL;
	rc = flmem_watch_advise(watching->options, live, &summary, err);
	if (rc)
		flmem_watch_summary_clear(&summary);
	else
		*ret_summary = summary;
	return rc;
}

void flmem_watch_summary_clear(struct flmem_watch_summary *summary)
{
	for (size_t i = 0; i < summary->count; i++) {
		free(summary->results[i].process.command);
		free(summary->results[i].process.site);
	}
	free(summary->results);
	flmem_recommendations_clear(&summary->advice);
	*summary = (struct flmem_watch_summary){0};
}
