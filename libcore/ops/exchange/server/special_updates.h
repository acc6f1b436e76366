/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_SPECIAL_UPDATES_H
#define FLMEM_OPS_EXCHANGE_SPECIAL_UPDATES_H

/*
 * Handles updates with a NaN or an infinity: they are left out when the round is combined. An
 * update that would leave too few for the algorithm, and so end the exchange, is refused. Updates
 * are read for this only if the decision depends on them and the search on arrival gave no result.
 */

#include "ops/exchange/server/server_state.h"

/*
 * Decides whether the update may count: 0 with what is known of its values, or FLMEM_EUSAGE with
 * the tensor that has a NaN or an infinity. `finite`: no element is special if the file has the
 * layout that finite_stream.h assumes. Called with x->lock held, which is released while updates
 * are read.
 */
int flmem_special_judge(struct flmem_exchange *x, const char *path, bool finite,
			enum flmem_update_values *ret_values, struct flmem_error *err);

#endif
