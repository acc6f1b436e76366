/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_EXEC_FOLLOW_H
#define FLMEM_OPS_WATCH_EXEC_FOLLOW_H

/*
 * Processes that come and go under one watch: one that takes the place of another goes on with its
 * history, and of those that have ended only so many are kept.
 */

#include "ops/watch/watch_state.h"

/* Processes that have ended and are kept; of more, the least telling are only counted. */
#define FLMEM_EXEC_FOLLOW_ENDED_MAX 256U

/*
 * If this process is the same part of the same job as one that has ended (a restart, or a trainer
 * that is launched for each round), that one lives on as this one, which is freed, and is returned;
 * else NULL.
 */
struct flmem_watched_process *flmem_exec_follow_join(struct flmem_watch_state *watch_state,
						     struct flmem_watched_process *watched);

/* Forgets what is too much; none that passed a limit or has a role before all others. */
void flmem_exec_follow_forget(struct flmem_watch_state *watch_state);

#endif
