/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_SUCCESSION_H
#define FLMEM_OPS_SUCCESSION_H

/*
 * Processes that come and go under one watch: one that takes the place of another goes on with its
 * history, and of those that have ended only so many are kept.
 */

#include "ops/watching.h"

/* Processes that have ended and are kept; of more, the least telling are only counted. */
#define FLMEM_SUCCESSION_ENDED_MAX 256U

/*
 * If this process is the same part of the same job as one that has ended (a restart, or a trainer
 * that is launched for each round), that one lives on as this one, which is freed, and is returned;
 * else NULL.
 */
struct flmem_followed *flmem_succession_join(struct flmem_watching *watching,
					     struct flmem_followed *followed);

/* Forgets what is too much; none that passed a limit or has a role before all others. */
void flmem_succession_forget(struct flmem_watching *watching);

#endif
