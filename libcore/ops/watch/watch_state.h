/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_WATCH_STATE_H
#define FLMEM_OPS_WATCH_WATCH_STATE_H

/*
 * State and reports of a watch, whether its samples come from live processes (watch.c) or from a
 * recording (replay.c).
 */

#include <flmem/watch.h>

#include "frameworks/round_markers.h"
#include "ops/watch/watched_process.h"
#include "series/recording.h"

/* Limit for the processes of one watch, including those that have ended. */
#define FLMEM_WATCH_PROCESSES_MAX ((size_t)16384)

struct flmem_watch_state {
	const struct flmem_watch_options *options;
	const struct flmem_watch_callbacks *callbacks;
	uint64_t interval_us;
	struct flmem_watched_process **watched;
	size_t count, alive, capacity;
	size_t numbered;	 /* number of processes so far */
	uint64_t forgotten;	 /* ended processes that were dropped */
	bool forgotten_exceeded; /* a dropped process had exceeded a limit */
	struct flmem_u64 round;	 /* the running round */
	bool rounds_known; /* rounds of some process are known, so its samples count for them */
	bool seen_start;   /* the running round started during the watch */
	uint64_t complete; /* number of complete rounds */
	uint64_t missed;   /* number of missed ticks */
	uint64_t at_us;	   /* time of the last tick, since 1970-01-01 UTC */
	bool stopped;	   /* a callback has stopped the watch */
	struct flmem_recorder recorder; /* its fd is -1 if nothing is recorded */
	uint64_t flushed_us;
	uint64_t lost_reported, lost_size; /* losses and size of the recording, when last checked */
	bool losing;
};

void flmem_watch_state_init(struct flmem_watch_state *watch_state,
			    const struct flmem_watch_options *options,
			    const struct flmem_watch_callbacks *callbacks, uint64_t interval_us);

void flmem_watch_state_clear(struct flmem_watch_state *watch_state);

/* Passes a warning to the callback, if there is one; the text is cut at a message's length. */
void flmem_watch_state_warn(const struct flmem_watch_state *watch_state, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Starts the recording if the options request one. */
int flmem_watch_state_record(struct flmem_watch_state *watch_state, struct flmem_error *err);

/*
 * Takes ownership of the process, also on failure (out of memory, too many processes).
 * *ret_watched, unless NULL, is its entry: that of an ended process that it continues, or itself.
 */
int flmem_watch_state_add(struct flmem_watch_state *watch_state,
			  struct flmem_watched_process *watched, bool fresh,
			  struct flmem_watched_process **ret_watched, struct flmem_error *err);

/* Starts a tick: the samples that follow have this time. */
void flmem_watch_state_tick(struct flmem_watch_state *watch_state, uint64_t now_us, uint64_t at_us);

/* Reports a sample of the process, with or without a new split. */
void flmem_watch_state_sample(struct flmem_watch_state *watch_state,
			      struct flmem_watched_process *watched, uint64_t at_us, bool split);

/* Reports an action or a decision of automatic trims. */
void flmem_watch_state_action(struct flmem_watch_state *watch_state,
			      struct flmem_watched_process *watched,
			      const struct flmem_watch_action *action);

/* Records that the identity of the process has changed. */
void flmem_watch_state_renamed(struct flmem_watch_state *watch_state,
			       const struct flmem_watched_process *watched);

void flmem_watch_state_end(struct flmem_watch_state *watch_state,
			   struct flmem_watched_process *watched);

void flmem_watch_state_round(struct flmem_watch_state *watch_state, uint64_t now_us,
			     const struct flmem_round_change *change);

/* Notes that the process has rounds of a separate log from now on. */
void flmem_watch_state_own_rounds(struct flmem_watch_state *watch_state,
				  struct flmem_watched_process *watched);

void flmem_watch_state_round_of(struct flmem_watch_state *watch_state,
				struct flmem_watched_process *watched, uint64_t now_us,
				const struct flmem_round_change *change);

/*
 * Notes the round that is already running, or that it is unknown: rounds whose start was not seen
 * do not count.
 */
void flmem_watch_state_round_runs(struct flmem_watch_state *watch_state, struct flmem_u64 number);

/* Returns true while the trough of a live process's last round is being measured. */
bool flmem_watch_state_is_settling(const struct flmem_watch_state *watch_state);

/* Ends rounds and recording, and fills the summary; `live`: limits can be read. */
int flmem_watch_state_finish(struct flmem_watch_state *watch_state, bool live,
			     struct flmem_watch_summary *ret_summary, struct flmem_error *err);

#endif
