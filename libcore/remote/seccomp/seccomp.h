/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_SECCOMP_SECCOMP_H
#define FLMEM_REMOTE_SECCOMP_SECCOMP_H

/*
 * Checks targets under seccomp filters (every container's default): a filter may kill the process
 * for an unexpected system call. So every filter of the thread that will make calls is read and
 * evaluated for these calls, with their arguments as far as they are known; no call is made as a
 * test. A result that depends on something unknown counts as the worst one.
 *
 * Only reading a filter shows what it allows. Equal numbers of filters prove nothing: flmem in one
 * container and its target in another have one each. Neither does descent: filters are inherited
 * and never removed, but filters that the target or flmem has added since are not seen. Only for a
 * process that flmem itself has started would an equal number prove equal filters, and flmem cannot
 * read its own (the kernel shows filters only to a caller without any), so it would not know what
 * they allow.
 *
 * A new thread inherits the filters of the thread that starts it, so code on a thread that the
 * borrowed one starts is covered. Not covered: another thread of the program may install a new
 * filter for all threads (SECCOMP_FILTER_FLAG_TSYNC) between the check and the calls.
 */

#include <stdbool.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "remote/seccomp/syscalls.h"

struct flmem_candidate;
struct flmem_process;
struct flmem_status;

/* The system calls that a thread will make. */
struct flmem_seccomp_calls {
	const struct flmem_syscall_list *list; /* calls besides those of the chain; NULL: unknown */
	/* The interrupted call, which is made again; number -1 if there is none. */
	struct flmem_syscall repeated;
	/*
	 * The user guarantees that filters that cannot be read allow the calls, and so for code of
	 * the program. Filters that can be read are still checked for the listed calls.
	 */
	bool assume;
};

/*
 * Returns the calls of a thread that is about to be borrowed; a computing thread repeats no call.
 */
struct flmem_seccomp_calls flmem_seccomp_calls_of(const struct flmem_candidate *candidate,
						  const struct flmem_syscall_list *list,
						  bool assume);

/*
 * Checks what is visible of a thread from outside, so that a thread that would be refused is not
 * stopped first. FLMEM_EPERM: it has filters that flmem may not read; FLMEM_EUNSUPPORTED: strict
 * mode, or code of the program would run under filters that not all of its threads have.
 */
int flmem_seccomp_check_outside(const struct flmem_process *process, pid_t tid,
				const struct flmem_seccomp_calls *calls, struct flmem_error *err);

/*
 * Reads and evaluates the filters of a ptrace-stopped thread with this status. FLMEM_EPERM if the
 * kernel does not show them; FLMEM_EUNSUPPORTED if they do not allow a call (naming call, arguments
 * and action), or if system calls of the thread are dispatched to the program (prctl(2),
 * PR_SET_SYSCALL_USER_DISPATCH).
 */
int flmem_seccomp_check_thread(pid_t pid, pid_t tid, const struct flmem_status *status,
			       const struct flmem_seccomp_calls *calls, struct flmem_error *err);

/*
 * Does the same as flmem_seccomp_check_thread(), for a running thread, which is stopped briefly if
 * it has filters and otherwise not at all. FLMEM_EUNSAFE if it could not be stopped now.
 */
int flmem_seccomp_check_running(const struct flmem_process *process, pid_t tid,
				const struct flmem_seccomp_calls *calls, struct flmem_error *err);

#endif
