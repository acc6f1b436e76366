/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_LOCKS_H
#define FLMEM_REMOTE_LOCKS_H

/* Locks of the target that a call will take, looked at from outside before anything is touched. */

#include <flmem/error.h>

#include "proc/process.h"
#include "remote/candidates.h"

/*
 * Whether each lock word of the guard was seen free at least once in a few milliseconds. One that
 * passes from thread to thread is; one whose holder is stuck (in a signal handler over malloc, for
 * example) is not, and a borrowed thread would wait with it. FLMEM_EUNSAFE: one was held all the
 * time. A word that cannot be read is not held.
 */
int flmem_locks_check(const struct flmem_process *process, const struct flmem_guard *guard,
		      struct flmem_error *err);

#endif
