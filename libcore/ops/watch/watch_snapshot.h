/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_WATCH_WATCH_SNAPSHOT_H
#define FLMEM_OPS_WATCH_WATCH_SNAPSHOT_H

/*
 * Lets other threads read a running watch. The watch locks the snapshot while it changes its state;
 * a reader locks it to copy one process at a time and computes on the copy, so that a sample waits
 * for one copy at most.
 */

#include "ops/watch/watch_state.h"

/* Attaches a watch: until the detach readers see this watch. All three functions accept NULL. */
void flmem_watch_snapshot_attach(struct flmem_watch_snapshot *snapshot,
				 const struct flmem_watch_state *watch_state);
void flmem_watch_snapshot_detach(struct flmem_watch_snapshot *snapshot);

/* Locks the snapshot around every change of the state; the same thread may lock it repeatedly. */
void flmem_watch_snapshot_lock(struct flmem_watch_snapshot *snapshot);
void flmem_watch_snapshot_unlock(struct flmem_watch_snapshot *snapshot);

#endif
