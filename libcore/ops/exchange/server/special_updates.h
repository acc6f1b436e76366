/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_SPECIAL_UPDATES_H
#define FLMEM_OPS_EXCHANGE_SPECIAL_UPDATES_H

/*
 * Updates with a NaN or an infinity are left out when the round is combined. So many that too few
 * would be left for the algorithm end the exchange: those are refused. Updates are read for that
 * only where it depends on them, and it was not found out while they arrived.
 */

#include "ops/exchange/server/server_state.h"

/*
 * Whether the update may count: 0, with what is known of its values, or FLMEM_EUSAGE with the
 * tensor that has one. `finite`: no element is special if the file is as finite_stream.h takes it
 * for. With the lock, which it releases while it reads updates.
 */
int flmem_special_judge(struct flmem_exchange *x, const char *path, bool finite,
			enum flmem_update_values *ret_values, struct flmem_error *err);

#endif
