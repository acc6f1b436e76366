/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_BORROW_RESTORE_H
#define FLMEM_REMOTE_BORROW_RESTORE_H

/* The end of a borrowing: the thread is stopped in its park, and returns to its program. */

#include <stdbool.h>
#include <sys/types.h>

#include "remote/borrow_state.h"

/*
 * True if the data written to the stack of the stopped thread is still there: the thread has the
 * address space that was pinned and checked, and has not executed another program.
 */
bool flmem_borrow_sees_frames(const struct flmem_borrow_state *borrow, pid_t tid);

/* Takes the results of a thread whose calls have returned, and restores it. */
int flmem_borrow_restore(struct flmem_borrow_state *borrow, pid_t tid);

#endif
