/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_BORROW_WAIT_H
#define FLMEM_REMOTE_BORROW_WAIT_H

/* The part of remote/borrow.c that waits for a thread to finish its calls. */

#include <sys/types.h>

#include "remote/borrow_state.h"

/*
 * Waits until the results of the calls are available. The thread is not traced meanwhile: if flmem
 * stops or dies, it continues. FLMEM_EFAILED: the results are lost, or the calls have not ended in
 * time; before flmem leaves the thread, it takes it out of a lock wait (remote/rescue.h).
 * FLMEM_EUNSAFE: its calls were cancelled. FLMEM_ENOPROC: the process has ended.
 */
int flmem_borrow_await(struct flmem_borrow_state *borrow, pid_t tid);

/* Set the errors for a process that has ended, and for a thread that has restored itself. */
int flmem_borrow_fail_ended(struct flmem_borrow_state *borrow);
int flmem_borrow_fail_lost(struct flmem_borrow_state *borrow);

#endif
