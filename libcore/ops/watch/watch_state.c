/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watch/watch_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "ops/watch/exec_follow.h"
#include "ops/watch/forecast_state.h"
#include "proc/peak.h"

/* If flmem is killed, the recording lacks at most the samples of this time. */
#define FLUSH_EVERY_US 10000000U

static const char no_round[] = "no round is known to run";

void flmem_watch_state_init(struct flmem_watch_state *watch_state,
			    const struct flmem_watch_options *options,
			    const struct flmem_watch_callbacks *callbacks, uint64_t interval_us)
{
	*watch_state = (struct flmem_watch_state){
		.options = options,
		.callbacks = callbacks,
		.interval_us = interval_us,
		.round = FLMEM_UNKNOWN(no_round),
		.recorder = {.fd = -1, .block = FLMEM_BUF_INIT, .intro = FLMEM_BUF_INIT},
	};
}

void flmem_watch_state_clear(struct flmem_watch_state *watch_state)
{
	for (size_t i = 0; i < watch_state->count; i++)
		flmem_watched_process_free(watch_state->watched[i]);
	free(watch_state->watched);
	watch_state->watched = NULL;
	watch_state->count = 0;
	flmem_recorder_close(&watch_state->recorder);
}

static void write_record(struct flmem_watch_state *state, const struct flmem_record *record)
{
	if (state->recorder.fd >= 0)
		flmem_recorder_add(&state->recorder, record);
}

static void record_process(struct flmem_watch_state *state,
			   const struct flmem_watched_process *watched)
{
	struct flmem_record r = {
		.kind = FLMEM_RECORD_PROCESS,
		.process = watched->number,
		.pid = (uint64_t)watched->id.pid,
		.start_time = watched->id.start_time,
		.framework = watched->id.framework,
		.role = watched->id.role,
		.command = watched->id.command,
		.site = watched->id.site ? watched->id.site : "",
	};

	write_record(state, &r);
}

static void record_running(struct flmem_watch_state *state)
{
	const struct flmem_record runs = {.kind = FLMEM_RECORD_ROUND_RUNS,
					  .round = state->round.value};

	if (!state->round.unknown)
		write_record(state, &runs);
}

void flmem_watch_state_warn(const struct flmem_watch_state *watch_state, const char *format, ...)
{
	char text[FLMEM_ERROR_MESSAGE_MAX];
	va_list values;

	if (!watch_state->callbacks->warning)
		return;
	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	watch_state->callbacks->warning(watch_state->callbacks->context, text);
}

/* Reports the first lost block, and another one after blocks could be written in between. */
static void report_lost_process(struct flmem_watch_state *state)
{
	const struct flmem_recorder *r = &state->recorder;
	bool lost = r->lost != state->lost_reported;

	if (lost && !state->losing)
		flmem_watch_state_warn(state,
				       "cannot record to '%s': %s; free some disk space, the "
				       "watch continues",
				       state->options->record_path, strerror(r->error));
	if (lost)
		state->losing = true;
	else if (r->size > state->lost_size)
		state->losing = false;
	state->lost_reported = r->lost;
	state->lost_size = r->size;
}

int flmem_watch_state_record(struct flmem_watch_state *watch_state, struct flmem_error *err)
{
	struct flmem_record session = {
		.kind = FLMEM_RECORD_SESSION,
		.interval_us = watch_state->interval_us,
		.at_us = flmem_clock_wall_us(),
	};
	int rc;

	if (!watch_state->options->record_path)
		return 0;
	rc = flmem_recorder_open(watch_state->options->record_path, &watch_state->recorder, err);
	if (rc)
		return rc;
	write_record(watch_state, &session);
	for (size_t i = 0; i < watch_state->count; i++)
		record_process(watch_state, watch_state->watched[i]);
	record_running(watch_state);
	/* Flush, so that a full disk is reported at once, not at the first full block. */
	flmem_recorder_flush(&watch_state->recorder);
	report_lost_process(watch_state);
	return 0;
}

static int make_process_room(struct flmem_watch_state *state)
{
	size_t capacity = state->capacity ? state->capacity * 2 : 16;
	struct flmem_watched_process **grown;

	if (state->count < state->capacity)
		return 0;
	if (state->count >= FLMEM_WATCH_PROCESSES_MAX)
		return -ENOSPC;
	grown = reallocarray(state->watched, capacity, sizeof(struct flmem_watched_process *));
	if (!grown)
		return -ENOMEM;
	state->watched = grown;
	state->capacity = capacity;
	return 0;
}

int flmem_watch_state_add(struct flmem_watch_state *watch_state,
			  struct flmem_watched_process *watched, bool fresh,
			  struct flmem_watched_process **ret_watched, struct flmem_error *err)
{
	struct flmem_watched_process *entry;
	int rc;

	watched->number = watch_state->numbered++;
	entry = flmem_exec_follow_join(watch_state, watched);
	rc = entry ? 0 : make_process_room(watch_state);
	if (rc) {
		flmem_watched_process_free(watched);
		return flmem_error_set(err, FLMEM_EFAILED, -rc,
				       "cannot follow more than %zu processes", watch_state->count);
	}
	if (!entry) {
		entry = watched;
		flmem_round_stats_init(&entry->rounds, watch_state->interval_us, fresh);
		watch_state->watched[watch_state->count++] = entry;
	}
	watch_state->alive++;
	record_process(watch_state, entry);
	if (ret_watched)
		*ret_watched = entry;
	return 0;
}

void flmem_watch_state_tick(struct flmem_watch_state *watch_state, uint64_t now_us, uint64_t at_us)
{
	const struct flmem_record tick = {
		.kind = FLMEM_RECORD_TICK, .elapsed_us = now_us, .at_us = at_us};

	watch_state->at_us = at_us;
	if (watch_state->recorder.fd < 0)
		return;
	if (now_us - watch_state->flushed_us >= FLUSH_EVERY_US) {
		flmem_recorder_flush(&watch_state->recorder);
		watch_state->flushed_us = now_us;
	}
	report_lost_process(watch_state);
	flmem_recorder_add(&watch_state->recorder, &tick);
}

static void report_round(struct flmem_watch_state *state,
			 const struct flmem_watched_process *watched,
			 struct flmem_watch_round *round)
{
	round->process = &watched->id;
	if (state->callbacks->round && !state->callbacks->round(state->callbacks->context, round))
		state->stopped = true;
}

static void record_action(struct flmem_watch_state *state,
			  const struct flmem_watched_process *watched,
			  const struct flmem_watch_action *action)
{
	const struct flmem_record r = {
		.kind = FLMEM_RECORD_ACTION,
		.process = watched->number,
		.action = action->kind,
		.numbers =
			{[FLMEM_RECORD_EVERY] = action->every_rounds,
			 [FLMEM_RECORD_ROUND] = flmem_u64_or(action->round, UINT64_MAX),
			 [FLMEM_RECORD_BEFORE] = flmem_u64_or(action->rss_before_bytes, UINT64_MAX),
			 [FLMEM_RECORD_AFTER] = flmem_u64_or(action->rss_after_bytes, UINT64_MAX),
			 [FLMEM_RECORD_RELEASED] = flmem_u64_or(action->released_bytes, UINT64_MAX),
			 [FLMEM_RECORD_STOPPED] = flmem_u64_or(action->stopped_us, UINT64_MAX)},
		.reason = action->reason,
	};

	flmem_recorder_add(&state->recorder, &r);
}

static void record_pressure(struct flmem_watch_state *state,
			    const struct flmem_watched_process *watched)
{
	struct flmem_record r = {
		.kind = FLMEM_RECORD_PRESSURE,
		.process = watched->number,
		.of_host = watched->pressure.stalls_of_host,
	};

	memcpy(r.numbers, watched->pressure_recorded, sizeof(watched->pressure_recorded));
	flmem_recorder_add(&state->recorder, &r);
}

/*
 * Returns true if the figures of memory pressure differ from those recorded last. Pressure is rare,
 * so only changes are recorded.
 */
static bool pressure_differs(struct flmem_watched_process *watched)
{
	const struct flmem_pressure *p = &watched->pressure;
	const uint64_t numbers[FLMEM_RECORD_NUMBERS] = {
		[FLMEM_RECORD_HIGH] = flmem_u64_or(p->high, UINT64_MAX),
		[FLMEM_RECORD_MAX] = flmem_u64_or(p->max, UINT64_MAX),
		[FLMEM_RECORD_OOM] = flmem_u64_or(p->oom, UINT64_MAX),
		[FLMEM_RECORD_OOM_KILL] = flmem_u64_or(p->oom_kill, UINT64_MAX),
		[FLMEM_RECORD_SOME] = flmem_u64_or(p->some_avg10_hundredths, UINT64_MAX),
		[FLMEM_RECORD_FULL] = flmem_u64_or(p->full_avg10_hundredths, UINT64_MAX),
		[FLMEM_RECORD_TOTAL] = flmem_u64_or(p->some_total_us, UINT64_MAX),
	};

	if (watched->pressure_is_recorded &&
	    memcmp(watched->pressure_recorded, numbers, sizeof(numbers)) == 0)
		return false;
	memcpy(watched->pressure_recorded, numbers, sizeof(numbers));
	watched->pressure_is_recorded = true;
	return true;
}

static void record_split(struct flmem_watch_state *state,
			 const struct flmem_watched_process *watched)
{
	const struct flmem_u64 *kinds[] = {
		[FLMEM_RECORD_ANON] = &watched->split.anon_bytes,
		[FLMEM_RECORD_FILE] = &watched->split.file_bytes,
		[FLMEM_RECORD_SHMEM] = &watched->split.shmem_bytes,
		[FLMEM_RECORD_SWAP] = &watched->split.swap_bytes,
	};
	struct flmem_record r = {.kind = FLMEM_RECORD_SPLIT, .process = watched->number};

	for (size_t i = 0; i < FLMEM_RECORD_KINDS; i++)
		r.kinds[i] = flmem_u64_or(*kinds[i], UINT64_MAX);
	flmem_recorder_add(&state->recorder, &r);
}

static void record_sample(struct flmem_watch_state *state,
			  const struct flmem_watched_process *watched, bool split)
{
	const struct flmem_record sample = {.kind = FLMEM_RECORD_SAMPLE,
					    .process = watched->number,
					    .bytes = watched->last_bytes};

	/*
	 * The split comes first, so that a reader knows it when it reads the sample of the same
	 * time.
	 */
	if (split)
		record_split(state, watched);
	if (watched->pressure_is_new)
		record_pressure(state, watched);
	flmem_recorder_add(&state->recorder, &sample);
}

static struct flmem_u64 change_own_round(const struct flmem_watched_process *watched)
{
	return watched->rounds.running ? FLMEM_KNOWN(watched->rounds.now.number)
				       : FLMEM_UNKNOWN(no_round);
}

static void report_sample(struct flmem_watch_state *state,
			  const struct flmem_watched_process *watched, uint64_t at_us, bool split)
{
	const struct flmem_watch_sample sample = {
		.process = &watched->id,
		.at_us = at_us,
		.elapsed_us = watched->last_us,
		.rss_bytes = watched->last_bytes,
		.round = watched->own_rounds ? change_own_round(watched) : state->round,
		.split = split ? &watched->split : NULL,
		.pressure = watched->pressure_is_new ? &watched->pressure : NULL,
	};

	if (state->callbacks->sample &&
	    !state->callbacks->sample(state->callbacks->context, &sample))
		state->stopped = true;
}

void flmem_watch_state_sample(struct flmem_watch_state *watch_state,
			      struct flmem_watched_process *watched, uint64_t at_us, bool split)
{
	const struct flmem_watch_options *o = watch_state->options;
	struct flmem_watch_round round;

	if (o->fail_above_bytes && watched->last_bytes > o->fail_above_bytes)
		watched->exceeded_limit = true;
	if (watched->pressure_is_new)
		watched->pressure_is_new = pressure_differs(watched);
	if (watch_state->recorder.fd >= 0)
		record_sample(watch_state, watched, split);
	report_sample(watch_state, watched, at_us, split);
	watched->pressure_is_new = false;
	if (watch_state->rounds_known &&
	    flmem_round_stats_sample(&watched->rounds, watched->last_us, watched->last_bytes,
				     &round))
		report_round(watch_state, watched, &round);
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

void flmem_watch_state_action(struct flmem_watch_state *watch_state,
			      struct flmem_watched_process *watched,
			      const struct flmem_watch_action *action)
{
	const struct flmem_watch_callbacks *callbacks = watch_state->callbacks;

	count_action(&watched->actions, action);
	if (action->kind == FLMEM_WATCH_TRIMMED)
		flmem_round_stats_trimmed(&watched->rounds);
	if (action->kind == FLMEM_WATCH_PAUSED || action->kind == FLMEM_WATCH_DROPPED)
		flmem_round_stats_trims_stop(&watched->rounds);
	if (watch_state->recorder.fd >= 0)
		record_action(watch_state, watched, action);
	if (callbacks->action && !callbacks->action(callbacks->context, action))
		watch_state->stopped = true;
}

void flmem_watch_state_renamed(struct flmem_watch_state *watch_state,
			       const struct flmem_watched_process *watched)
{
	record_process(watch_state, watched);
}

void flmem_watch_state_end(struct flmem_watch_state *watch_state,
			   struct flmem_watched_process *watched)
{
	const struct flmem_record end = {.kind = FLMEM_RECORD_END, .process = watched->number};

	if (watched->ended)
		return;
	flmem_watched_process_end(watched);
	watch_state->alive--;
	write_record(watch_state, &end);
}

static void read_exact_peak(struct flmem_watched_process *watched)
{
	struct flmem_u64 peak = FLMEM_UNKNOWN("the peak was not reset");

	if (watched->peak_reset && watched->process.dirfd >= 0)
		peak = flmem_peak_read(&watched->process);
	if (!peak.unknown)
		flmem_round_stats_exact_peak(&watched->rounds, peak.value);
	watched->peak_reset = false;
}

static void reset_exact_peak(struct flmem_watch_state *state, struct flmem_watched_process *watched)
{
	struct flmem_error err = {0};

	if (!state->options->exact_peaks || watched->peak_refused || watched->process.dirfd < 0)
		return;
	watched->peak_reset = flmem_peak_reset(&watched->process, &err) == 0;
	watched->peak_refused = !watched->peak_reset;
	if (watched->peak_refused && err.code != FLMEM_ENOPROC)
		flmem_watch_state_warn(state, "%s; the highest sample is its peak", err.message);
}

static void change_round(struct flmem_watch_state *state, struct flmem_watched_process *watched,
			 uint64_t now_us, const struct flmem_round_change *change)
{
	struct flmem_watch_round round;

	read_exact_peak(watched);
	flmem_round_stats_group_peak(&watched->rounds, flmem_group_peak_read(&watched->group_peak));
	if (change->finished && flmem_round_stats_finish(&watched->rounds, now_us, &round))
		report_round(state, watched, &round);
	if (change->started &&
	    flmem_round_stats_start(&watched->rounds, now_us, change->started_number, &round))
		report_round(state, watched, &round);
	if (change->started) {
		reset_exact_peak(state, watched);
		flmem_group_peak_reset(&watched->group_peak);
	}
}

void flmem_watch_state_round(struct flmem_watch_state *watch_state, uint64_t now_us,
			     const struct flmem_round_change *change)
{
	struct flmem_record r = {.kind = FLMEM_RECORD_ROUND_END, .round = change->finished_number};

	watch_state->rounds_known = true;
	if (change->finished)
		write_record(watch_state, &r);
	if (change->finished && watch_state->seen_start)
		watch_state->complete++;
	if (change->finished)
		watch_state->round = FLMEM_UNKNOWN(no_round);
	if (change->started) {
		r.kind = FLMEM_RECORD_ROUND_START;
		r.round = change->started_number;
		write_record(watch_state, &r);
		watch_state->round = FLMEM_KNOWN(change->started_number);
	}
	/* A round that starts before the first process is found does not count as complete. */
	watch_state->seen_start = change->started && watch_state->numbered;
	for (size_t i = 0; i < watch_state->count; i++)
		if (!watch_state->watched[i]->ended && !watch_state->watched[i]->absent &&
		    !watch_state->watched[i]->own_rounds)
			change_round(watch_state, watch_state->watched[i], now_us, change);
}

void flmem_watch_state_own_rounds(struct flmem_watch_state *watch_state,
				  struct flmem_watched_process *watched)
{
	const struct flmem_record own = {.kind = FLMEM_RECORD_OWN_ROUNDS,
					 .process = watched->number};

	watched->own_rounds = true;
	watched->rounds.running = false;
	write_record(watch_state, &own);
}

void flmem_watch_state_round_of(struct flmem_watch_state *watch_state,
				struct flmem_watched_process *watched, uint64_t now_us,
				const struct flmem_round_change *change)
{
	struct flmem_record r = {.kind = FLMEM_RECORD_OWN_END,
				 .process = watched->number,
				 .round = change->finished_number};

	watch_state->rounds_known = true;
	if (change->finished)
		write_record(watch_state, &r);
	r.kind = FLMEM_RECORD_OWN_START;
	r.round = change->started_number;
	if (change->started)
		write_record(watch_state, &r);
	change_round(watch_state, watched, now_us, change);
}

void flmem_watch_state_round_runs(struct flmem_watch_state *watch_state, struct flmem_u64 number)
{
	watch_state->round = number.unknown ? FLMEM_UNKNOWN(no_round) : number;
	watch_state->seen_start = false;
	for (size_t i = 0; i < watch_state->count; i++)
		watch_state->watched[i]->rounds.running = false;
}

bool flmem_watch_state_is_settling(const struct flmem_watch_state *watch_state)
{
	for (size_t i = 0; i < watch_state->count; i++)
		if (!watch_state->watched[i]->ended && watch_state->watched[i]->rounds.settling)
			return true;
	return false;
}

/* Ends the rounds whose trough is not complete yet, with the samples so far. */
static void flush_rounds(struct flmem_watch_state *state)
{
	struct flmem_watch_round round;

	for (size_t i = 0; i < state->count; i++)
		if (flmem_round_stats_flush(&state->watched[i]->rounds, &round))
			report_round(state, state->watched[i], &round);
}

/*
 * Returns true if growth is undecided for a live process, or for every process. One that has ended
 * cannot be watched longer, so it does not count beside judged ones.
 */
static bool is_undecided(const struct flmem_watch_summary *summary)
{
	size_t undecided = 0;
	bool alive = false;

	for (size_t i = 0; i < summary->count; i++) {
		undecided += summary->results[i].undecided != NULL;
		alive |= summary->results[i].undecided && !summary->results[i].ended;
	}
	return alive || (undecided && undecided == summary->count);
}

int flmem_watch_state_finish(struct flmem_watch_state *watch_state, bool live,
			     struct flmem_watch_summary *ret_summary, struct flmem_error *err)
{
	struct flmem_watch_summary summary = {.rounds = watch_state->complete,
					      .unlisted = watch_state->forgotten,
					      .limit_passed = watch_state->forgotten_exceeded,
					      .missed = FLMEM_KNOWN(watch_state->missed)};
	int rc;

	flush_rounds(watch_state);
	if (watch_state->recorder.fd >= 0)
		flmem_recorder_flush(&watch_state->recorder);
	summary.record_lost = watch_state->recorder.lost;
	summary.record_errno = watch_state->recorder.error;
	summary.results =
		calloc(watch_state->count ? watch_state->count : 1, sizeof(*summary.results));
	if (!summary.results)
		return flmem_error_nomem(err, "cannot allocate the summary");
	rc = flmem_forecast_make(watch_state, live, summary.results, err);
	if (rc) {
		free(summary.results);
		return rc;
	}
	summary.count = watch_state->count;
	for (size_t i = 0; i < summary.count; i++)
		summary.limit_passed |= summary.results[i].findings[0] != NULL;
	summary.limit_undecided = is_undecided(&summary);
	*ret_summary = summary;
	return 0;
}
