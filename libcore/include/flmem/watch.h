/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_WATCH_H
#define FLMEM_WATCH_H

/*
 * Watches processes over time from outside: cheap counters at every interval, the exact split
 * between kinds of memory less often, never a walk of page tables, and no effect on the targets.
 * New processes are added, exited ones stay in the summary.
 *
 * One watch is used by one thread. Arguments of callbacks are valid during the call only; their
 * texts are untrusted (escape before printing) and redacted.
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

/* Maximum growth: the member that is not 0 applies. */
struct flmem_growth_limit {
	uint64_t per_round_bytes;
	uint64_t per_hour_bytes;
};

/*
 * Returns retained memory by policy: after every round on clients (and processes without a role),
 * after every fifth round on servers, less often while memory is flat, again after every round once
 * memory climbs or under memory pressure; also while a condition holds. Trims run one at a time in
 * parallel to the sampling, which never waits for them.
 */
struct flmem_watch_auto {
	bool on;
	/* Options of each trim; start_time is not used; timeout_us 0: the default. */
	struct flmem_trim_options trim;
	/*
	 * Trims are also made while this condition holds. It is checked every 30 s, or at the
	 * cool-down if one is given. NULL: FLMEM_WATCH_WHEN_DEFAULT for processes without known
	 * rounds, none for others.
	 */
	const struct flmem_condition *when;
	unsigned every_rounds;	    /* rounds between trims, for all roles; 0: adaptive, by role */
	uint64_t cool_down_us;	    /* minimum between two trims of a process; 0: the default */
	uint64_t min_release_bytes; /* a trim that releases less is ineffective; 0: the default */
	unsigned max_ineffective;   /* ineffective trims in a row before a pause; 0: the default */
};

#define FLMEM_WATCH_WHEN_DEFAULT	    "trimmable > 20%"
#define FLMEM_WATCH_TRIM_TIMEOUT_US_DEFAULT 2000000U
#define FLMEM_WATCH_COOL_DOWN_US_DEFAULT    1000000U

struct flmem_watch_options {
	struct flmem_selection selection;
	uint64_t interval_us; /* 0: the default */
	uint64_t duration_us; /* end after this time; 0: when the processes have exited */
	uint64_t rounds;      /* end after this many complete rounds; 0: no limit */
	int stop_fd;	      /* file descriptor that becomes readable to end the watch; -1: none */
	bool wait; /* wait for the first process that matches; not with `pids` or `tree` */
	/*
	 * Logs of the job that contain its rounds. A process that has one of several logs open uses
	 * the rounds of that log only; other processes use all logs, which may contain the same
	 * rounds. Files may appear later, disappear and be rotated.
	 */
	const char *const *logs;
	size_t log_count;
	/*
	 * POSIX extended expression for log lines that start a round, instead of the built-in
	 * patterns of frameworks; its first group is the number. NULL: none.
	 */
	const char *round_regex;
	const char *record_path;   /* append to this recording; NULL: do not record */
	uint64_t fail_above_bytes; /* limit of resident memory in a sample; 0: no limit */
	struct flmem_growth_limit fail_growth;
	/*
	 * Record the kernel's own peak for each round instead of the highest sample. The peak is
	 * reset at the start of each round, and the process sees the reset too (ru_maxrss).
	 */
	bool exact_peaks;
	struct flmem_watch_auto automatic;
	struct flmem_watch_snapshot *snapshot; /* filled for readers in other threads; NULL: none */
};

/* Callbacks of a watch. Any may be NULL. If one returns false, the watch ends. */
struct flmem_watch_callbacks {
	void *context;
	bool (*sample)(void *context, const struct flmem_watch_sample *sample);
	bool (*round)(void *context, const struct flmem_watch_round *round);
	bool (*action)(void *context, const struct flmem_watch_action *action);
	bool (*tick)(void *context); /* called after all samples of one interval */
	/* Messages for the user during the watch: lost blocks of a recording, a missing log. */
	void (*warning)(void *context, const char *text);
};

/*
 * Watches until the duration or number of rounds is reached, the stop descriptor is readable, a
 * callback returns false, or the processes have exited: those selected by pid or tree when none is
 * left; those selected by name when none is left and none appears for 15 s, or at the end of a
 * given duration.
 *
 * FLMEM_ENOPROC if nothing matches at the start (with `wait`: until the end) or a process given by
 * pid is a zombie, FLMEM_EUNSUPPORTED if that is a kernel thread, FLMEM_EPERM if a process given by
 * pid, or a log, is not readable, FLMEM_EUSAGE for a log that is not a regular file. Release the
 * summary with flmem_watch_summary_clear().
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_watch(const struct flmem_watch_options *options,
					   const struct flmem_watch_callbacks *callbacks,
					   struct flmem_watch_summary *ret_summary,
					   struct flmem_error *err);

/*
 * Evaluates a recording as flmem_watch() evaluates processes. Of the options only the limits and
 * interval_us (0: that of the recording) apply. Several sessions in one file are joined by process.
 * FLMEM_EUSAGE for a file that is not a recording or contains no process; damaged parts are
 * skipped.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_watch_replay(const char *path,
						  const struct flmem_watch_options *options,
						  const struct flmem_watch_callbacks *callbacks,
						  struct flmem_watch_summary *ret_summary,
						  struct flmem_error *err);

/*
 * A snapshot of a running watch, which other threads can read. The caller owns it, and it must
 * outlive the watch; one watch at a time.
 */
struct flmem_watch_snapshot;

struct flmem_watch_snapshot_data {
	struct flmem_watch_summary summary; /* results of the live processes, without findings */
	struct flmem_u64 round;		    /* current round */
	uint64_t alive;			    /* number of watched processes that are alive */
	uint64_t at_us;			    /* time of the latest samples, since 1970-01-01 UTC */
	uint64_t self_began_at_us;	    /* time when the snapshot was created, same clock */
	uint64_t self_cpu_us; /* CPU time of the calling process, all threads together */
	struct flmem_u64 self_rss_bytes;
};

/* Creates a snapshot. FLMEM_EFAILED if memory is out. Release with flmem_watch_snapshot_free(). */
FLMEM_API FLMEM_MUST_CHECK int flmem_watch_snapshot_new(struct flmem_watch_snapshot **ret_snapshot,
							struct flmem_error *err);

/* Frees a snapshot, after the watch and all readers have ended. NULL is allowed. */
FLMEM_API void flmem_watch_snapshot_free(struct flmem_watch_snapshot *snapshot);

/*
 * Copies the current results. Any thread may call it, also in callbacks of the watch, which waits
 * at most for the copy of one process. FLMEM_ENOPROC while no watch runs, FLMEM_EUNSAFE if the
 * watch does not respond for seconds. Release with flmem_watch_summary_clear(&state.summary).
 */
FLMEM_API FLMEM_MUST_CHECK int
flmem_watch_snapshot_read(struct flmem_watch_snapshot *snapshot,
			  struct flmem_watch_snapshot_data *ret_state, struct flmem_error *err);

#endif
