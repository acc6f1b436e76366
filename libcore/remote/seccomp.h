/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_SECCOMP_H
#define FLMEM_REMOTE_SECCOMP_H

/*
 * Targets under seccomp filters (every container's default): a filter may kill the process for a
 * system call that it does not expect. So every filter of the thread that is to make calls is read
 * and evaluated for these calls, with their arguments as far as they are known; they are never
 * tried out. What depends on something unknown counts as what is worst.
 *
 * Only reading a filter shows what it is. An equal number of filters proves nothing: flmem in one
 * container and its target in another have one each. Nor does descent: filters are inherited and
 * never removed, but what the target or flmem has added since is not seen; only of a process that
 * flmem itself has started an equal number would prove equal filters, and flmem cannot read its own
 * (the kernel shows filters only to a caller that has none), so it would not know what they allow.
 *
 * A new thread inherits the filters of the thread that starts it, so code on a thread that the
 * borrowed one starts is covered. Left over: another thread of the program may put a new filter on
 * all threads (SECCOMP_FILTER_FLAG_TSYNC) between the check and the calls.
 */

#include <stdbool.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "remote/syscalls.h"

struct flmem_candidate;
struct flmem_process;
struct flmem_status;

/* What a thread is to do. */
struct flmem_seccomp_calls {
	const struct flmem_syscall_list *list; /* besides those of the chain; NULL: not known */
	/* The interrupted call, which is made again; its number is -1 when there is none. */
	struct flmem_syscall repeated;
	/*
	 * The user vouches for filters that cannot be read, and for code of the program. What is
	 * read is checked for the listed calls all the same.
	 */
	bool assume;
};

/* What a thread that is about to be borrowed is to do; a computing one repeats no call. */
struct flmem_seccomp_calls flmem_seccomp_calls_of(const struct flmem_candidate *candidate,
						  const struct flmem_syscall_list *list,
						  bool assume);

/*
 * What can be told of a thread from outside, so that one that would be refused is not stopped
 * first. FLMEM_EPERM: it has filters, and flmem may not read them; FLMEM_EUNSUPPORTED: strict mode,
 * or code of the program would run under filters that not all of its threads have.
 */
int flmem_seccomp_check_outside(const struct flmem_process *process, pid_t tid,
				const struct flmem_seccomp_calls *calls, struct flmem_error *err);

/*
 * Reads and evaluates the filters of a ptrace-stopped thread with this status. FLMEM_EPERM when the
 * kernel does not show them, FLMEM_EUNSUPPORTED when they do not allow a call (naming call,
 * arguments and action), or when system calls of the thread are dispatched to the program
 * (prctl(2), PR_SET_SYSCALL_USER_DISPATCH).
 */
int flmem_seccomp_check_thread(pid_t pid, pid_t tid, const struct flmem_status *status,
			       const struct flmem_seccomp_calls *calls, struct flmem_error *err);

/*
 * The same for a thread that runs: it is stopped for a moment if it has filters, else not at all.
 * FLMEM_EUNSAFE when it could not be stopped now.
 */
int flmem_seccomp_check_running(const struct flmem_process *process, pid_t tid,
				const struct flmem_seccomp_calls *calls, struct flmem_error *err);

#endif
