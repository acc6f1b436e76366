/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_THREAD_H
#define FLMEM_BASE_THREAD_H

/*
 * Starts a thread of the library, which handles no signals: they stay with the program's threads.
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

/* Like pthread_create() with default attributes; every signal stays blocked in the new thread. */
static inline int flmem_thread_start(pthread_t *thread, void *(*run)(void *), void *context)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, NULL, run, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

/*
 * Lowers the priority of the calling thread of the library, so that threads that others wait for
 * get a processor first. PRIO_PROCESS with 0 is the calling thread alone (setpriority(2)).
 */
static inline void flmem_thread_give_way(void)
{
	int nice;

	errno = 0;
	nice = getpriority(PRIO_PROCESS, 0);
	if (!errno)
		(void)setpriority(PRIO_PROCESS, 0, nice + 5);
}

#endif
