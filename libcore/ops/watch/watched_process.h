/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_WATCHED_PROCESS_H
#define FLMEM_OPS_WATCH_WATCHED_PROCESS_H

/*
 * One process that is followed over time. Its files are opened once; a sample is one pread(2) of
 * /proc/PID/statm, which reads a few counters and takes no lock of the target's memory. An open
 * /proc file always refers to the same process, so a sample need not check the identity again.
 */

#include <flmem/watch.h>

#include "base/cleanup.h"
#include "ops/watch/round_stats.h"
#include "proc/limits/group_peak.h"
#include "proc/process.h"
#include "series/history.h"
#include "series/recording.h"

struct flmem_relatives;
struct flmem_trim_state;

/* A cached trend, valid while the points from which it was computed are unchanged. */
struct flmem_known_trend {
	/* Version of the points of the rounds or of the history; 0: no trend yet. */
	uint64_t version;
	struct flmem_trend trend;
};

/*
 * The fields that every sample reads come first, then the heads of history and rounds: with many
 * processes, none of them stays in the caches of the processor between two samples.
 */
struct flmem_watched_process {
	size_t number; /* number of the process in the watch */
	int statm; /* descriptor of its statm; -1: not kept open, because descriptors are scarce */
	size_t group; /* index in flmem_pressures, or FLMEM_PRESSURES_NONE */
	bool ended;
	bool absent;	       /* in a replay: the process is not in the session that is read */
	bool exceeded_limit;   /* a sample was above the limit of the options */
	bool changed;	       /* a sample has differed from the one before since the last split */
	bool split_is_new;     /* replay only: a split was read since the last sample */
	bool pressure_is_new;  /* pressure was read since the last sample */
	bool pressure_is_read; /* pressure was read at least once */
	bool pressure_is_recorded; /* pressure was recorded at least once */
	bool own_rounds;	   /* the process has rounds of a separate log */
	bool peak_reset;   /* the kernel's peak was reset at the start of the running round */
	bool peak_refused; /* the peak cannot be reset; this is reported once */
	bool execed;	   /* it has executed another program since it was identified */
	uint64_t restarts; /* processes that continued this one */
	uint64_t last_us, last_bytes, lowest_bytes, peak_bytes;
	uint64_t shared_pages; /* shared pages at the last sample */
	uint64_t code_pages;   /* pages of the program's code */
	struct flmem_history history;
	struct flmem_round_stats rounds;
	uint64_t first_us, first_bytes; /* times since the watch began */
	uint64_t arguments_at;	/* address of its arguments when its command line was read; or 0 */
	uint64_t identified_at; /* number of samples when it was identified */
	struct flmem_watch_process id;
	struct flmem_process process;
	struct flmem_watch_split split;
	struct flmem_group_peak group_peak;		  /* open while rounds are watched */
	struct flmem_pressure pressure;			  /* memory pressure in its control group */
	struct flmem_pressure pressure_first;		  /* pressure at the first reading */
	uint64_t pressure_recorded[FLMEM_RECORD_NUMBERS]; /* pressure that was recorded last */
	struct flmem_watch_actions actions;
	struct flmem_known_trend trend;
	size_t log;			     /* the log that it writes, if there are several */
	struct flmem_trim_state *trim_state; /* state of automatic trims; NULL: it is not trimmed */
};

/*
 * Opens the process; if `start_time` is not 0, only the one that started then. `relatives` is for
 * recognising its role. Release with flmem_watched_process_free().
 */
int flmem_watched_process_open(pid_t pid, uint64_t start_time, uint64_t interval_us,
			       struct flmem_relatives *relatives,
			       struct flmem_watched_process **ret_watched, struct flmem_error *err);

/* Creates a process that is not live. Takes ownership of the texts, also on failure (NULL). */
struct flmem_watched_process *flmem_watched_process_new(struct flmem_watch_process *id,
							uint64_t interval_us,
							struct flmem_error *err);

/* Adds a sample that was taken elsewhere. */
void flmem_watched_process_count(struct flmem_watched_process *watched, uint64_t now_us,
				 uint64_t bytes);

/* Forgets the samples and rounds so far, except for the peak and exceeded limits. */
void flmem_watched_process_begin_again(struct flmem_watched_process *watched, uint64_t interval_us);

void flmem_watched_process_free(struct flmem_watched_process *watched);

/* Closes the files of a process that has ended; its measurements stay. */
void flmem_watched_process_end(struct flmem_watched_process *watched);

/*
 * Takes a sample. FLMEM_ENOPROC if the process has ended, FLMEM_EFAILED if there is no sample this
 * time, because descriptors are scarce.
 */
int flmem_watched_process_sample(struct flmem_watched_process *watched, uint64_t now_us);

/*
 * Returns true if the split is to be read with the last sample: with the first one, then in turn
 * with other processes, and rarely while nothing changes.
 */
bool flmem_watched_process_split_is_due(const struct flmem_watched_process *watched);

/*
 * Reads the split between kinds of memory into watched->split. Together with the samples it shows
 * whether the process has executed another program: watched->execed.
 */
void flmem_watched_process_split(struct flmem_watched_process *watched);

/*
 * Identifies a process again that has executed another program: command, framework, role and site,
 * and the state of automatic trims. Returns true if the identity has changed, false also if it is
 * too early: a process that repeatedly executes programs is identified as often as its split is
 * read.
 */
bool flmem_watched_process_identify(struct flmem_watched_process *watched,
				    struct flmem_relatives *relatives);

/* Sets the identity from a recording. FLMEM_EFAILED if out of memory. */
int flmem_watched_process_rename(struct flmem_watched_process *watched,
				 const struct flmem_watch_process *as, struct flmem_error *err);

static inline void flmem_cleanup_watched_process(struct flmem_watched_process **watched)
{
	flmem_watched_process_free(*watched);
}

#define FLMEM_AUTO_WATCHED_PROCESS FLMEM_AUTO(flmem_cleanup_watched_process)

#endif
