/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that ends while another thread detaches it: where the sampler reads the clock for the
 * end of the profile, the program waits until the detach has answered, or waits as well.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void (*order)(const char *order, char *answer);
static volatile int is_ending, is_detached, is_awaited;
static pthread_t ending;

/* Replaces the C library's function, also for the sampler. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (is_ending == 1 && pthread_equal(pthread_self(), ending)) {
		is_ending = 2;
		while (!is_detached && !is_awaited)
			sched_yield();
	}
	return (int)syscall(SYS_clock_gettime, clock, now);
}

/* Called by the sampler, which waits for the calls that use the profile. */
__attribute__((visibility("default"))) int nanosleep(const struct timespec *time,
						     struct timespec *left)
{
	is_awaited = 1;
	return (int)syscall(SYS_nanosleep, time, left);
}

static void *detach(void *context)
{
	static char answer[512];

	while (is_ending != 2)
		sched_yield();
	order("detach", answer);
	is_detached = 1;
	return context;
}

int main(void)
{
	pthread_t thread;

	*(void **)&order = dlsym(RTLD_DEFAULT, "flmem_sampler_order");
	if (!order || pthread_create(&thread, NULL, detach, NULL))
		return 2;
	ending = pthread_self();
	is_ending = 1;
	return 0;
}
