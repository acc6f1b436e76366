/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_TRACEE_H
#define FLMEM_REMOTE_TRACEE_H

/*
 * One thread held through ptrace, with SEIZE and INTERRUPT (never ATTACH or SIGSTOP). All calls
 * come from the thread that seized it. Letting go is a destructor: it works from every state, goes
 * on past its own failures and leaves a thread that runs on, with its interrupted call repeated.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "remote/arch.h"

enum flmem_tracee_event {
	FLMEM_TRACEE_STOPPED, /* by our interrupt: it is ours now */
	FLMEM_TRACEE_NOTHING, /* no news */
	FLMEM_TRACEE_OTHER,   /* stopped for another reason, which was passed on: it runs */
	FLMEM_TRACEE_GROUP,   /* stopped together with its whole process (SIGSTOP) */
	FLMEM_TRACEE_EXEC,    /* stopped because it executes another program */
	FLMEM_TRACEE_GONE,    /* ended */
};

struct flmem_tracee {
	pid_t tid;	/* 0: holds nothing */
	pid_t leader;	/* the first thread of its process */
	bool stopped;	/* registers can be read and written */
	bool resumable; /* what is written in its registers is right to go on with */
};

/* Negative errno on failure: -ESRCH gone, -EPERM not permitted or traced by another. */
int flmem_tracee_seize(struct flmem_tracee *tracee, pid_t tid, pid_t leader);

/*
 * What waitpid() would report of a thread that the calling thread traces, without waiting: 1 and
 * the status, 0: no news, or a negative errno: it is gone. A stop is found also when another thread
 * of this process, which waits for any child, was given the report.
 */
int flmem_tracee_status(pid_t tid, int *ret_status);

/* Interrupts it and waits until it has stopped, at most timeout_us. */
enum flmem_tracee_event flmem_tracee_stop(struct flmem_tracee *tracee, uint64_t timeout_us);

/*
 * Checks, without waiting, what happened to a running one, and passes signals on to it.
 */
enum flmem_tracee_event flmem_tracee_poll(struct flmem_tracee *tracee);

/*
 * Detaches. A thread that cannot stop now (in an uninterruptible call) is awaited for as long as it
 * takes: forgotten, it would stop later and never go on while this process lives.
 */
void flmem_tracee_release(struct flmem_tracee *tracee);

#define FLMEM_AUTO_TRACEE FLMEM_AUTO(flmem_tracee_release)

#endif
