/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_BOARD_H
#define FLMEM_OPS_BOARD_H

/*
 * Where other threads look at a watch that runs. The watch holds the board while it changes what it
 * keeps; a reader holds it for a copy of one process at a time and computes on the copy, so that a
 * sample never waits for more than that.
 */

#include "ops/watching.h"

/* From here to _detach() readers see this watch. All three do nothing with NULL. */
void flmem_board_attach(struct flmem_watch_board *board, const struct flmem_watching *watching);
void flmem_board_detach(struct flmem_watch_board *board);

/* Around every change; the same thread may hold it several times. */
void flmem_board_hold(struct flmem_watch_board *board);
void flmem_board_release(struct flmem_watch_board *board);

#endif
