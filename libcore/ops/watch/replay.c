/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/watch.h>

#include <string.h>

#include "ops/watch/watch_state.h"

#define PID_LIMIT 4194304U /* PID_MAX_LIMIT */

/* Limit for a hostile recording: each process costs 7 KiB. */
#define REPLAYED_MAX 4096U

/* The process that has a number in the current session; `watched` is NULL if there is none. */
struct numbered_process {
	struct flmem_watched_process *watched;
	uint64_t pid, start_time; /* identity, as recorded */
};

/* The state of replaying a recording. */
struct replay {
	struct flmem_watch_state watch_state;
	struct flmem_recording recording;
	bool any; /* a session was found */
	uint64_t session_at_us;
	uint64_t base_us; /* start of the session, in the time of the whole recording */
	uint64_t now_us, at_us;
	uint64_t elapsed_us; /* length of the session up to its last tick */
	bool overlaps;	     /* the session begins before the end of the one before it */
	uint64_t overlapping;
	bool disordered;		   /* blocks that are older than those before them */
	struct numbered_process *numbered; /* processes, by their numbers in the session */
	size_t numbered_count;
};

static void clear_replay(struct replay *r)
{
	flmem_watch_state_clear(&r->watch_state);
	flmem_recording_close(&r->recording);
	free(r->numbered);
}

static struct flmem_watched_process *find_replayed(const struct replay *r, uint64_t number)
{
	const struct numbered_process *numbered =
		number < r->numbered_count ? &r->numbered[number] : NULL;

	/* Compare the identity: another process may have replaced it. */
	return numbered && numbered->watched &&
			       (uint64_t)numbered->watched->id.pid == numbered->pid &&
			       numbered->watched->id.start_time == numbered->start_time
		       ? numbered->watched
		       : NULL;
}

/* Processes of the session before may be absent from this one, whose rounds are then not theirs. */
static void leave_processes(struct replay *r)
{
	for (size_t i = 0; i < r->watch_state.count; i++) {
		r->watch_state.watched[i]->absent = true;
		r->watch_state.watched[i]->own_rounds = false;
	}
	for (size_t i = 0; i < r->numbered_count; i++)
		r->numbered[i] = (struct numbered_process){0};
}

/*
 * Begins a session. A later one follows the earlier one at its wall-clock distance, if that clock
 * went forward.
 */
static void begin_replay_session(struct replay *r, const struct flmem_record *record)
{
	if (r->any && record->at_us == r->session_at_us)
		return;
	r->overlaps = r->any && record->at_us < r->at_us;
	r->overlapping += r->overlaps;
	r->elapsed_us = 0;
	r->base_us = r->now_us;
	if (r->any && record->at_us > r->at_us &&
	    __builtin_add_overflow(r->now_us, record->at_us - r->at_us, &r->base_us))
		r->base_us = r->now_us;
	r->any = true;
	r->session_at_us = r->at_us = record->at_us;
	r->now_us = r->base_us;
	if (!r->watch_state.interval_us)
		r->watch_state.interval_us = record->interval_us;
	flmem_watch_state_round_runs(&r->watch_state, FLMEM_UNKNOWN("not recorded"));
	leave_processes(r);
}

static bool parse_number(struct replay *r, uint64_t at, struct flmem_watched_process *watched)
{
	size_t count = r->numbered_count ? r->numbered_count : 16;
	struct numbered_process *grown = r->numbered;

	while (count <= at)
		count *= 2;
	if (count > r->numbered_count)
		grown = reallocarray(r->numbered, count, sizeof(*grown));
	if (!grown)
		return false;
	for (size_t i = r->numbered_count; i < count; i++)
		grown[i] = (struct numbered_process){0};
	r->numbered = grown;
	r->numbered_count = count;
	r->numbered[at] = (struct numbered_process){watched, (uint64_t)watched->id.pid,
						    watched->id.start_time};
	return true;
}

static struct flmem_watched_process *known_value(const struct replay *r,
						 const struct flmem_record *record)
{
	for (size_t i = 0; i < r->watch_state.count; i++) {
		struct flmem_watched_process *f = r->watch_state.watched[i];

		if ((uint64_t)f->id.pid == record->pid && f->id.start_time == record->start_time)
			return f;
	}
	return NULL;
}

/* Returns the framework of a number; one of a later version is FLMEM_FRAMEWORK_NONE. */
static enum flmem_framework framework_by_name(uint64_t number)
{
	return number < 64 && flmem_framework_name((enum flmem_framework)number)
		       ? (enum flmem_framework)number
		       : FLMEM_FRAMEWORK_NONE;
}

static enum flmem_role role_by_name(uint64_t number)
{
	return number < 64 && flmem_role_name((enum flmem_role)number) ? (enum flmem_role)number
								       : FLMEM_ROLE_NONE;
}

/* Returns the identity in the last record, to whose texts it points. */
static struct flmem_watch_process identity_of_record(struct replay *r,
						     const struct flmem_record *record)
{
	return (struct flmem_watch_process){
		.pid = (pid_t)record->pid,
		.start_time = record->start_time,
		.framework = framework_by_name(record->framework),
		.role = role_by_name(record->role),
		.command = r->recording.command,
		.site = r->recording.site[0] ? r->recording.site : NULL,
	};
}

static int add_replayed_process(struct replay *r, const struct flmem_record *record,
				struct flmem_error *err)
{
	struct flmem_watch_process id = identity_of_record(r, record);
	struct flmem_watched_process *watched;
	int rc;

	id.command = strdup(id.command);
	id.site = id.site ? strdup(id.site) : NULL;
	watched = flmem_watched_process_new(&id, r->watch_state.interval_us, err);
	if (!watched)
		return FLMEM_EFAILED;
	rc = flmem_watch_state_add(&r->watch_state, watched, r->now_us > 0, &watched, err);
	if (rc)
		return rc;
	return parse_number(r, record->process, watched)
		       ? 0
		       : flmem_error_nomem(err, "cannot store a recorded process");
}

/* Returns true for a repeated record of a process, perhaps of one that another has replaced. */
static bool is_reported(const struct replay *r, const struct flmem_record *record)
{
	const struct numbered_process *n =
		record->process < r->numbered_count ? &r->numbered[record->process] : NULL;

	return n && n->watched && n->pid == record->pid && n->start_time == record->start_time;
}

/* Handles a process that is recorded again: it may have executed another program. */
static int replay_repeated_process(struct replay *r, const struct flmem_record *record,
				   struct flmem_watched_process *watched, struct flmem_error *err)
{
	const struct flmem_watch_process as = identity_of_record(r, record);

	return watched ? flmem_watched_process_rename(watched, &as, err) : 0;
}

static int replay_process(struct replay *r, const struct flmem_record *record,
			  struct flmem_error *err)
{
	struct flmem_watched_process *watched;

	if (!record->pid || record->pid > PID_LIMIT)
		return 0;
	if (is_reported(r, record))
		return replay_repeated_process(r, record, find_replayed(r, record->process), err);
	watched = known_value(r, record);
	if (!watched)
		return r->watch_state.count < REPLAYED_MAX ? add_replayed_process(r, record, err)
							   : 0;
	if (!parse_number(r, record->process, watched))
		return flmem_error_nomem(err, "cannot store a recorded process");
	/* Two samples of one time would count as growth or as a fall. */
	if (watched->absent && r->overlaps)
		flmem_watched_process_begin_again(watched, r->watch_state.interval_us);
	watched->absent = false;
	return replay_repeated_process(r, record, watched, err);
}

static void replay_tick(struct replay *r, const struct flmem_record *record)
{
	uint64_t now_us;

	if (record->elapsed_us < r->elapsed_us) {
		r->disordered = true;
		flmem_recording_reject(&r->recording, true);
		return;
	}
	r->elapsed_us = record->elapsed_us;
	if (!__builtin_add_overflow(r->base_us, record->elapsed_us, &now_us) && now_us > r->now_us)
		r->now_us = now_us;
	r->at_us = record->at_us;
	if (r->watch_state.callbacks->tick &&
	    !r->watch_state.callbacks->tick(r->watch_state.callbacks->context))
		r->watch_state.stopped = true;
}

/* The record that names the process of the sample is missing. */
static bool is_unnamed(const struct replay *r, const struct flmem_record *sample)
{
	return r->watch_state.count < REPLAYED_MAX &&
	       (sample->process >= r->numbered_count || !r->numbered[sample->process].watched);
}

static void replay_sample(struct replay *r, const struct flmem_record *record)
{
	struct flmem_watched_process *watched = find_replayed(r, record->process);
	bool split;

	if (!watched && is_unnamed(r, record))
		flmem_recording_reject(&r->recording, false);
	if (!watched || watched->ended)
		return;
	split = watched->split_is_new;
	watched->split_is_new = false;
	flmem_watched_process_count(watched, r->now_us, record->bytes);
	flmem_watch_state_sample(&r->watch_state, watched, r->at_us, split);
}

static struct flmem_u64 known_or_unrecorded(uint64_t number)
{
	return number == UINT64_MAX ? FLMEM_UNKNOWN("not known when it was recorded")
				    : FLMEM_KNOWN(number);
}

static void replay_split(const struct replay *r, const struct flmem_record *record)
{
	struct flmem_watched_process *watched = find_replayed(r, record->process);

	if (!watched)
		return;
	watched->split_is_new = true;
	watched->split = (struct flmem_watch_split){
		.anon_bytes = known_or_unrecorded(record->kinds[FLMEM_RECORD_ANON]),
		.file_bytes = known_or_unrecorded(record->kinds[FLMEM_RECORD_FILE]),
		.shmem_bytes = known_or_unrecorded(record->kinds[FLMEM_RECORD_SHMEM]),
		.swap_bytes = known_or_unrecorded(record->kinds[FLMEM_RECORD_SWAP]),
	};
}

static void replay_round(struct replay *r, const struct flmem_record *record)
{
	bool own = record->kind == FLMEM_RECORD_OWN_START || record->kind == FLMEM_RECORD_OWN_END;
	struct flmem_watched_process *watched = own ? find_replayed(r, record->process) : NULL;
	struct flmem_round_change change = {0};

	if (record->kind == FLMEM_RECORD_ROUND_START || record->kind == FLMEM_RECORD_OWN_START) {
		change.started = true;
		change.started_number = record->round;
	} else {
		change.finished = true;
		change.finished_number = record->round;
	}
	if (!own)
		flmem_watch_state_round(&r->watch_state, r->now_us, &change);
	else if (watched && !watched->ended)
		flmem_watch_state_round_of(&r->watch_state, watched, r->now_us, &change);
}

static struct flmem_u64 session_number_of(const struct flmem_record *record, size_t i)
{
	return known_or_unrecorded(record->numbers[i]);
}

static void replay_action(struct replay *r, const struct flmem_record *record)
{
	struct flmem_watched_process *watched = find_replayed(r, record->process);
	const struct flmem_watch_action action = {
		.process = watched ? &watched->id : NULL,
		.kind = (enum flmem_watch_action_kind)record->action,
		.at_us = r->at_us,
		.elapsed_us = r->now_us,
		.round = session_number_of(record, FLMEM_RECORD_ROUND),
		.every_rounds = session_number_of(record, FLMEM_RECORD_EVERY).value,
		.reason = record->reason,
		.rss_before_bytes = session_number_of(record, FLMEM_RECORD_BEFORE),
		.rss_after_bytes = session_number_of(record, FLMEM_RECORD_AFTER),
		.released_bytes = session_number_of(record, FLMEM_RECORD_RELEASED),
		.stopped_us = session_number_of(record, FLMEM_RECORD_STOPPED),
	};

	if (watched && record->action < FLMEM_WATCH_ACTION_KINDS)
		flmem_watch_state_action(&r->watch_state, watched, &action);
}

static void replay_pressure(const struct replay *r, const struct flmem_record *record)
{
	struct flmem_watched_process *watched = find_replayed(r, record->process);

	if (!watched)
		return;
	watched->pressure = (struct flmem_pressure){
		.high = session_number_of(record, FLMEM_RECORD_HIGH),
		.max = session_number_of(record, FLMEM_RECORD_MAX),
		.oom = session_number_of(record, FLMEM_RECORD_OOM),
		.oom_kill = session_number_of(record, FLMEM_RECORD_OOM_KILL),
		.some_avg10_hundredths = session_number_of(record, FLMEM_RECORD_SOME),
		.full_avg10_hundredths = session_number_of(record, FLMEM_RECORD_FULL),
		.some_total_us = session_number_of(record, FLMEM_RECORD_TOTAL),
		.stalls_of_host = record->of_host,
	};
	if (!watched->pressure_is_read)
		watched->pressure_first = watched->pressure;
	watched->pressure_is_new = watched->pressure_is_read = true;
}

static int replay_record(struct replay *r, const struct flmem_record *record,
			 struct flmem_error *err)
{
	struct flmem_watched_process *watched;

	if (!r->any && record->kind != FLMEM_RECORD_SESSION) {
		flmem_recording_reject(&r->recording, true);
		return 0;
	}
	switch (record->kind) {
	case FLMEM_RECORD_SESSION:
		begin_replay_session(r, record);
		break;
	case FLMEM_RECORD_PROCESS:
		return replay_process(r, record, err);
	case FLMEM_RECORD_TICK:
		replay_tick(r, record);
		break;
	case FLMEM_RECORD_SAMPLE:
		replay_sample(r, record);
		break;
	case FLMEM_RECORD_SPLIT:
		replay_split(r, record);
		break;
	case FLMEM_RECORD_END:
		watched = find_replayed(r, record->process);
		if (watched)
			flmem_watch_state_end(&r->watch_state, watched);
		break;
	case FLMEM_RECORD_OWN_ROUNDS:
		watched = find_replayed(r, record->process);
		if (watched)
			flmem_watch_state_own_rounds(&r->watch_state, watched);
		break;
	case FLMEM_RECORD_ROUND_START:
	case FLMEM_RECORD_ROUND_END:
	case FLMEM_RECORD_OWN_START:
	case FLMEM_RECORD_OWN_END:
		replay_round(r, record);
		break;
	case FLMEM_RECORD_ROUND_RUNS:
		flmem_watch_state_round_runs(&r->watch_state, FLMEM_KNOWN(record->round));
		break;
	case FLMEM_RECORD_ACTION:
		replay_action(r, record);
		break;
	case FLMEM_RECORD_PRESSURE:
		replay_pressure(r, record);
		break;
	}
	return 0;
}

static const char *skipped_why(const struct replay *r)
{
	if (r->recording.newer)
		return "damaged, or written by a newer flmem,";
	if (r->disordered)
		return "older than what precedes them, as in files that were joined,";
	return "damaged";
}

static int replay_all(struct replay *r, const char *path, struct flmem_watch_summary *ret_summary,
		      struct flmem_error *err)
{
	struct flmem_record record;
	int rc = 0;

	while (!rc && !r->watch_state.stopped && flmem_recording_next(&r->recording, &record))
		rc = replay_record(r, &record, err);
	if (rc)
		return rc;
	if (!r->watch_state.count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "the recording '%s' %s", path,
				       r->recording.newer ? "was written by a newer flmem"
				       : r->recording.skipped
					       ? "is damaged: no block of it is whole"
					       : "has no process");
	rc = flmem_watch_state_finish(&r->watch_state, false, ret_summary, err);
	if (rc)
		return rc;
	ret_summary->record_skipped_bytes = r->recording.skipped;
	if (r->recording.skipped)
		ret_summary->record_skipped_why = skipped_why(r);
	ret_summary->record_overlaps = r->overlapping;
	ret_summary->missed = FLMEM_UNKNOWN("recordings do not contain it");
	return 0;
}

int flmem_watch_replay(const char *path, const struct flmem_watch_options *options,
		       const struct flmem_watch_callbacks *callbacks,
		       struct flmem_watch_summary *ret_summary, struct flmem_error *err)
{
	FLMEM_AUTO(clear_replay)
	struct replay r = {.recording = {.fd = -1, .bytes = FLMEM_BUF_INIT}};
	int rc;

	flmem_watch_state_init(&r.watch_state, options, callbacks, options->interval_us);
	rc = flmem_recording_open(path, &r.recording, err);
	return rc ? rc : replay_all(&r, path, ret_summary, err);
}
