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
#include <flmem/recommend.h>
#include <flmem/roles.h>
#include <flmem/select.h>
#include <flmem/trend.h>
#include <flmem/trim.h>
#include <flmem/value.h>

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
	unsigned every_rounds; /* for all roles, for good; 0: by role, and changing */
	uint64_t cool_down_us; /* between two trims of a process, at least; 0: the default */
	uint64_t least_bytes;  /* a trim that releases less was in vain; 0: the default */
	unsigned in_vain_max;  /* so many in a row and it is left alone; 0: the default */
};

#define FLMEM_WATCH_WHEN_DEFAULT	    "trimmable > 20%"
#define FLMEM_WATCH_TRIM_TIMEOUT_US_DEFAULT 2000000U
#define FLMEM_WATCH_COOL_DOWN_US_DEFAULT    1000000U

/* Which rules of flmem_recommend() are held against the processes at the end. */
enum flmem_watch_advice {
	FLMEM_WATCH_ADVICE_NONE,
	FLMEM_WATCH_ADVICE_TRENDS, /* those about recordings, which read nothing more */
	/*
	 * Also those about live processes, against what still runs: this reads them as
	 * flmem_detect() does, within a few seconds for all together. No replay has any.
	 */
	FLMEM_WATCH_ADVICE_LIVE,
};

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
	struct flmem_watch_board *board; /* for readers in other threads; NULL: none */
};

struct flmem_watch_process {
	pid_t pid;
	uint64_t start_time; /* clock ticks after boot; with the pid it names one process */
	char *command;
	char *site; /* that the framework gives it, or NULL */
	enum flmem_framework framework;
	enum flmem_role role;
};

/* Kinds of resident memory, from /proc/PID/status. */
struct flmem_watch_split {
	struct flmem_u64 anon_bytes;
	struct flmem_u64 file_bytes;
	struct flmem_u64 shmem_bytes;
	struct flmem_u64 swap_bytes;
};

struct flmem_watch_sample {
	const struct flmem_watch_process *process;
	uint64_t at_us;	     /* since 1970-01-01 UTC */
	uint64_t elapsed_us; /* since the watch began, by a clock that does not jump */
	uint64_t rss_bytes;
	struct flmem_u64 round;		       /* that runs now */
	const struct flmem_watch_split *split; /* NULL in the many samples that do not take it */
	const struct flmem_pressure *pressure; /* of its control group; also NULL if unchanged */
};

/* A round of one process, told when its trough is known. */
struct flmem_watch_round {
	const struct flmem_watch_process *process;
	uint64_t number;
	uint64_t ordinal;    /* counts up, also where numbers start again */
	uint64_t started_us; /* since the watch began */
	uint64_t elapsed_us; /* at its end */
	uint64_t duration_us;
	struct flmem_u64 peak_bytes;   /* highest resident memory within it */
	struct flmem_u64 trough_bytes; /* lowest soon after its end */
	struct flmem_i64 growth_bytes; /* of the trough, since the round before */
};

/*
 * X(NAME, text). TRIMMED: a trim was made, the figures say what it brought. REFUSED: it was not
 * safe now; the next occasion tries again. DROPPED: it is refused for good, the process is only
 * watched from now on. LOOSENED, TIGHTENED: `every_rounds` has become higher or 1. RESTING: no more
 * trims for now, as they bring nothing; RESUMED: again, for something has changed. UNDECIDED: the
 * condition cannot be decided, told once for each reason.
 */
#define FLMEM_WATCH_ACTIONS(X)    \
	X(TRIMMED, "trimmed")     \
	X(REFUSED, "refused")     \
	X(DROPPED, "dropped")     \
	X(LOOSENED, "loosened")   \
	X(TIGHTENED, "tightened") \
	X(RESTING, "resting")     \
	X(RESUMED, "resumed")     \
	X(UNDECIDED, "undecided")

enum flmem_watch_action_kind {
#define FLMEM_WATCH_ACTION_ENUM(name, text) FLMEM_WATCH_##name,
	FLMEM_WATCH_ACTIONS(FLMEM_WATCH_ACTION_ENUM)
#undef FLMEM_WATCH_ACTION_ENUM
	FLMEM_WATCH_ACTION_KINDS
};

/* "trimmed", ...; never NULL. */
FLMEM_API const char *flmem_watch_action_name(enum flmem_watch_action_kind kind);

/* A decision of the policy, told when it is made, or when what it led to is over. */
struct flmem_watch_action {
	const struct flmem_watch_process *process;
	enum flmem_watch_action_kind kind;
	uint64_t at_us, elapsed_us;
	struct flmem_u64 round; /* that ended last */
	uint64_t every_rounds;	/* between two trims, from now on */
	const char *reason;	/* untrusted text, never NULL */
	/* Of trims that were made; else unknown. */
	struct flmem_u64 rss_before_bytes, rss_after_bytes, released_bytes;
	struct flmem_u64 stopped_us;		/* a thread did not run the program for this long */
	const struct flmem_trim_result *result; /* NULL in replays, and where none was tried */
};

/* The actions on one process, counted. */
struct flmem_watch_actions {
	uint64_t count[FLMEM_WATCH_ACTION_KINDS];
	uint64_t released_bytes; /* by all trims, as far as known */
	uint64_t stopped_us;	 /* the same */
	uint64_t every_rounds;	 /* at last; 0: no action was told */
};

/* What a watch has learnt of one process. */
struct flmem_watch_result {
	struct flmem_watch_process process;
	bool ended;	   /* before the watch did */
	uint64_t restarts; /* processes that took its place in turn; `process` is the last */
	uint64_t samples;
	uint64_t rounds;     /* complete ones */
	uint64_t watched_us; /* from the first sample to the last */
	struct flmem_u64 first_bytes, last_bytes, lowest_bytes, peak_bytes; /* resident */
	struct flmem_watch_split split; /* the last one that was read */
	struct flmem_trend trend;
	struct flmem_forecast forecast;
	struct flmem_u64 limit_bytes;	 /* of its control group or the host, the nearer one */
	struct flmem_u64 headroom_bytes; /* what is left of that limit */
	bool limit_is_cgroup;
	struct flmem_u64 gpu_bytes;	     /* that it holds now, of all GPUs together */
	struct flmem_pressure pressure;	     /* of its control group, at last */
	struct flmem_pressure pressure_rise; /* of it: the counters since the process is watched */
	struct flmem_watch_actions actions;
	const char *findings[2]; /* static: limits of the options that it passed; NULL: none */
	size_t advice_first, advice_count; /* findings of the summary's advice about it */
};

struct flmem_watch_summary {
	struct flmem_watch_result *results;
	size_t count;
	uint64_t rounds;    /* that were seen from beginning to end */
	uint64_t forgotten; /* processes that ended and are not among the results, being too many */
	uint64_t missed;    /* intervals without samples, because the host was too busy or asleep */
	uint64_t record_lost;		     /* blocks of the recording that could not be written */
	int record_errno;		     /* why the last of them was lost */
	uint64_t record_skipped_bytes;	     /* of a replay: that made no sense */
	bool limit_passed;		     /* some process has findings */
	enum flmem_watch_advice advised;     /* NONE: `advice` is empty */
	struct flmem_recommendations advice; /* findings in the order of the results */
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
struct flmem_watch_board;

struct flmem_watch_state {
	struct flmem_watch_summary summary; /* of the processes that are alive; without findings */
	struct flmem_u64 round;		    /* that runs now */
	uint64_t alive;			    /* processes */
	uint64_t at_us;			    /* of the last samples, since 1970-01-01 UTC */
	uint64_t self_began_at_us;	    /* when the board was made, since then */
	uint64_t self_cpu_us;		    /* processor time of the calling process, all threads */
	struct flmem_u64 self_rss_bytes;
};

FLMEM_API int flmem_watch_board_new(struct flmem_watch_board **ret_board, struct flmem_error *err);
FLMEM_API void flmem_watch_board_free(struct flmem_watch_board *board);

/*
 * Any thread, also a callback of the watch. The watch waits for the copy of one process at most.
 * FLMEM_ENOPROC while no watch runs, FLMEM_EUNSAFE when the watch is held up for seconds. Release
 * with flmem_watch_summary_clear(&state.summary).
 */
FLMEM_API int flmem_watch_board_read(struct flmem_watch_board *board,
				     struct flmem_watch_state *ret_state, struct flmem_error *err);

#endif
