/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/watch.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "frameworks/framework.h"
#include "ops/watch/auto_trim.h"
#include "ops/watch/exec_follow.h"
#include "ops/watch/next_step.h"
#include "ops/watch/pressures.h"
#include "ops/watch/round_logs.h"
#include "ops/watch/watch_snapshot.h"
#include "ops/watch/watch_state.h"

#define SELECT_EVERY 1000000U /* us between two searches for new processes */
#define SELECT_SHARE 50U /* a search that takes longer than this part of it is made less often */
#define OWNERS_EVERY 5000000U  /* us between two searches for the writers of the logs */
#define OWNERS_FOR   60000000U /* us after which a process is no longer expected to open a log */
#define GRACE_US     15000000U /* how long a name may match no process before the watch ends */
#define LOG_PAST     65536     /* bytes of a log that are read to find the current round */

/* State of a watch of live processes. */
struct live_watch {
	const struct flmem_watch_options *options;
	struct flmem_watch_state watch_state;
	int proc;
	uint64_t began_us;    /* start of the watch, monotonic clock */
	uint64_t selected_us; /* last search for processes; since the watch began */
	uint64_t select_every_us;
	uint64_t owners_us;	/* last search for the writers of the logs; since the watch began */
	uint64_t last_alive_us; /* time at which a process was last alive; since the watch began */
	uint64_t ticks;
	struct flmem_round_logs logs;
	struct flmem_pressures *pressures;
	struct flmem_auto *automatic; /* NULL: no automatic trims */
};

static void clear_watch(struct live_watch *w)
{
	flmem_auto_free(w->automatic);
	flmem_pressures_free(w->pressures);
	flmem_watch_state_clear(&w->watch_state);
	flmem_round_logs_clear(&w->logs);
	flmem_cleanup_close(&w->proc);
}

static bool is_followed(const struct live_watch *w, pid_t pid, uint64_t start_time)
{
	for (size_t i = 0; i < w->watch_state.count; i++) {
		const struct flmem_watch_process *id = &w->watch_state.watched[i]->id;

		if (id->pid == pid && (!start_time || id->start_time == start_time))
			return true;
	}
	return false;
}

static bool selects_by_pid(const struct live_watch *w)
{
	return w->options->selection.pid_count > 0;
}

static int follow_process(struct live_watch *w, const struct flmem_targets *targets, size_t i,
			  struct flmem_relatives *relatives, struct flmem_error *err)
{
	struct flmem_watched_process *watched;
	int rc = flmem_watched_process_open(targets->pids[i], targets->start_times[i],
					    w->watch_state.interval_us, relatives, &watched, err);

	if (rc)
		return rc;
	watched->group = flmem_pressures_group(w->pressures, &watched->process);
	if (w->options->log_count && watched->statm >= 0)
		flmem_group_peak_open(w->pressures->cgroups, &watched->process,
				      &watched->group_peak);
	return flmem_watch_state_add(&w->watch_state, watched, w->ticks > 0, NULL, err);
}

static int follow_all(struct live_watch *w, const struct flmem_targets *targets,
		      struct flmem_error *err)
{
	FLMEM_AUTO_RELATIVES struct flmem_relatives relatives = {.proc_dirfd = w->proc};

	for (size_t i = 0; i < targets->count; i++) {
		int rc;

		if (is_followed(w, targets->pids[i], targets->start_times[i]))
			continue;
		rc = follow_process(w, targets, i, &relatives, err);
		/* A process found by name may have exited since, or may belong to another user. */
		if (rc && (selects_by_pid(w) || rc == FLMEM_EFAILED))
			return rc;
	}
	return 0;
}

static void forget_targets(struct flmem_targets *targets)
{
	flmem_targets_clear(targets);
}

static int search_processes(struct live_watch *w, struct flmem_error *err)
{
	FLMEM_AUTO(forget_targets) struct flmem_targets targets = {0};
	int rc = flmem_select(&w->options->selection, &targets, err);

	return rc ? rc : follow_all(w, &targets, err);
}

/*
 * Searches again. A later search may find nothing, or the root of a tree may have exited: the watch
 * continues.
 */
static int search_again(struct live_watch *w, uint64_t now_us, struct flmem_error *err)
{
	uint64_t began_us;
	int rc;

	if (selects_by_pid(w) || now_us - w->selected_us < w->select_every_us)
		return 0;
	w->selected_us = now_us;
	began_us = flmem_clock_us();
	rc = search_processes(w, err);
	w->select_every_us = (flmem_clock_us() - began_us) * SELECT_SHARE;
	if (w->select_every_us < SELECT_EVERY)
		w->select_every_us = SELECT_EVERY;
	return rc == FLMEM_ENOPROC || rc == FLMEM_EPERM ? 0 : rc;
}

static void sample_pressure(struct live_watch *w, struct flmem_watched_process *watched,
			    uint64_t now_us)
{
	bool read = flmem_pressures_read(w->pressures, watched->group, now_us);

	if (watched->group == FLMEM_PRESSURES_NONE || (!read && watched->pressure_is_read))
		return;
	watched->pressure = w->pressures->groups[watched->group].now;
	if (!watched->pressure_is_read)
		watched->pressure_first = watched->pressure;
	watched->pressure_is_new = watched->pressure_is_read = true;
}

static void sample_one(struct live_watch *w, struct flmem_watched_process *watched,
		       struct flmem_relatives *relatives, const struct flmem_clock_times *moment)
{
	int rc = flmem_watched_process_sample(watched, moment->now_us);
	bool split = !rc && flmem_watched_process_split_is_due(watched);

	if (rc == FLMEM_ENOPROC)
		flmem_watch_state_end(&w->watch_state, watched);
	if (split)
		flmem_watched_process_split(watched);
	if (rc)
		return;
	if (watched->execed && flmem_watched_process_identify(watched, relatives))
		flmem_watch_state_renamed(&w->watch_state, watched);
	sample_pressure(w, watched, moment->now_us);
	flmem_watch_state_sample(&w->watch_state, watched, moment->at_us, split);
}

static void sample_all(struct live_watch *w, uint64_t now_us, uint64_t at_us)
{
	const struct flmem_watch_callbacks *callbacks = w->watch_state.callbacks;
	const struct flmem_clock_times moment = {now_us, at_us};
	FLMEM_AUTO_RELATIVES struct flmem_relatives relatives = {.proc_dirfd = w->proc};

	for (size_t i = 0; i < w->watch_state.count && !w->watch_state.stopped; i++) {
		/* Prefetches the next process while the kernel reads the one before it. */
		if (i + 1 < w->watch_state.count)
			__builtin_prefetch(w->watch_state.watched[i + 1]);
		if (!w->watch_state.watched[i]->ended)
			sample_one(w, w->watch_state.watched[i], &relatives, &moment);
	}
	if (w->automatic)
		flmem_auto_tick(w->automatic, &w->watch_state, w->pressures, &moment);
	flmem_exec_follow_forget(&w->watch_state);
	if (w->watch_state.alive)
		w->last_alive_us = now_us;
	w->ticks++;
	if (callbacks->tick && !callbacks->tick(callbacks->context))
		w->watch_state.stopped = true;
}

/* The context of reading changes of rounds. */
struct round_reading {
	struct live_watch *w;
	struct flmem_clock_times moment;
	bool past; /* the lines are older than the watch and only show the current round */
};

static void decide_on_trim(struct live_watch *w, struct flmem_watched_process *watched,
			   const struct flmem_round_change *change,
			   const struct flmem_clock_times *moment)
{
	if (w->automatic && change->finished && !watched->ended)
		flmem_auto_round(w->automatic, &w->watch_state, w->pressures, watched, moment);
}

static void change_shared(const struct round_reading *r, const struct flmem_round_change *change)
{
	struct flmem_watch_state *watch_state = &r->w->watch_state;

	if (r->past) {
		flmem_watch_state_round_runs(
			watch_state, change->started ? FLMEM_KNOWN(change->started_number)
						     : FLMEM_UNKNOWN("the process has ended"));
		return;
	}
	flmem_watch_state_round(watch_state, r->moment.now_us, change);
	for (size_t i = 0; i < watch_state->count; i++)
		if (!watch_state->watched[i]->own_rounds)
			decide_on_trim(r->w, watch_state->watched[i], change, &r->moment);
}

/*
 * Applies a change of rounds of one log. A log without round numbers, as clients write it, takes
 * the numbers of another log.
 */
static void change_own(const struct round_reading *r, size_t log, struct flmem_round_change change)
{
	struct flmem_watch_state *watch_state = &r->w->watch_state;

	if (!r->w->logs.own[log].numbered && !watch_state->round.unknown)
		change.started_number = watch_state->round.value;
	for (size_t i = 0; i < watch_state->count && !r->past; i++) {
		struct flmem_watched_process *f = watch_state->watched[i];

		if (!f->own_rounds || f->log != log || f->ended)
			continue;
		flmem_watch_state_round_of(watch_state, f, r->moment.now_us, &change);
		decide_on_trim(r->w, f, &change, &r->moment);
	}
}

static void apply_round_change(void *context, size_t log, const struct flmem_round_change *change)
{
	const struct round_reading *r = context;

	if (log == FLMEM_ROUND_LOGS_SHARED)
		change_shared(r, change);
	else
		change_own(r, log, *change);
}

static void read_logs(struct live_watch *w, uint64_t now_us, bool past)
{
	struct round_reading reading = {
		.w = w, .moment = {now_us, flmem_clock_wall_us()}, .past = past};

	flmem_round_logs_read(&w->logs, apply_round_change, &reading);
}

/* Finds the process that writes each log; some open their log late. */
static void find_logs(struct live_watch *w, uint64_t now_us)
{
	if (w->ticks && now_us - w->owners_us < OWNERS_EVERY)
		return;
	w->owners_us = now_us;
	for (size_t i = 0; w->logs.count > 1 && i < w->watch_state.count; i++) {
		struct flmem_watched_process *f = w->watch_state.watched[i];

		if (f->ended || f->own_rounds || f->last_us - f->first_us > OWNERS_FOR)
			continue;
		f->log = flmem_round_logs_of(&w->logs, &f->process);
		if (f->log != FLMEM_ROUND_LOGS_SHARED)
			flmem_watch_state_own_rounds(&w->watch_state, f);
	}
}

static int open_logs(struct live_watch *w, struct flmem_error *err)
{
	const struct flmem_watch_options *o = w->options;
	int rc = flmem_round_logs_open(o->logs, o->log_count, o->round_regex, LOG_PAST, &w->logs,
				       err);

	if (!rc)
		read_logs(w, 0, true);
	return rc;
}

/* Warns of logs without rounds: a wrong path or pattern would otherwise show only at the end. */
static void check_logs(const struct live_watch *w, bool ended)
{
	for (size_t i = 0; i < w->logs.count; i++) {
		const struct flmem_log *log = &w->logs.logs[i];

		if (log->fd < 0)
			flmem_watch_state_warn(&w->watch_state, "the log '%s' does not exist%s",
					       log->path, ended ? "" : " yet; waiting for it");
		else if (w->logs.lines[i] && !w->logs.marks[i])
			flmem_watch_state_warn(&w->watch_state,
					       ended ? "no line of '%s' marked a round; check the "
						       "file, or give --round-regex"
						     : "the latest lines of '%s' mark no round; if "
						       "none follows, check the file, or give "
						       "--round-regex",
					       log->path);
	}
}

/* Sleeps until the next tick. Returns false if the watch must end instead. */
static bool wait_until(const struct live_watch *w, uint64_t due_us)
{
	struct pollfd stop = {.fd = w->options->stop_fd, .events = POLLIN};

	for (;;) {
		uint64_t now_ns = flmem_clock_ns(), due_ns = due_us * 1000U;
		uint64_t left = due_ns > now_ns ? due_ns - now_ns : 0;
		const struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000U),
						 .tv_nsec = (long)(left % 1000000000U)};
		int ready = ppoll(&stop, 1, &timeout, NULL);

		if (ready > 0)
			return false;
		if (ready == 0)
			return true;
		if (errno != EINTR)
			return false;
	}
}

static bool watch_is_over(const struct live_watch *w, uint64_t now_us)
{
	const struct flmem_watch_options *o = w->options;

	if (w->watch_state.stopped || (o->duration_us && now_us >= o->duration_us))
		return true;
	/* Rounds shorter than the interval never settle: a further round ends the wait. */
	if (o->rounds && w->watch_state.complete >= o->rounds &&
	    (w->watch_state.complete > o->rounds ||
	     !flmem_watch_state_is_settling(&w->watch_state)))
		return true;
	if (w->watch_state.alive || (o->wait && !w->watch_state.numbered))
		return false;
	if (selects_by_pid(w) || o->selection.tree)
		return true;
	return !o->duration_us && now_us - w->last_alive_us >= GRACE_US;
}

/* Returns the time of the next tick; a delayed watch skips ticks instead of catching up. */
static uint64_t next_tick_us(struct live_watch *w, uint64_t due_us, uint64_t now_us)
{
	uint64_t end = w->options->duration_us;

	due_us += w->watch_state.interval_us;
	if (due_us <= now_us) {
		uint64_t late = (now_us - due_us) / w->watch_state.interval_us + 1;

		w->watch_state.missed += late;
		due_us += late * w->watch_state.interval_us;
	}
	return end && now_us < end && due_us > end ? end : due_us;
}

static int run_tick(struct live_watch *w, uint64_t now_us, struct flmem_error *err)
{
	uint64_t at_us;
	int rc;

	flmem_watch_snapshot_lock(w->options->snapshot);
	rc = search_again(w, now_us, err);
	if (!rc) {
		at_us = flmem_clock_wall_us();
		flmem_watch_state_tick(&w->watch_state, now_us, at_us);
		find_logs(w, now_us);
		read_logs(w, now_us, false);
		sample_all(w, now_us, at_us);
	}
	flmem_watch_snapshot_unlock(w->options->snapshot);
	return rc;
}

static int run_watch_loop(struct live_watch *w, struct flmem_error *err)
{
	uint64_t due_us = 0, now_us = 0;

	for (;;) {
		int rc = run_tick(w, now_us, err);

		if (rc || watch_is_over(w, now_us))
			return rc;
		due_us = next_tick_us(w, due_us, flmem_clock_us() - w->began_us);
		if (!wait_until(w, w->began_us + due_us))
			return 0;
		/* Whole ms, as in recordings, so that a replay gives the same results. */
		now_us = (flmem_clock_us() - w->began_us) / 1000U * 1000U;
	}
}

static int check_watch_options(const struct flmem_watch_options *o, struct flmem_error *err)
{
	if (o->interval_us && o->interval_us < FLMEM_WATCH_INTERVAL_US_MIN)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "--interval accepts at least %u ms",
				       FLMEM_WATCH_INTERVAL_US_MIN / 1000U);
	if (o->exact_peaks && !o->log_count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "exact peaks are those of rounds, which a log contains: "
				       "give --log");
	if (o->rounds && !o->log_count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "rounds are counted in a log: give --log");
	if (o->round_regex && !o->log_count)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"the pattern that marks rounds is searched in logs: give --log");
	if (o->wait && (o->selection.pid_count || o->selection.tree))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--wait waits for a process that matches --name, --role or "
				       "--all; a process given by its PID must run");
	return 0;
}

/* Finds the first processes; with `wait` they may start later. */
static int search_first(struct live_watch *w, struct flmem_error *err)
{
	int rc = search_processes(w, err);

	if (w->options->wait && (rc == FLMEM_ENOPROC || (!rc && !w->watch_state.count))) {
		flmem_error_clear(err);
		flmem_watch_state_warn(&w->watch_state, "waiting for a process that matches");
		return 0;
	}
	if (rc || w->watch_state.count)
		return rc;
	return flmem_error_set(err, FLMEM_ENOPROC, 0, "no process matches the selection");
}

static int begin_watch(struct live_watch *w, struct flmem_error *err)
{
	int rc;

	w->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->proc < 0)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, errno,
				       "cannot open /proc; mount it first");
	rc = flmem_pressures_open(&w->pressures, err);
	if (!rc && w->options->automatic.on)
		rc = flmem_auto_open(&w->options->automatic, &w->automatic, err);
	if (!rc)
		rc = search_first(w, err);
	if (!rc)
		rc = open_logs(w, err);
	if (!rc)
		rc = flmem_watch_state_record(&w->watch_state, err);
	if (!rc)
		check_logs(w, false);
	w->select_every_us = SELECT_EVERY;
	w->began_us = flmem_clock_us();
	return rc;
}

static void finish_trims(struct live_watch *w)
{
	const struct flmem_clock_times moment = {
		(flmem_clock_us() - w->began_us) / 1000U * 1000U,
		flmem_clock_wall_us(),
	};

	flmem_auto_finish(w->automatic, &w->watch_state, &moment);
}

int flmem_watch(const struct flmem_watch_options *options,
		const struct flmem_watch_callbacks *callbacks,
		struct flmem_watch_summary *ret_summary, struct flmem_error *err)
{
	FLMEM_AUTO(clear_watch) struct live_watch w = {.options = options, .proc = -1};
	int rc = check_watch_options(options, err);

	flmem_watch_state_init(&w.watch_state, options, callbacks,
			       options->interval_us ? options->interval_us
						    : FLMEM_WATCH_INTERVAL_US_DEFAULT);
	if (!rc)
		rc = begin_watch(&w, err);
	if (!rc) {
		flmem_watch_snapshot_attach(options->snapshot, &w.watch_state);
		rc = run_watch_loop(&w, err);
		flmem_watch_snapshot_detach(options->snapshot);
	}
	if (!rc && !w.watch_state.numbered)
		rc = flmem_error_set(err, FLMEM_ENOPROC, 0, "no process matched while it waited");
	if (!rc && w.automatic)
		finish_trims(&w);
	if (!rc)
		check_logs(&w, true);
	if (!rc)
		rc = flmem_watch_state_finish(&w.watch_state, true, ret_summary, err);
	for (size_t i = 0; !rc && i < ret_summary->count; i++)
		flmem_next_step_find(&ret_summary->results[i]);
	return rc;
}
