/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_WATCH_SNAPSHOT_H
#define FLMEM_OPS_WATCH_WATCH_SNAPSHOT_H

/*
 * Where other threads look at a watch that runs. The watch holds the board while it changes what it
 * keeps; a reader holds it for a copy of one process at a time and computes on the copy, so that a
 * sample never waits for more than that.
 */

#include "ops/watch/watch_state.h"

/* From here to _detach() readers see this watch. All three do nothing with NULL. */
void flmem_watch_snapshot_attach(struct flmem_watch_snapshot *snapshot,
				 const struct flmem_watch_state *watch_state);
void flmem_watch_snapshot_detach(struct flmem_watch_snapshot *snapshot);

/* Around every change; the same thread may hold it several times. */
void flmem_watch_snapshot_hold(struct flmem_watch_snapshot *snapshot);
void flmem_watch_snapshot_release(struct flmem_watch_snapshot *snapshot);

#endif
