/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watch/watch_snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/portable.h"
#include "ops/watch/forecast_state.h"
#include "proc/status.h"

/* Time that a reader waits for a blocked watch, for example behind a full pipe. */
#define PATIENCE_S 2

struct flmem_watch_snapshot {
	pthread_mutex_t lock;
	const struct flmem_watch_state *watch_state; /* NULL: no watch runs */
	uint64_t began_at_us; /* time when the snapshot object was created, since 1970-01-01 UTC */
};

int flmem_watch_snapshot_new(struct flmem_watch_snapshot **ret_snapshot, struct flmem_error *err)
{
	struct flmem_watch_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	pthread_mutexattr_t attributes;

	if (!snapshot)
		return flmem_error_nomem(err, "cannot allocate the snapshot");
	pthread_mutexattr_init(&attributes);
	/* Recursive: callbacks of the watch may read the snapshot, too. */
	pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&snapshot->lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
	snapshot->began_at_us = flmem_clock_wall_us();
	*ret_snapshot = snapshot;
	return 0;
}

void flmem_watch_snapshot_free(struct flmem_watch_snapshot *snapshot)
{
	if (!snapshot)
		return;
	pthread_mutex_destroy(&snapshot->lock);
	free(snapshot);
}

void flmem_watch_snapshot_lock(struct flmem_watch_snapshot *snapshot)
{
	if (snapshot)
		pthread_mutex_lock(&snapshot->lock);
}

void flmem_watch_snapshot_unlock(struct flmem_watch_snapshot *snapshot)
{
	if (snapshot)
		pthread_mutex_unlock(&snapshot->lock);
}

static void attach_watch(struct flmem_watch_snapshot *snapshot,
			 const struct flmem_watch_state *watch_state)
{
	flmem_watch_snapshot_lock(snapshot);
	if (snapshot)
		snapshot->watch_state = watch_state;
	flmem_watch_snapshot_unlock(snapshot);
}

void flmem_watch_snapshot_attach(struct flmem_watch_snapshot *snapshot,
				 const struct flmem_watch_state *watch_state)
{
	attach_watch(snapshot, watch_state);
}

void flmem_watch_snapshot_detach(struct flmem_watch_snapshot *snapshot)
{
	attach_watch(snapshot, NULL);
}

/* Locks the snapshot if a watch is attached, and copies the facts of the whole watch. */
static int fill_session(struct flmem_watch_snapshot *snapshot, struct flmem_error *err)
{
	if (flmem_mutex_lock_within(&snapshot->lock, PATIENCE_S))
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "the watch is blocked, by the reader of its output or by "
				       "the disk of its recording");
	if (snapshot->watch_state)
		return 0;
	pthread_mutex_unlock(&snapshot->lock);
	return flmem_error_set(err, FLMEM_ENOPROC, 0, "no watch is running");
}

static void copy_watch(const struct flmem_watch_state *w, struct flmem_watch_snapshot_data *state)
{
	state->round = w->round;
	state->at_us = w->at_us;
	state->alive = w->alive;
	state->summary.rounds = w->complete;
	state->summary.missed = FLMEM_KNOWN(w->missed);
	state->summary.record_lost = w->recorder.lost;
	state->summary.record_errno = w->recorder.error;
}

static void clear_copy(struct flmem_watched_process *copy)
{
	flmem_process_close(&copy->process);
	free(copy->id.command);
	free(copy->id.site);
}

/* Copies the process with its texts and its directory; other files are not copied. */
static int copy_followed(const struct flmem_watched_process *watched,
			 struct flmem_watched_process *copy)
{
	*copy = *watched;
	copy->statm = -1;
	copy->process.pidfd = -1;
	copy->process.dirfd = fcntl(watched->process.dirfd, F_DUPFD_CLOEXEC, 0);
	copy->id.command = strdup(watched->id.command ? watched->id.command : "");
	copy->id.site = watched->id.site ? strdup(watched->id.site) : NULL;
	if (copy->process.dirfd >= 0 && copy->id.command && (copy->id.site || !watched->id.site))
		return 0;
	clear_copy(copy);
	return -ENOMEM;
}

/* Reserves room for all processes; processes added later are read the next time. */
static int lock_attached(struct flmem_watch_snapshot *snapshot,
			 struct flmem_watch_snapshot_data *state, size_t *ret_count,
			 struct flmem_error *err)
{
	int rc = fill_session(snapshot, err);

	if (rc)
		return rc;
	copy_watch(snapshot->watch_state, state);
	*ret_count = snapshot->watch_state->count;
	pthread_mutex_unlock(&snapshot->lock);
	state->summary.results =
		calloc(*ret_count ? *ret_count : 1, sizeof(*state->summary.results));
	return state->summary.results ? 0 : flmem_error_nomem(err, "cannot copy the snapshot");
}

/* Copies one process. Returns false if it has ended or has no sample. */
static bool read_followed(struct flmem_watch_snapshot *snapshot, size_t i,
			  struct flmem_watched_process *copy, int *ret_rc)
{
	const struct flmem_watched_process *f;
	bool shown;

	*ret_rc = fill_session(snapshot, NULL);
	if (*ret_rc)
		return false;
	f = i < snapshot->watch_state->count ? snapshot->watch_state->watched[i] : NULL;
	shown = f && !f->ended && f->history.samples;
	if (shown)
		*ret_rc = copy_followed(f, copy);
	pthread_mutex_unlock(&snapshot->lock);
	return shown && !*ret_rc;
}

/*
 * Stores the trend of a copy in the watch, so that no reader computes it again before the next
 * sample.
 */
static void store_trend(struct flmem_watch_snapshot *snapshot, size_t i,
			const struct flmem_watched_process *copy)
{
	struct flmem_watched_process *f;

	if (fill_session(snapshot, NULL))
		return;
	f = i < snapshot->watch_state->count ? snapshot->watch_state->watched[i] : NULL;
	if (f && f->number == copy->number)
		f->trend = copy->trend;
	pthread_mutex_unlock(&snapshot->lock);
}

static int read_all(struct flmem_watch_snapshot *snapshot, size_t count,
		    struct flmem_watch_snapshot_data *state, struct flmem_error *err)
{
	FLMEM_AUTO_FREE struct flmem_watched_process *copy = malloc(sizeof(*copy));
	struct flmem_forecast_limits limits;
	int rc;

	if (!copy)
		return flmem_error_nomem(err, "cannot copy the snapshot");
	rc = flmem_forecast_limits_open(&limits, err);
	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < count; i++) {
		struct flmem_watch_summary *s = &state->summary;
		int read_rc;

		if (read_followed(snapshot, i, copy, &read_rc)) {
			flmem_forecast_of(&limits, NULL, copy, &s->results[s->count++]);
			store_trend(snapshot, i, copy);
			clear_copy(copy);
		} else if (read_rc) {
			rc = flmem_error_set(err, FLMEM_EFAILED, 0, "the watch has ended");
		}
	}
	flmem_forecast_limits_close(&limits);
	return rc;
}

/* Reads the resources that flmem itself uses, all threads together. */
static void read_own_usage(const struct flmem_watch_snapshot *snapshot,
			   struct flmem_watch_snapshot_data *state)
{
	FLMEM_AUTO_PROCESS struct flmem_process self = FLMEM_PROCESS_INIT;
	struct flmem_status status;
	struct rusage used;

	state->self_began_at_us = snapshot->began_at_us;
	getrusage(RUSAGE_SELF, &used);
	state->self_cpu_us = (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000U +
			     (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
	state->self_rss_bytes = FLMEM_UNKNOWN("/proc/self/status cannot be read");
	if (flmem_process_open(getpid(), &self, NULL) == 0 &&
	    flmem_status_read(&self, &status, NULL) == 0)
		state->self_rss_bytes = status.rss_bytes;
}

int flmem_watch_snapshot_read(struct flmem_watch_snapshot *snapshot,
			      struct flmem_watch_snapshot_data *ret_state, struct flmem_error *err)
{
	struct flmem_watch_snapshot_data state = {0};
	size_t count;
	int rc = lock_attached(snapshot, &state, &count, err);

	if (!rc)
		rc = read_all(snapshot, count, &state, err);
	if (rc) {
		flmem_watch_summary_clear(&state.summary);
		return rc;
	}
	read_own_usage(snapshot, &state);
	*ret_state = state;
	return 0;
}
