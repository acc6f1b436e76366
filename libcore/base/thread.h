/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_THREAD_H
#define FLMEM_BASE_THREAD_H

/*
 * Starts a thread of the library, which handles no signals: they stay with the program's threads.
 */

#include <pthread.h>
#include <signal.h>

/* As pthread_create() with default attributes; every signal stays blocked in the new thread. */
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

#endif
