/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child that forks while another thread of it creates the file of its profile: that thread waits
 * where it asks for the largest size of files. Ends with 0 if both children could be waited for.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK  ((size_t)4 << 20) /* a thread requests a profile after a MiB */
#define LONG_S 60

static sem_t inside, go;
static __thread int waits;
static void *volatile sink;

/* Replaces the C library's function, also for the sampler. */
__attribute__((visibility("default"))) int getrlimit(__rlimit_resource_t resource,
						     struct rlimit *limits)
{
	if (waits) {
		waits = 0;
		sem_post(&inside);
		sem_wait(&go);
	}
	return (int)syscall(SYS_prlimit64, 0, (int)resource, NULL, limits);
}

static void *begin_profile(void *context)
{
	waits = 1;
	sink = malloc(BLOCK);
	return context;
}

static int wait_for(pid_t child)
{
	int status;

	return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

static int run_child(void)
{
	pthread_t thread;
	pid_t child;

	alarm(LONG_S);
	sem_init(&inside, 0, 0);
	sem_init(&go, 0, 0);
	if (pthread_create(&thread, NULL, begin_profile, NULL))
		return 3;
	sem_wait(&inside);
	child = fork();
	if (child == 0) {
		sink = malloc(BLOCK);
		exit(sink ? 0 : 3);
	}
	sem_post(&go);
	pthread_join(thread, NULL);
	return wait_for(child);
}

int main(void)
{
	pid_t child;

	/*
	 * The thread's first sample: all that it allocates until it forks is less than the distance
	 * to the next.
	 */
	sink = malloc(1);
	child = fork();
	if (child == 0)
		exit(run_child());
	return wait_for(child);
}
