/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/watch.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "frameworks/framework.h"
#include "frameworks/rounds.h"
#include "ops/followed.h"
#include "ops/log_tail.h"
#include "ops/outlook.h"

#define SPLIT_EVERY  10U	     /* samples */
#define SELECT_EVERY 5000000U	     /* us between two looks for processes that came */
#define GRACE_US     15000000U	     /* how long a name may match nothing before the watch ends */
#define LOG_PAST     65536	     /* bytes of a log that tell which round runs already */
#define FOLLOWED_MAX ((size_t)65536) /* processes at a time and in the summary */

/* A watch at work. */
struct watch {
	const struct flmem_watch_options *options;
	const struct flmem_watch_callbacks *callbacks;
	int proc;
	uint64_t interval_us;
	uint64_t began_us;    /* monotonic */
	uint64_t selected_us; /* since it began: last look for processes */
	uint64_t lonely_us;   /* since it began: when the last process was alive */
	uint64_t ticks;
	uint64_t missed;
	struct flmem_followed **followed;
	size_t count, alive, capacity;
	bool stopped; /* by a callback */
	struct flmem_log *logs;
	size_t log_count;
	struct flmem_rounds rounds;
	bool seen_start;   /* the round that runs has started under the watch */
	uint64_t complete; /* rounds */
};

static void clear_watch(struct watch *w)
{
	for (size_t i = 0; i < w->count; i++)
		flmem_followed_free(w->followed[i]);
	free(w->followed);
	for (size_t i = 0; i < w->log_count; i++)
		flmem_log_close(&w->logs[i]);
	free(w->logs);
	flmem_rounds_clear(&w->rounds);
	flmem_cleanup_close(&w->proc);
}

static bool is_followed(const struct watch *w, pid_t pid, uint64_t start_time)
{
	for (size_t i = 0; i < w->count; i++)
		if (w->followed[i]->id.pid == pid &&
		    (!start_time || w->followed[i]->id.start_time == start_time))
			return true;
	return false;
}

static int make_room(struct watch *w)
{
	size_t capacity = w->capacity ? w->capacity * 2 : 16;
	struct flmem_followed **grown;

	if (w->count < w->capacity)
		return 0;
	if (w->count >= FOLLOWED_MAX)
		return -ENOSPC;
	grown = reallocarray(w->followed, capacity, sizeof(struct flmem_followed *));
	if (!grown)
		return -ENOMEM;
	w->followed = grown;
	w->capacity = capacity;
	return 0;
}

static bool by_pid(const struct watch *w)
{
	return w->options->selection.pid_count > 0;
}

static int follow(struct watch *w, const struct flmem_targets *targets, size_t i,
		  struct flmem_kin *kin, struct flmem_error *err)
{
	int rc = make_room(w);

	if (rc)
		return flmem_error_set(err, FLMEM_EFAILED, -rc,
				       "cannot follow more than %zu processes", w->count);
	rc = flmem_followed_open(targets->pids[i], targets->start_times[i], w->interval_us, kin,
				 &w->followed[w->count], err);
	if (rc)
		return rc;
	flmem_round_stats_init(&w->followed[w->count]->rounds, w->interval_us, w->ticks > 0);
	w->count++;
	w->alive++;
	return 0;
}

static int follow_all(struct watch *w, const struct flmem_targets *targets, struct flmem_error *err)
{
	FLMEM_AUTO_KIN struct flmem_kin kin = {.proc_dirfd = w->proc};

	for (size_t i = 0; i < targets->count; i++) {
		int rc;

		if (is_followed(w, targets->pids[i], targets->start_times[i]))
			continue;
		rc = follow(w, targets, i, &kin, err);
		/* What came by a name may be gone again, or be someone else's. */
		if (rc && (by_pid(w) || rc == FLMEM_EFAILED))
			return rc;
	}
	return 0;
}

static void forget_targets(struct flmem_targets *targets)
{
	flmem_targets_clear(targets);
}

static int look_for_processes(struct watch *w, struct flmem_error *err)
{
	FLMEM_AUTO(forget_targets) struct flmem_targets targets = {0};
	int rc = flmem_select(&w->options->selection, &targets, err);

	return rc ? rc : follow_all(w, &targets, err);
}

/* Later looks may find nothing, and a tree may have lost its root: that ends no watch. */
static int look_again(struct watch *w, uint64_t now_us, struct flmem_error *err)
{
	int rc;

	if (by_pid(w) || now_us - w->selected_us < SELECT_EVERY)
		return 0;
	w->selected_us = now_us;
	rc = look_for_processes(w, err);
	return rc == FLMEM_ENOPROC || rc == FLMEM_EPERM ? 0 : rc;
}

static uint64_t wall_clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000U + (uint64_t)now.tv_nsec / 1000U;
}

static void tell_sample(struct watch *w, const struct flmem_followed *f, bool split, uint64_t at_us)
{
	const struct flmem_watch_sample sample = {
		.process = &f->id,
		.at_us = at_us,
		.elapsed_us = f->last_us,
		.rss_bytes = f->last_bytes,
		.round = w->rounds.running ? FLMEM_KNOWN(w->rounds.current)
					   : FLMEM_UNKNOWN("no round is known to run"),
		.split = split ? &f->split : NULL,
	};

	if (w->callbacks->sample && !w->callbacks->sample(w->callbacks->context, &sample))
		w->stopped = true;
}

static void tell_round(struct watch *w, const struct flmem_followed *f,
		       struct flmem_watch_round *round)
{
	round->process = &f->id;
	if (w->callbacks->round && !w->callbacks->round(w->callbacks->context, round))
		w->stopped = true;
}

static void sample_one(struct watch *w, struct flmem_followed *f, uint64_t now_us, uint64_t at_us)
{
	bool split = f->history.samples % SPLIT_EVERY == 0;
	struct flmem_watch_round round;
	uint64_t rss;

	if (!flmem_followed_sample(f, now_us, &rss)) {
		flmem_followed_end(f);
		w->alive--;
		return;
	}
	if (split)
		flmem_followed_split(f);
	if (w->options->fail_above_bytes && rss > w->options->fail_above_bytes)
		f->passed_above = true;
	tell_sample(w, f, split, at_us);
	if (flmem_round_stats_sample(&f->rounds, now_us, rss, &round))
		tell_round(w, f, &round);
}

static void sample_all(struct watch *w, uint64_t now_us)
{
	uint64_t at_us = wall_clock_us();

	for (size_t i = 0; i < w->count && !w->stopped; i++)
		if (!w->followed[i]->ended)
			sample_one(w, w->followed[i], now_us, at_us);
	if (w->alive)
		w->lonely_us = now_us;
	w->ticks++;
}

static void change_round(struct watch *w, struct flmem_followed *f, uint64_t now_us,
			 const struct flmem_round_change *change)
{
	struct flmem_watch_round round;

	if (change->finished && flmem_round_stats_finish(&f->rounds, now_us, &round))
		tell_round(w, f, &round);
	if (change->started &&
	    flmem_round_stats_start(&f->rounds, now_us, change->started_number, &round))
		tell_round(w, f, &round);
}

/* A line of a log on its way to the rounds. */
struct reading {
	struct watch *w;
	size_t log;
	uint64_t now_us;
	bool past; /* written before the watch began: only tells which round runs */
};

static void read_line(void *context, char *line, size_t length)
{
	const struct reading *r = context;
	struct flmem_round_change change;
	struct watch *w = r->w;

	if (!flmem_rounds_read(&w->rounds, r->log, line, length, &change) || r->past)
		return;
	if (change.finished && w->seen_start)
		w->complete++;
	w->seen_start = change.started;
	for (size_t i = 0; i < w->count; i++)
		if (!w->followed[i]->ended)
			change_round(w, w->followed[i], r->now_us, &change);
}

static void read_logs(struct watch *w, uint64_t now_us, bool past)
{
	for (size_t i = 0; i < w->log_count; i++) {
		struct reading reading = {.w = w, .log = i, .now_us = now_us, .past = past};

		flmem_log_poll(&w->logs[i], read_line, &reading);
	}
}

static int open_logs(struct watch *w, struct flmem_error *err)
{
	const struct flmem_watch_options *o = w->options;
	int rc = flmem_rounds_init(&w->rounds, o->round_regex, err);

	if (rc)
		return rc;
	w->logs = calloc(o->log_count ? o->log_count : 1, sizeof(*w->logs));
	if (!w->logs)
		return flmem_error_set(err, FLMEM_EFAILED, ENOMEM, "cannot follow the logs");
	for (; w->log_count < o->log_count; w->log_count++) {
		rc = flmem_log_open(o->logs[w->log_count], LOG_PAST, &w->logs[w->log_count], err);
		if (rc)
			return rc;
	}
	read_logs(w, 0, true);
	return 0;
}

/* Rounds whose trough is still looked for end with what there is. */
static void flush_rounds(struct watch *w)
{
	struct flmem_watch_round round;

	for (size_t i = 0; i < w->count; i++)
		if (flmem_round_stats_flush(&w->followed[i]->rounds, &round))
			tell_round(w, w->followed[i], &round);
}

static bool is_settling(const struct watch *w)
{
	for (size_t i = 0; i < w->count; i++)
		if (!w->followed[i]->ended && w->followed[i]->rounds.settling)
			return true;
	return false;
}

/* Sleeps until the next tick; false when the watch is to end instead. */
static bool wait_until(const struct watch *w, uint64_t due_us)
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

static bool is_over(const struct watch *w, uint64_t now_us)
{
	const struct flmem_watch_options *o = w->options;

	if (w->stopped || (o->duration_us && now_us >= o->duration_us))
		return true;
	if (o->rounds && w->complete >= o->rounds && !is_settling(w))
		return true;
	if (w->alive)
		return false;
	if (by_pid(w) || o->selection.tree)
		return true;
	return !o->duration_us && now_us - w->lonely_us >= GRACE_US;
}

/* The time of the next tick; a watch that was held up leaves ticks out instead of hurrying. */
static uint64_t next_tick(struct watch *w, uint64_t due_us, uint64_t now_us)
{
	uint64_t end = w->options->duration_us;

	due_us += w->interval_us;
	if (due_us <= now_us) {
		uint64_t late = (now_us - due_us) / w->interval_us + 1;

		w->missed += late;
		due_us += late * w->interval_us;
	}
	return end && now_us < end && due_us > end ? end : due_us;
}

static int run(struct watch *w, struct flmem_error *err)
{
	uint64_t due_us = 0, now_us = 0;
	int rc;

	for (;;) {
		read_logs(w, now_us, false);
		sample_all(w, now_us);
		if (is_over(w, now_us))
			return 0;
		due_us = next_tick(w, due_us, flmem_clock_us() - w->began_us);
		if (!wait_until(w, w->began_us + due_us))
			return 0;
		now_us = flmem_clock_us() - w->began_us;
		rc = look_again(w, now_us, err);
		if (rc)
			return rc;
	}
}

static int check(const struct flmem_watch_options *o, struct flmem_error *err)
{
	if (o->interval_us && o->interval_us < FLMEM_WATCH_INTERVAL_US_MIN)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "an interval below %u ms would cost more than it tells",
				       FLMEM_WATCH_INTERVAL_US_MIN / 1000U);
	if (o->rounds && !o->log_count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "rounds can only be counted in a log: name one");
	if (o->round_regex && !o->log_count)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"the text that marks rounds is looked for in logs: name one");
	return 0;
}

static int summarise(struct watch *w, struct flmem_watch_summary *ret_summary,
		     struct flmem_error *err)
{
	struct flmem_watch_summary summary = {.rounds = w->complete, .missed = w->missed};
	int rc;

	summary.results = calloc(w->count ? w->count : 1, sizeof(*summary.results));
	if (!summary.results)
		return flmem_error_set(err, FLMEM_EFAILED, ENOMEM, "cannot sum up");
	rc = flmem_outlook_make(w->options, w->followed, w->count, summary.results, err);
	if (rc) {
		free(summary.results);
		return rc;
	}
	summary.count = w->count;
	for (size_t i = 0; i < summary.count; i++)
		summary.limit_passed |= summary.results[i].findings[0] != NULL;
	*ret_summary = summary;
	return 0;
}

int flmem_watch(const struct flmem_watch_options *options,
		const struct flmem_watch_callbacks *callbacks,
		struct flmem_watch_summary *ret_summary, struct flmem_error *err)
{
	FLMEM_AUTO(clear_watch)
	struct watch w = {.options = options, .callbacks = callbacks, .proc = -1};
	int rc = check(options, err);

	if (rc)
		return rc;
	w.interval_us =
		options->interval_us ? options->interval_us : FLMEM_WATCH_INTERVAL_US_DEFAULT;
	w.proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w.proc < 0)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, errno,
				       "cannot open /proc; mount it first");
	rc = look_for_processes(&w, err);
	if (rc)
		return rc;
	if (!w.count)
		return flmem_error_set(err, FLMEM_ENOPROC, 0,
				       "no process matches what was asked for");
	w.began_us = flmem_clock_us();
	rc = open_logs(&w, err);
	if (rc)
		return rc;
	rc = run(&w, err);
	flush_rounds(&w);
	return rc ? rc : summarise(&w, ret_summary, err);
}

void flmem_watch_summary_clear(struct flmem_watch_summary *summary)
{
	for (size_t i = 0; i < summary->count; i++) {
		free(summary->results[i].process.command);
		free(summary->results[i].process.site);
	}
	free(summary->results);
	*summary = (struct flmem_watch_summary){0};
}
