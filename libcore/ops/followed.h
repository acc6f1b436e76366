/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_FOLLOWED_H
#define FLMEM_OPS_FOLLOWED_H

/*
 * One process that is followed over time. Its files are opened once; a sample is one pread(2) of
 * /proc/PID/statm, which reads a few counters and takes no lock of the target's memory.
 */

#include <flmem/watch.h>

#include "base/cleanup.h"
#include "ops/round_stats.h"
#include "proc/process.h"
#include "series/history.h"

struct flmem_kin;

struct flmem_followed {
	struct flmem_watch_process id;
	struct flmem_process process;
	size_t number; /* among those of its watch */
	int statm;
	bool split_is_new; /* in a replay: since the last sample */
	bool ended;
	bool passed_above;	    /* a sample was above the limit of the options */
	uint64_t first_us, last_us; /* of its samples, since the watch began */
	uint64_t first_bytes, last_bytes, lowest_bytes, peak_bytes;
	struct flmem_watch_split split;
	struct flmem_history history;
	struct flmem_round_stats rounds;
};

/*
 * Opens the process; with a `start_time` other than 0 only the one that started then. `kin` is for
 * recognising its role. Release with flmem_followed_free().
 */
int flmem_followed_open(pid_t pid, uint64_t start_time, uint64_t interval_us, struct flmem_kin *kin,
			struct flmem_followed **ret_followed, struct flmem_error *err);

/* One that is not live: it takes the texts over, also when it fails and gives NULL. */
struct flmem_followed *flmem_followed_new(struct flmem_watch_process *id, uint64_t interval_us,
					  struct flmem_error *err);

/* Counts a sample that was taken elsewhere. */
void flmem_followed_count(struct flmem_followed *followed, uint64_t now_us, uint64_t bytes);

void flmem_followed_free(struct flmem_followed *followed);

/* Closes the files of a process that has ended; what was learnt stays. */
void flmem_followed_end(struct flmem_followed *followed);

/* Takes a sample; false when the process has ended. */
bool flmem_followed_sample(struct flmem_followed *followed, uint64_t now_us,
			   uint64_t *ret_rss_bytes);

/* Reads the split between kinds of memory into followed->split. */
void flmem_followed_split(struct flmem_followed *followed);

static inline void flmem_cleanup_followed(struct flmem_followed **followed)
{
	flmem_followed_free(*followed);
}

#define FLMEM_AUTO_FOLLOWED FLMEM_AUTO(flmem_cleanup_followed)

#endif
