/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_EXEC_FOLLOW_H
#define FLMEM_OPS_WATCH_EXEC_FOLLOW_H

/*
 * Handles processes that start and end during a watch: one that replaces another continues its
 * history, and only a limited number of ended processes is kept.
 */

#include "ops/watch/watch_state.h"

/* Most ended processes that are kept; beyond that, the least informative ones are only counted. */
#define FLMEM_EXEC_FOLLOW_ENDED_MAX 256U

/*
 * If this process is the same part of the same job as one that has ended (a restart, or a trainer
 * that is launched for each round), merges it into that entry, frees it and returns the entry; else
 * NULL.
 */
struct flmem_watched_process *flmem_exec_follow_join(struct flmem_watch_state *watch_state,
						     struct flmem_watched_process *watched);

/*
 * Drops ended processes beyond the limit; those that exceeded a limit or have a role are dropped
 * last.
 */
void flmem_exec_follow_forget(struct flmem_watch_state *watch_state);

#endif
