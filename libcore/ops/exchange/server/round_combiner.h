/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_ROUND_COMBINER_H
#define FLMEM_OPS_EXCHANGE_ROUND_COMBINER_H

/* Makes the next model from a round's updates, in a separate thread. */

#include "ops/exchange/server/server_state.h"

/* Starts the thread. Called with x->lock held, in FLMEM_PHASE_COMBINING. */
int flmem_combiner_start(struct flmem_exchange *x, struct flmem_error *err);

/* Waits for the end of the thread. Called without x->lock. */
void flmem_combiner_join(struct flmem_exchange *x);

/*
 * Reads which updates an earlier server was combining, so that the same are combined again.
 * *ret_found is false if it was not combining. Call it before other threads start.
 */
int flmem_combiner_recover(struct flmem_exchange *x, bool *ret_found, struct flmem_error *err);

/* Starts to collect for the next round, or ends the exchange. Called with x->lock held. */
void flmem_combiner_begin_round(struct flmem_exchange *x);

/* Ends the exchange without a result; clients learn the reason. Called with x->lock held. */
void flmem_combiner_fail(struct flmem_exchange *x, int code, const struct flmem_error *err);

/* Removes the updates of a round that was combined, and the rounds that are no longer published. */
void flmem_combiner_remove_old(struct flmem_exchange *x, uint64_t round);

/* Forgets the stored deadline: a restarted server gives the round its full time. */
void flmem_combiner_forget_deadline(struct flmem_exchange *x);

/* Moves the deadline by a time in which the server did not run. Called with x->lock held. */
void flmem_combiner_delay_deadline(struct flmem_exchange *x, uint64_t paused_us);

/* Gives the round its full time again. Called with x->lock held. */
void flmem_combiner_renew_deadline(struct flmem_exchange *x);

/*
 * Checks that the algorithm and its parameters fit the model and the smallest number of updates, by
 * starting to combine copies of the model. Otherwise a round would fail after its clients have sent
 * everything. Sets x->needed.
 */
int flmem_combiner_check_algorithm(struct flmem_exchange *x, struct flmem_error *err);

#endif
