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
	uint64_t start_time; /* clock ticks after boot; with the pid it names one process */
	char *command;
	char *site; /* name by the framework, or NULL */
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
	struct flmem_u64 round;		       /* current one */
	const struct flmem_watch_split *split; /* NULL in most samples */
	const struct flmem_pressure *pressure; /* of its control group; also NULL if unchanged */
};

/* A round of one process, reported once its trough is known. */
struct flmem_watch_round {
	const struct flmem_watch_process *process;
	uint64_t number;
	uint64_t ordinal;    /* counts up, also if numbers restart */
	uint64_t started_us; /* since the watch began */
	uint64_t elapsed_us; /* at its end */
	uint64_t duration_us;
	struct flmem_u64 peak_bytes; /* highest resident memory within it */
	bool peak_exact;	     /* counted by the kernel; false: the highest sample */
	/* Of its whole control group, counted by the kernel; unknown in replays. */
	struct flmem_u64 group_peak_bytes;
	struct flmem_u64 trough_bytes; /* lowest soon after its end */
	struct flmem_i64 growth_bytes; /* of the trough, since the round before */
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

/* "trimmed", ...; never NULL. */
FLMEM_API const char *flmem_watch_action_name(enum flmem_watch_action_kind kind);

/* A decision of the policy, reported when made, or after the resulting trim. */
struct flmem_watch_action {
	const struct flmem_watch_process *process;
	enum flmem_watch_action_kind kind;
	uint64_t at_us, elapsed_us;
	struct flmem_u64 round; /* the last complete one */
	uint64_t every_rounds;	/* between two trims, from now on */
	const char *reason;	/* untrusted text, never NULL */
	/* Of completed trims; else unknown. */
	struct flmem_u64 rss_before_bytes, rss_after_bytes, released_bytes;
	struct flmem_u64 stopped_us;		/* time for which a thread was borrowed */
	const struct flmem_trim_result *result; /* NULL in replays, and without an attempted trim */
};

/* Counts of the actions on one process. */
struct flmem_watch_actions {
	uint64_t count[FLMEM_WATCH_ACTION_KINDS];
	uint64_t released_bytes; /* fall of RSS over all trims, as far as known */
	uint64_t stopped_us;	 /* over all trims, as far as known */
	uint64_t every_rounds;	 /* latest value; 0: no action yet */
};

/* How to find the code that holds the memory of a climbing process. */
enum flmem_watch_next {
	FLMEM_WATCH_NEXT_NONE,	 /* none: it does not climb, has ended, or is from a recording */
	FLMEM_WATCH_NEXT_ATTACH, /* start a profile now */
	FLMEM_WATCH_NEXT_LEAKS,	 /* read the existing profile */
	FLMEM_WATCH_NEXT_RUN,	 /* profile it from its next start: it has no Python */
};

/* Result of a watch for one process. */
struct flmem_watch_result {
	struct flmem_watch_process process;
	bool ended;	   /* exited before the end of the watch */
	uint64_t restarts; /* number of restarts; `process` is the latest one */
	uint64_t samples;
	uint64_t rounds;     /* complete ones */
	uint64_t watched_us; /* from the first sample to the last */
	struct flmem_u64 first_bytes, last_bytes, lowest_bytes, peak_bytes; /* resident */
	struct flmem_watch_split split;					    /* the latest one */
	struct flmem_trend trend;
	struct flmem_forecast forecast;
	struct flmem_u64 limit_bytes;	 /* of its control group or the host, the lower one */
	struct flmem_u64 headroom_bytes; /* memory left below that limit */
	bool limit_is_cgroup;
	struct flmem_u64 gpu_bytes;	     /* in use now, on all GPUs together */
	struct flmem_pressure pressure;	     /* of its control group, latest value */
	struct flmem_pressure pressure_rise; /* increase since the watch of the process began */
	struct flmem_watch_actions actions;
	const char *findings[2];    /* static: exceeded limits of the options; NULL: none */
	const char *undecided;	    /* static: why the limit of growth cannot be judged; or NULL */
	enum flmem_watch_next next; /* known at the end of a watch of live processes */
	char *sampled_into;	    /* the profile of NEXT_LEAKS; NULL with the others */
};

struct flmem_watch_summary {
	struct flmem_watch_result *results;
	size_t count;
	uint64_t rounds;   /* watched from start to end */
	uint64_t unlisted; /* exited processes that are not among the results: too many */
	struct flmem_u64
		missed;	      /* intervals without samples, as the host was too busy or suspended */
	uint64_t record_lost; /* blocks of the recording that could not be written */
	int record_errno;     /* why the last of them was lost */
	uint64_t record_skipped_bytes;	/* of a replay: damaged, or not in order */
	const char *record_skipped_why; /* static: "damaged" or a longer reason; NULL: none */
	uint64_t record_overlaps; /* watches in it that begin before the end of the one before */
	bool limit_passed;	  /* a process exceeded a limit of the options */
	/* The limit of growth cannot be judged, of a live process or of all. */
	bool limit_undecided;
};

/* Frees the contents and empties the struct. */
FLMEM_API void flmem_watch_summary_clear(struct flmem_watch_summary *summary);

#endif
