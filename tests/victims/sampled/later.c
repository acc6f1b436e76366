/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps two blocks: between them all clocks of the process are set forward by fifty days. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SIZE	100000
#define AHEAD_S ((time_t)50 * 24 * 3600)

static time_t ahead_s;

/* Replaces the C library's function, also for the sampler. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, now);

	if (!rc)
		now->tv_sec += ahead_s;
	return rc;
}

int main(void)
{
	static void *volatile kept[2];

	kept[0] = malloc(SIZE);
	ahead_s = AHEAD_S;
	kept[1] = malloc(SIZE);
	return !kept[0] || !kept[1];
}
