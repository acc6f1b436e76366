/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_TRACEE_H
#define FLMEM_REMOTE_TRACEE_H

/*
 * One thread held through ptrace, with SEIZE and INTERRUPT (never ATTACH or SIGSTOP). All calls
 * must be made by the thread that seized it. Release is a destructor: it works from every state,
 * continues past its own failures, and leaves the thread running with its interrupted call
 * repeated.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proc/task.h"
#include "remote/arch.h"

enum flmem_tracee_event {
	FLMEM_TRACEE_STOPPED, /* by flmem's interrupt */
	FLMEM_TRACEE_NOTHING, /* there was no report */
	FLMEM_TRACEE_OTHER,   /* stopped for another reason, which was passed on: it continues */
	FLMEM_TRACEE_GROUP,   /* stopped together with its whole process (SIGSTOP) */
	FLMEM_TRACEE_EXEC,    /* stopped because it executes another program */
	FLMEM_TRACEE_GONE,    /* ended */
};

struct flmem_tracee {
	pid_t tid;	/* 0: no thread is held */
	pid_t leader;	/* the first thread of its process */
	bool stopped;	/* registers can be read and written */
	bool resumable; /* its registers are valid to continue with */
	bool armed;	/* registers are those of a chain: the thread makes no call of its own */
	/*
	 * The thread was seen asleep, in no handler, since it was seized, and no signal has been
	 * delivered to it since: if its call ended with EINTR, the stop is the cause.
	 */
	bool undisturbed;
	bool filtered; /* its filters may not allow restart_syscall: remote/call_return_aarch64.c */
	bool slept_on; /* it was in `wait` from when it was found there until it was stopped */
	/*
	 * The thread is not stopped, and its release leaves it to the end of the calling thread,
	 * which must be immediate: a stop, or detaching it, ends some calls with EINTR.
	 */
	bool runs_on;
	int signal;		     /* signal to deliver when it is detached; 0: none */
	struct flmem_task_wait wait; /* wait before the interrupt, for `filtered` and `slept_on` */
};

/* Options with which every thread is traced. */
#define FLMEM_TRACEE_OPTIONS (PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD)

/*
 * Seizes a thread. Returns 0 or -errno: -ESRCH if it has exited, -EPERM if that is not permitted or
 * another process traces it.
 */
int flmem_tracee_seize(struct flmem_tracee *tracee, pid_t tid, pid_t leader);

/*
 * Seizes a thread that cannot be writing a core dump, which an interrupt would cut: skips that
 * check.
 */
int flmem_tracee_seize_parked(struct flmem_tracee *tracee, pid_t tid, pid_t leader);

/*
 * Returns without waiting what waitpid() would report of a thread that the calling thread traces: 1
 * and the status, 0 if there is no report, or -errno if the thread has exited. A stop is found even
 * if another thread of this process, which waits for any child, has received the report. The end of
 * a process that this one has started is left to whoever waits for it.
 */
int flmem_tracee_status(pid_t tid, int *ret_status);

/*
 * Does the same as flmem_tracee_status(), for a child that flmem has started and that nobody else
 * waits for.
 */
int flmem_tracee_child_status(pid_t pid, int *ret_status);

/* Interrupts the thread and waits at most timeout_us until it has stopped. */
enum flmem_tracee_event flmem_tracee_stop(struct flmem_tracee *tracee, uint64_t timeout_us);

/* Checks, without waiting, what happened to a running thread, and passes signals on to it. */
enum flmem_tracee_event flmem_tracee_poll(struct flmem_tracee *tracee);

/*
 * Detaches the thread. One that cannot stop now (in vfork(), or a storage request) is waited for at
 * most FLMEM_TRACEE_RELEASE_US, one that only lacks a processor FLMEM_TRACEE_STARVED_US: if it were
 * left before, some calls would end with EINTR. It then stays traced until the calling thread ends,
 * which must be immediate: otherwise it would stop later, and nothing would resume it.
 */
#define FLMEM_TRACEE_RELEASE_US 1000000U
#define FLMEM_TRACEE_STARVED_US 30000000U
void flmem_tracee_release(struct flmem_tracee *tracee);

/*
 * Returns false once the time limit has passed for a thread that the calling thread has asked to
 * stop. Each call restarts the limit on held threads: nothing is held before the thread has
 * stopped.
 */
bool flmem_tracee_is_awaited(pid_t tid, uint64_t spent_us);

/*
 * True if the calling thread still traces a thread that it could not release, or left to its own
 * exit.
 */
bool flmem_tracee_thread_must_exit(void);

/* True if there is a thread that the calling thread could not release. */
bool flmem_tracee_is_stuck(void);

#define FLMEM_AUTO_TRACEE FLMEM_AUTO(flmem_tracee_release)

#endif
