/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_SECCOMP_FILTERED_RETURN_H
#define FLMEM_REMOTE_SECCOMP_FILTERED_RETURN_H

/*
 * Returns a thread to its system call past its filters. A thread that was stopped in a call makes
 * it again when it is released, and its filters decide again. The call was allowed when the thread
 * made it, but may no longer be: another thread has set a filter for all since
 * (SECCOMP_FILTER_FLAG_TSYNC), or a process that is asked about each call (SECCOMP_RET_USER_NOTIF)
 * has let it pass, and has ended or does not answer now. Filters can be read of stopped threads
 * only. So such a thread enters that one call with its filters suspended (PTRACE_O_SUSPEND_SECCOMP,
 * for which the kernel asks the same rights as for reading them), and is left to the end of the
 * calling thread once it sleeps there. It has to be the call in which flmem found it asleep
 * (tracee->slept_on), which passed the filters once.
 *
 * On x86-64 only.
 */

#include "remote/tracee.h"

/*
 * Call it for a stopped thread that is about to be detached. Afterwards the thread is still
 * stopped, or runs on (tracee->runs_on), or has ended.
 */
void flmem_filtered_return(struct flmem_tracee *tracee);

#endif
