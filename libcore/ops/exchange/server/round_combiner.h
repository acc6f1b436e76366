/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_ROUND_COMBINER_H
#define FLMEM_OPS_EXCHANGE_ROUND_COMBINER_H

/* Makes the next model from a round's updates, on a thread. */

#include "ops/exchange/server/server_state.h"

/* Starts the thread; with the lock, in FLMEM_PHASE_COMBINING. */
int flmem_combiner_start(struct flmem_exchange *x, struct flmem_error *err);

/* Waits for it. Without the lock. */
void flmem_combiner_join(struct flmem_exchange *x);

/*
 * Which updates an earlier server was combining: those are combined again. *ret_found is false if
 * it was not. Before any other thread.
 */
int flmem_combiner_recover(struct flmem_exchange *x, bool *ret_found, struct flmem_error *err);

/* Starts to collect for the next round, or ends the exchange. With the lock. */
void flmem_combiner_begin_round(struct flmem_exchange *x);

/* Ends it without a result; clients learn the reason. With the lock. */
void flmem_combiner_fail(struct flmem_exchange *x, int code, const struct flmem_error *err);

/* Removes the updates of a round that was combined, and the rounds that are no longer published. */
void flmem_combiner_remove_old(struct flmem_exchange *x, uint64_t round);

/* A restarted server gives the round its full time. */
void flmem_combiner_forget_deadline(struct flmem_exchange *x);

/* The deadline is later by this time, in which the server did not run. With the lock. */
void flmem_combiner_delay_deadline(struct flmem_exchange *x, uint64_t paused_us);

/* The round has its full time again. With the lock. */
void flmem_combiner_renew_deadline(struct flmem_exchange *x);

/*
 * Whether the algorithm and its parameters fit the model and the least number of updates: combines
 * copies of the model for a moment. Else a round would fail when its clients have sent everything.
 * Sets x->needed.
 */
int flmem_combiner_check_algorithm(struct flmem_exchange *x, struct flmem_error *err);

#endif
