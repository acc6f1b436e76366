/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_LOCKS_H
#define FLMEM_REMOTE_CHECKS_LOCKS_H

/* Checks, from outside and before anything is touched, the locks that a call will take. */

#include <flmem/error.h>

#include "proc/process.h"
#include "remote/checks/candidates.h"

/*
 * Checks that each lock word of the guard was free at least once within a few milliseconds. A lock
 * that passes from thread to thread is; a lock whose holder is blocked (for example in a signal
 * handler that interrupted malloc) is not, and would block a borrowed thread, too. FLMEM_EUNSAFE: a
 * lock was held all the time or cannot be read, there are more locks or ranges than the guard has,
 * or a thread is inside fork() (remote/checks/fork_checks.h). In a process that has ended all locks
 * count as free.
 */
int flmem_locks_check(const struct flmem_process *process, const struct flmem_guard *guard,
		      struct flmem_error *err);

#endif
