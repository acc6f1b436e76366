/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "fork_often.h"

#include <link.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FORKERS 4

static unsigned forked[FORKERS];
static int failed;

void sleep_ms(long ms)
{
	const struct timespec pause = {.tv_nsec = ms * 1000000};

	nanosleep(&pause, NULL);
}

static int end_walk(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)info;
	(void)size;
	(void)context;
	return 1;
}

void walk_list(void)
{
	dl_iterate_phdr(end_walk, NULL);
}

static void *fork_in_loop(void *context)
{
	unsigned *count = context;
	int status;
	pid_t child;

	for (;;) {
		child = fork();
		if (child == 0)
			use_linker();
		if (child > 0 && waitpid(child, &status, 0) == child && status)
			__atomic_add_fetch(&failed, 1, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
		if (fork_pause_ms)
			sleep_ms(fork_pause_ms);
	}
	return NULL;
}

int fork_often(void)
{
	pthread_t thread;
	int error = 0;

	for (unsigned i = 0; i < FORKERS && !error; i++)
		error = pthread_create(&thread, NULL, fork_in_loop, &forked[i]);
	return error;
}

int count_failed(void)
{
	for (unsigned i = 0; i < FORKERS; i++) {
		unsigned before = __atomic_load_n(&forked[i], __ATOMIC_SEQ_CST);

		while (__atomic_load_n(&forked[i], __ATOMIC_SEQ_CST) == before)
			sleep_ms(1);
	}
	return __atomic_load_n(&failed, __ATOMIC_SEQ_CST);
}
