/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library in front of the C library: the monotonic clock is ahead by the seconds that the file
 * $CLOCK_AHEAD contains, as for a process that was stopped for so long when it gets there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	const char *path = getenv("CLOCK_AHEAD");
	int rc = (int)syscall(SYS_clock_gettime, clock, ret_now);
	FILE *file = clock == CLOCK_MONOTONIC && path ? fopen(path, "re") : NULL;
	long seconds = 0;

	if (!file)
		return rc;
	if (fscanf(file, "%ld", &seconds) == 1)
		ret_now->tv_sec += seconds;
	fclose(file);
	return rc;
}
