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
	FLMEM_TRACEE_GONE,    /* ended */
};

struct flmem_tracee {
	pid_t tid;	/* 0: holds nothing */
	bool stopped;	/* registers can be read and written */
	bool resumable; /* what is written in its registers is right to go on with */
};

/* Negative errno on failure: -ESRCH gone, -EPERM not permitted or traced by another. */
int flmem_tracee_seize(struct flmem_tracee *tracee, pid_t tid);

/* Interrupts it and waits until it has stopped, at most timeout_us. */
enum flmem_tracee_event flmem_tracee_stop(struct flmem_tracee *tracee, uint64_t timeout_us);

/* Lets a stopped thread run on while it stays ours. Negative errno on failure. */
int flmem_tracee_continue(struct flmem_tracee *tracee);

/* Leaves a group-stopped one as it is until its process goes on. */
void flmem_tracee_listen(struct flmem_tracee *tracee);

/* Looks, without waiting, what happened to a running one, and passes signals on to it. */
enum flmem_tracee_event flmem_tracee_poll(struct flmem_tracee *tracee);

/* Lets go for good. */
void flmem_tracee_release(struct flmem_tracee *tracee);

#define FLMEM_AUTO_TRACEE FLMEM_AUTO(flmem_tracee_release)

#endif
