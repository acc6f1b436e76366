/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_ATTEMPT_H
#define FLMEM_BASE_ATTEMPT_H

/*
 * Runs work on a process that may never answer: a page of its memory can belong to a file whose
 * server does not respond, or be missing with no handler to supply it (userfaultfd); a read of that
 * page then blocks without limit and ignores signals. So such work runs in a separate thread, which
 * is abandoned when it is blocked in one read for too long. The thread owns all the data it works
 * on.
 *
 * The call that the thread is blocked in is read from /proc/self/task, so the work need not report
 * its progress, and work that merely takes long is not interrupted.
 */

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include <flmem/error.h>

/* A single read without an answer for this long is abandoned. */
#define FLMEM_ATTEMPT_PATIENCE_MS 2000U

/*
 * Work that was blocked for this many times as long, in many reads with late answers, is abandoned
 * as well.
 */
#define FLMEM_ATTEMPT_TOTAL_FACTOR 5U

struct flmem_attempt {
	int (*run)(void *context, struct flmem_error *err);
	void (*release)(void *context); /* frees a context that was abandoned, once `run` returns */
	unsigned patience_ms;		/* 0: FLMEM_ATTEMPT_PATIENCE_MS */
	/*
	 * The process that the work is about; 0: several. While the thread of an abandoned attempt
	 * on it is still blocked, further attempts are refused, so that one process cannot cost a
	 * thread each time; so are attempts on any process while 64 are blocked. They fail with
	 * FLMEM_EUNSAFE and the caller still owns the context.
	 */
	pid_t subject;
};

/*
 * Returns what `run` returns; the caller still owns the context. With *ret_lost the work was
 * abandoned: the caller no longer owns the context, `err` has the time waited, and the code is
 * FLMEM_EUNSAFE. During the work its thread handles the stop signals of terminals, since it knows
 * when a stopped tracer would hold up a target. Within another attempt `run` is called directly.
 * The calling thread cannot be cancelled meanwhile. After a fork() the child has no abandoned
 * attempts.
 */
int flmem_attempt_run(const struct flmem_attempt *attempt, void *context, bool *ret_lost,
		      struct flmem_error *err);

/*
 * Reports whether the caller runs within an attempt that was abandoned. If so, it must neither
 * change nor read the process.
 */
bool flmem_attempt_is_lost(void);

/*
 * Declares a timer that ends this process after `limit` unless the calling thread deletes it; pass
 * NULL once it is deleted. Within an attempt the timer starts again for as long as that thread is
 * blocked in ptrace(). Of ptrace()'s requests only PTRACE_SEIZE blocks, before it traces anything,
 * while another thread of the process executes a program. Such an attempt is abandoned without the
 * timer.
 */
void flmem_attempt_set_limit(const timer_t *timer, const struct itimerspec *limit);

/*
 * Calls `run` on a new thread and waits for its end; within an attempt the new thread is part of
 * it. The thread has the signal mask of the caller, which blocks all signals meanwhile. This is for
 * work whose effects the kernel undoes when its thread ends, such as tracing. Returns 0 or the
 * error number of pthread_create().
 */
int flmem_attempt_run_on_thread(void (*run)(void *context), void *context);

#endif
