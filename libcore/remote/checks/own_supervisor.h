/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_OWN_SUPERVISOR_H
#define FLMEM_REMOTE_CHECKS_OWN_SUPERVISOR_H

/*
 * A sandbox may decide about system calls of flmem (seccomp user notification). If it is the
 * target, flmem waits for the thread that it holds.
 */

#include <flmem/error.h>

struct flmem_process;

/* FLMEM_EUNSAFE if flmem runs under a filter, and the process decides about calls of others. */
int flmem_own_supervisor_check(const struct flmem_process *process, struct flmem_error *err);

#endif
