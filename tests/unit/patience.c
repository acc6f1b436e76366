/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into tests that do not test a time limit of the library. On a busy machine a borrowed
 * thread restores itself before flmem returns for it, and a thread stops, or falls asleep, later
 * than flmem waits for: correct answers of the library, but not those that these tests check. So
 * the clock of these programs runs slower, and borrowed threads wait until they are given back.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "patience.h"
#include "remote/chain.h"

#define LONG_PARK_S 1000

#define AN_HOUR_S 3600
#define WATCH_US  2000

unsigned patience_slower = PATIENCE_SLOWER;

static _Atomic time_t ahead_s;
static _Atomic bool watch_ends;
static pthread_t watcher;

static void *watch(void *is_impossible)
{
	bool (*const holds)(void) = *(bool (**)(void))is_impossible;

	for (; !atomic_load(&watch_ends); usleep(WATCH_US))
		if (holds())
			atomic_fetch_add(&ahead_s, AN_HOUR_S);
	return NULL;
}

void patience_watch(bool (*is_impossible)(void))
{
	static bool (*watched)(void);

	watched = is_impossible;
	atomic_store(&watch_ends, false);
	if (pthread_create(&watcher, NULL, watch, &watched))
		abort();
}

void patience_watch_end(void)
{
	atomic_store(&watch_ends, true);
	pthread_join(watcher, NULL);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, time);
	unsigned long long ns;

	if (rc || clock != CLOCK_MONOTONIC)
		return rc;
	ns = ((unsigned long long)time->tv_sec * 1000000000U + (unsigned long long)time->tv_nsec) /
	     patience_slower;
	time->tv_sec = (time_t)(ns / 1000000000U) + atomic_load(&ahead_s);
	time->tv_nsec = (long)(ns % 1000000000U);
	return 0;
}

uint64_t __real_flmem_chain_put(struct flmem_chain *chain, const void *bytes, size_t length);
uint64_t __wrap_flmem_chain_put(struct flmem_chain *chain, const void *bytes, size_t length);
uint64_t __wrap_flmem_chain_put(struct flmem_chain *chain, const void *bytes, size_t length)
{
	/*
	 * Replaces the limits of borrow.c: for a thread of the program, and for one that flmem has
	 * started.
	 */
	static const struct timespec parks[] = {{.tv_nsec = 50000000}, {.tv_sec = 2}};
	static const struct timespec longer = {.tv_sec = LONG_PARK_S};

	for (size_t i = 0; bytes && length == sizeof(longer) && i < 2; i++)
		if (memcmp(bytes, &parks[i], length) == 0)
			return __real_flmem_chain_put(chain, &longer, length);
	return __real_flmem_chain_put(chain, bytes, length);
}
