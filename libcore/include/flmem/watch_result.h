/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_WATCH_RESULT_H
#define FLMEM_WATCH_RESULT_H

/*
 * Results of flmem/watch.h: processes, samples, rounds, actions, and the final summary. Texts are
 * untrusted (escape before printing) and redacted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/pressure.h>
#include <flmem/roles.h>
#include <flmem/trend.h>
#include <flmem/trim.h>
#include <flmem/value.h>
#include <flmem/visibility.h>

struct flmem_watch_process {
	pid_t pid;
	/* Clock ticks after boot; identifies the process together with the pid. */
	uint64_t start_time;
	char *command;
	char *site; /* site or client name in the framework, or NULL */
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
	uint64_t elapsed_us; /* since the watch began, monotonic */
	uint64_t rss_bytes;
	struct flmem_u64 round;		       /* current round */
	const struct flmem_watch_split *split; /* kinds of resident memory; NULL in most samples */
	/* State of its control group; NULL if there is none or it is unchanged. */
	const struct flmem_pressure *pressure;
};

/* A round of one process, reported once its trough is known. */
struct flmem_watch_round {
	const struct flmem_watch_process *process;
	uint64_t number;
	uint64_t ordinal;    /* counts up, also if numbers restart */
	uint64_t started_us; /* since the watch began */
	uint64_t elapsed_us; /* end of the round, since the watch began */
	uint64_t duration_us;
	struct flmem_u64 peak_bytes; /* highest resident memory within the round */
	bool peak_exact; /* the kernel counted the peak; false: it is the highest sample */
	/* Peak of the whole control group, counted by the kernel; unknown in replays. */
	struct flmem_u64 group_peak_bytes;
	struct flmem_u64 trough_bytes; /* lowest resident memory soon after the end of the round */
	struct flmem_i64 growth_bytes; /* growth of the trough since the round before */
};

/*
 * X(NAME, text). TRIMMED: a trim was made, with its figures. REFUSED: a trim was not safe now; the
 * next occasion tries again. DROPPED: trims are refused permanently, the process is only watched
 * from now on. INTERVAL_RAISED, INTERVAL_LOWERED: `every_rounds` has become higher or 1. PAUSED:
 * no trims for now, as they are ineffective; RESUMED: trims again, as something has changed.
 * UNDECIDED: the condition cannot be decided, reported once per reason.
 */
#define FLMEM_WATCH_ACTIONS(X)                  \
	X(TRIMMED, "trimmed")                   \
	X(REFUSED, "refused")                   \
	X(DROPPED, "dropped")                   \
	X(INTERVAL_RAISED, "interval_raised")   \
	X(INTERVAL_LOWERED, "interval_lowered") \
	X(PAUSED, "paused")                     \
	X(RESUMED, "resumed")                   \
	X(UNDECIDED, "undecided")

enum flmem_watch_action_kind {
#define FLMEM_WATCH_ACTION_ENUM(name, text) FLMEM_WATCH_##name,
	FLMEM_WATCH_ACTIONS(FLMEM_WATCH_ACTION_ENUM)
#undef FLMEM_WATCH_ACTION_ENUM
	FLMEM_WATCH_ACTION_KINDS
};

/* Returns the name of a kind ("trimmed", ...); never NULL. */
FLMEM_API const char *flmem_watch_action_name(enum flmem_watch_action_kind kind);

/* A decision of the policy, reported when made, or after the resulting trim. */
struct flmem_watch_action {
	const struct flmem_watch_process *process;
	enum flmem_watch_action_kind kind;
	uint64_t at_us, elapsed_us;
	struct flmem_u64 round; /* the last complete round */
	uint64_t every_rounds;	/* number of rounds between two trims, from now on */
	const char *reason;	/* untrusted text, never NULL */
	/* Figures of a completed trim; else unknown. */
	struct flmem_u64 rss_before_bytes, rss_after_bytes, released_bytes;
	struct flmem_u64 stopped_us; /* time for which a thread was borrowed */
	/* Result of the trim; NULL in replays, and if no trim was attempted. */
	const struct flmem_trim_result *result;
};

/* Counts of the actions on one process. */
struct flmem_watch_actions {
	uint64_t count[FLMEM_WATCH_ACTION_KINDS];
	uint64_t released_bytes; /* decrease of RSS over all trims, as far as known */
	uint64_t stopped_us;	 /* time for which threads were borrowed, as far as known */
	uint64_t every_rounds;	 /* latest rounds between two trims; 0: no action yet */
};

/* Next step to find the code that holds the memory of a climbing process. */
enum flmem_watch_next {
	/* No step: the process does not climb, has ended, or is from a recording. */
	FLMEM_WATCH_NEXT_NONE,
	FLMEM_WATCH_NEXT_ATTACH, /* start a profile now */
	FLMEM_WATCH_NEXT_LEAKS,	 /* read the existing profile */
	FLMEM_WATCH_NEXT_RUN,	 /* profile the process from its next start: it has no Python */
};

/* Result of a watch for one process. */
struct flmem_watch_result {
	struct flmem_watch_process process;
	bool ended;	   /* exited before the end of the watch */
	uint64_t restarts; /* number of restarts; `process` is the latest one */
	uint64_t samples;
	uint64_t rounds;     /* number of complete rounds */
	uint64_t watched_us; /* time from the first sample to the last */
	struct flmem_u64 first_bytes, last_bytes, lowest_bytes, peak_bytes; /* resident memory */
	struct flmem_watch_split split;					    /* latest split */
	struct flmem_trend trend;
	struct flmem_forecast forecast;
	/* Limit of its control group or of the host, whichever is lower. */
	struct flmem_u64 limit_bytes;
	struct flmem_u64 headroom_bytes; /* memory left below that limit */
	bool limit_is_cgroup;
	struct flmem_u64 gpu_bytes;	/* GPU memory in use now, on all GPUs together */
	struct flmem_pressure pressure; /* latest state of its control group */
	/* Increase of the counters since the watch of the process began. */
	struct flmem_pressure pressure_rise;
	struct flmem_watch_actions actions;
	const char *findings[2]; /* static: limits of the options that were exceeded; NULL: none */
	const char *undecided;	 /* static: why the limit of growth cannot be judged, or NULL */
	enum flmem_watch_next next; /* filled at the end of a watch of live processes */
	char *sampled_into;	    /* profile to read with NEXT_LEAKS; else NULL */
};

struct flmem_watch_summary {
	struct flmem_watch_result *results;
	size_t count;
	uint64_t rounds;   /* number of rounds watched from start to end */
	uint64_t unlisted; /* exited processes without a result, because there are too many */
	struct flmem_u64
		/* Number of intervals without samples, as the host was too busy or suspended. */
		missed;
	uint64_t record_lost;		/* blocks of the recording that could not be written */
	int record_errno;		/* errno of the last lost block */
	uint64_t record_skipped_bytes;	/* bytes that a replay skipped: damaged, or not in order */
	const char *record_skipped_why; /* static: "damaged" or a longer reason; NULL: none */
	uint64_t record_overlaps; /* replayed watches that begin before the end of the one before */
	bool limit_passed;	  /* a process exceeded a limit of the options */
	/* The limit of growth cannot be judged: for a live process, or for every process. */
	bool limit_undecided;
};

/* Frees the contents and zeroes the struct. */
FLMEM_API void flmem_watch_summary_clear(struct flmem_watch_summary *summary);

#endif
