/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_WATCH_H
#define FLMEM_WATCH_H

/*
 * Following processes over time from outside: cheap counters at every interval, the exact split
 * between kinds of memory more rarely, never a walk over page tables, and nothing that a target
 * could notice. Processes that come later are taken in, those that end stay in the summary.
 *
 * One watch is used by one thread. What callbacks are given lives for the call only; texts in it
 * are untrusted (escape before printing) and redacted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/condition.h>
#include <flmem/error.h>
#include <flmem/pressure.h>
#include <flmem/select.h>
#include <flmem/trim.h>
#include <flmem/watch_result.h>

#define FLMEM_WATCH_INTERVAL_US_DEFAULT 1000000U
#define FLMEM_WATCH_INTERVAL_US_MIN	10000U

/* Growth that is too much: of these, the one that is not 0. */
struct flmem_growth_limit {
	uint64_t per_round_bytes;
	uint64_t per_hour_bytes;
};

/*
 * Giving retained memory back by policy: after every round on clients (and what has no role), after
 * every fifth on servers, rarer while memory is flat, after every round again once it climbs or
 * memory is short; and whenever a condition holds. Trims are made one at a time beside the
 * sampling, which never waits for them.
 */
struct flmem_watch_auto {
	bool on;
	struct flmem_trim_options trim; /* of each; start_time is not used; timeout_us 0: default */
	/*
	 * Trims also when this holds; it is looked at every 30 s, or each cool-down where one is
	 * given. NULL: FLMEM_WATCH_WHEN_DEFAULT for processes of which no round is known, none for
	 * others.
	 */
	const struct flmem_condition *when;
	unsigned every_rounds;	    /* for all roles, for good; 0: by role, and changing */
	uint64_t cool_down_us;	    /* between two trims of a process, at least; 0: the default */
	uint64_t min_release_bytes; /* a trim that releases less was in vain; 0: the default */
	unsigned max_ineffective;   /* so many in a row and it is left alone; 0: the default */
};

#define FLMEM_WATCH_WHEN_DEFAULT	    "trimmable > 20%"
#define FLMEM_WATCH_TRIM_TIMEOUT_US_DEFAULT 2000000U
#define FLMEM_WATCH_COOL_DOWN_US_DEFAULT    1000000U

struct flmem_watch_options {
	struct flmem_selection selection;
	uint64_t interval_us; /* 0: the default */
	uint64_t duration_us; /* 0: until the processes have ended */
	uint64_t rounds;      /* end after so many complete rounds; 0: any number */
	int stop_fd;	      /* the watch ends once it is readable; -1: none */
	/*
	 * Logs of the job that tell of its rounds. Where a process has one of several open, it is
	 * told of its rounds by that one alone; all others by all logs together, of which several
	 * may tell of the same rounds. Files may come later, vanish and be rotated.
	 */
	const char *const *logs;
	size_t log_count;
	/*
	 * POSIX extended expression that marks the start of a round in a line of a log, instead of
	 * what flmem knows of frameworks; its first group is the number. NULL: none.
	 */
	const char *round_regex;
	const char *record_path;   /* append to this recording; NULL: do not record */
	uint64_t fail_above_bytes; /* resident memory that no sample may pass; 0: any */
	struct flmem_growth_limit fail_growth;
	struct flmem_watch_auto automatic;
	enum flmem_watch_advice advice;
	struct flmem_watch_snapshot *snapshot; /* for readers in other threads; NULL: none */
};

/* Any may be NULL. One that returns false ends the watch. */
struct flmem_watch_callbacks {
	void *context;
	bool (*sample)(void *context, const struct flmem_watch_sample *sample);
	bool (*round)(void *context, const struct flmem_watch_round *round);
	bool (*action)(void *context, const struct flmem_watch_action *action);
	bool (*tick)(void *context); /* all samples of one moment have been told */
};

/*
 * Watches until the duration or the number of rounds is over, the stop descriptor is readable, a
 * callback says so or the processes have ended: those chosen by pid or tree when none is left;
 * those chosen by name when none is left and none came for 15 s, or with the duration if there is
 * one.
 *
 * FLMEM_ENOPROC when nothing matches at the beginning, FLMEM_EPERM when a process that was named by
 * its pid, or a log, may not be read, FLMEM_EUSAGE for a log that is no regular file. Release the
 * summary with flmem_watch_summary_clear().
 */
FLMEM_API int flmem_watch(const struct flmem_watch_options *options,
			  const struct flmem_watch_callbacks *callbacks,
			  struct flmem_watch_summary *ret_summary, struct flmem_error *err);

/*
 * The same from a recording: of the options, interval_us (0: that of the recording) and the limits
 * count. Several sessions in one file are one, joined by process. FLMEM_EUSAGE for what is no
 * recording or holds no process; damage is skipped.
 */
FLMEM_API int flmem_watch_replay(const char *path, const struct flmem_watch_options *options,
				 const struct flmem_watch_callbacks *callbacks,
				 struct flmem_watch_summary *ret_summary, struct flmem_error *err);

FLMEM_API void flmem_watch_summary_clear(struct flmem_watch_summary *summary);

/*
 * A board that a live watch keeps, for other threads to read what it has learnt while it goes on.
 * It belongs to the caller and outlives the watch; one watch at a time.
 */
struct flmem_watch_snapshot;

struct flmem_watch_snapshot_data {
	struct flmem_watch_summary summary; /* of the processes that are alive; without findings */
	struct flmem_u64 round;		    /* that runs now */
	uint64_t alive;			    /* processes */
	uint64_t at_us;			    /* of the last samples, since 1970-01-01 UTC */
	uint64_t self_began_at_us;	    /* when the board was made, since then */
	uint64_t self_cpu_us;		    /* processor time of the calling process, all threads */
	struct flmem_u64 self_rss_bytes;
};

FLMEM_API int flmem_watch_snapshot_new(struct flmem_watch_snapshot **ret_board,
				       struct flmem_error *err);
FLMEM_API void flmem_watch_snapshot_free(struct flmem_watch_snapshot *snapshot);

/*
 * Any thread, also a callback of the watch. The watch waits for the copy of one process at most.
 * FLMEM_ENOPROC while no watch runs, FLMEM_EUNSAFE when the watch is held up for seconds. Release
 * with flmem_watch_summary_clear(&state.summary).
 */
FLMEM_API int flmem_watch_snapshot_read(struct flmem_watch_snapshot *snapshot,
					struct flmem_watch_snapshot_data *ret_state,
					struct flmem_error *err);

#endif
