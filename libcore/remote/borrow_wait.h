/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_BORROW_WAIT_H
#define FLMEM_REMOTE_BORROW_WAIT_H

/* The wait of remote/borrow.c for a thread that makes its calls. */

#include <sys/types.h>

#include "remote/borrow_state.h"

/*
 * Waits until the results of the calls are there. The thread is not traced meanwhile: if flmem
 * stops or dies, it continues. FLMEM_EFAILED: they are lost, or the calls have not ended in time;
 * before the thread is left, it is helped out of a lock (remote/rescue.h). FLMEM_EUNSAFE: its calls
 * were cancelled. FLMEM_ENOPROC: the process has ended.
 */
int flmem_borrow_await(struct flmem_borrow_state *borrow, pid_t tid);

/* The errors of a process that has ended, and of a thread that has restored itself. */
int flmem_borrow_fail_ended(struct flmem_borrow_state *borrow);
int flmem_borrow_fail_lost(struct flmem_borrow_state *borrow);

#endif
