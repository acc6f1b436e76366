/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_FORK_CHECKS_H
#define FLMEM_REMOTE_CHECKS_FORK_CHECKS_H

/*
 * Finds threads inside fork(). An allocator takes its locks in a handler of pthread_atfork().
 * Handlers that were registered before its own run after it, with these locks held, and may wait:
 * for a lock that the borrowed thread holds, or for that thread itself.
 */

#include <stdbool.h>
#include <stdint.h>

#include <flmem/error.h>

#include "proc/process.h"
#include "remote/checks/candidates.h"

/*
 * Finds the addresses of fork() of the C library; empty in a static program that has none. False if
 * its place is unknown.
 */
bool flmem_forks_function(const struct flmem_view *view, struct flmem_range *ret_fork);

/*
 * True if a return address into `fork` is on the stack above `sp`, perhaps left by an earlier
 * fork().
 */
bool flmem_forks_is_inside(const struct flmem_process *process, struct flmem_range fork,
			   uint64_t sp);

/*
 * FLMEM_EUNSAFE if a blocked thread of the process has a return address of guard->fork on its
 * stack; it may be a leftover of an earlier fork(). A computing thread is not detected.
 */
int flmem_forks_check(const struct flmem_process *process, const struct flmem_guard *guard,
		      struct flmem_error *err);

#endif
