/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_UPDATE_H
#define FLMEM_OPS_EXCHANGE_UPDATE_H

/* Handles updates whose files are complete: they are compared with the model before they count. */

#include "ops/exchange/server/server_state.h"

/*
 * Called when all bytes of an upload are committed. Puts the file in its place, and checks the
 * update if it was its last file. Called without x->lock, by the writer, before it releases the
 * upload. Returns 0, or the HTTP status of the refusal; the upload may then be gone. With 500 and
 * above it is where it was: the client must complete it once more. `ret_why` may be NULL.
 */
unsigned flmem_update_finish(struct flmem_exchange *x, const char *id, struct flmem_error *ret_why);

/* Opens a file as an input of the aggregation; FLMEM_EUSAGE if it does not fit the model. */
int flmem_update_check(struct flmem_exchange *x, const char *path, struct flmem_error *err);

/* Returns true if a failed check may succeed later, because it is not a fault of the update. */
bool flmem_update_can_pass(const struct flmem_error *err);

/* Checks the updates that an earlier server left. Fails for what cannot be checked now. */
int flmem_update_recover(struct flmem_exchange *x, struct flmem_error *err);

/* Removes the path of the state directory from a text for clients; what is below it stays. */
void flmem_update_hide_paths(const struct flmem_exchange *x, char *text);

/* Drops the updates of the round. Called with x->lock held. */
void flmem_update_clear(struct flmem_exchange *x);

#endif
