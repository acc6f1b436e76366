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
#include "proc/process.h"
#include "series/history.h"
#include "series/recording.h"

struct flmem_relatives;
struct flmem_trim_state;

/* A cached trend, valid while the points it was computed from stay the same. */
struct flmem_known_trend {
	uint64_t version; /* of the rounds' points or of the history; 0: none was measured yet */
	struct flmem_trend trend;
};

/*
 * The fields that every sample reads come first, then the heads of history and rounds: with many
 * processes, none of it stays in the processor's caches between two samples.
 */
struct flmem_watched_process {
	size_t number; /* among those of its watch */
	int statm;     /* -1: too few descriptors to keep it open */
	size_t group;  /* of flmem_pressures, or FLMEM_PRESSURES_NONE */
	bool ended;
	bool passed_above;     /* a sample was above the limit of the options */
	bool changed;	       /* a sample differed from the one before since the split was read */
	bool split_is_new;     /* in a replay: since the last sample */
	bool pressure_is_new;  /* since the last sample */
	bool pressure_is_read; /* ever */
	bool pressure_is_told; /* ever */
	bool own_rounds;       /* it has a log of its own */
	bool execed;	       /* it runs another program than the one that it was met with */
	uint64_t restarts;     /* processes that went on as this one */
	uint64_t last_us, last_bytes, lowest_bytes, peak_bytes;
	uint64_t shared_pages; /* of the last sample */
	uint64_t code_pages;   /* of its program */
	struct flmem_history history;
	struct flmem_round_stats rounds;
	uint64_t first_us, first_bytes; /* times since the watch began */
	uint64_t arguments_at;		/* in its memory when its command line was read; or 0 */
	uint64_t met_at;		/* samples, when that was */
	struct flmem_watch_process id;
	struct flmem_process process;
	struct flmem_watch_split split;
	struct flmem_pressure pressure;		      /* of the group */
	struct flmem_pressure pressure_first;	      /* the first reading */
	uint64_t pressure_told[FLMEM_RECORD_NUMBERS]; /* as the recording has it */
	struct flmem_watch_actions actions;
	struct flmem_known_trend trend;
	size_t log; /* of several: that it writes */
	struct flmem_trim_state
		*trim_state; /* what automatic trims know of it; NULL: they leave it alone */
};

/*
 * Opens the process; with a `start_time` other than 0 only the one that started then. `relatives`
 * is for recognising its role. Release with flmem_watched_process_free().
 */
int flmem_watched_process_open(pid_t pid, uint64_t start_time, uint64_t interval_us,
			       struct flmem_relatives *relatives,
			       struct flmem_watched_process **ret_followed,
			       struct flmem_error *err);

/* One that is not live: it takes the texts over, also when it fails and gives NULL. */
struct flmem_watched_process *flmem_watched_process_new(struct flmem_watch_process *id,
							uint64_t interval_us,
							struct flmem_error *err);

/* Counts a sample that was taken elsewhere. */
void flmem_watched_process_count(struct flmem_watched_process *watched, uint64_t now_us,
				 uint64_t bytes);

void flmem_watched_process_free(struct flmem_watched_process *watched);

/* Closes the files of a process that has ended; what was learnt stays. */
void flmem_watched_process_end(struct flmem_watched_process *watched);

/*
 * Takes a sample. FLMEM_ENOPROC when the process has ended, FLMEM_EFAILED when there is none this
 * time, for want of descriptors.
 */
int flmem_watched_process_sample(struct flmem_watched_process *watched, uint64_t now_us);

/*
 * Whether to read the split with the last sample: with the first one, then in turn with other
 * processes, and rarely while nothing changes.
 */
bool flmem_watched_process_split_is_due(const struct flmem_watched_process *watched);

/*
 * Reads the split between kinds of memory into followed->split. Together with the samples it shows
 * whether the process has executed another program: followed->execed.
 */
void flmem_watched_process_split(struct flmem_watched_process *watched);

/*
 * Identifies a process again that has executed another program: command, framework, role and site,
 * and the state of automatic trims. True if the identity has changed. Also false if it is too
 * early: a process that only executes programs is identified as often as its split is read.
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
