/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into processes of MPI, which wait for each other by calling sched_yield() all the time,
 * whatever the settings of Open MPI: on a busy machine that is half of their processor time.
 */
#include <sched.h>
#include <time.h>

#define PAUSE_NS 50000

int sched_yield(void)
{
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	return 0;
}
