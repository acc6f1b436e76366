/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To preload: a walk over the linker's list takes long in all threads but the first, so that
 * other threads fork meanwhile. The only thread of a child is a first one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FORKERS 4
#define HUNG_S	20

extern __typeof__(dl_iterate_phdr) dl_iterate_phdr __attribute__((visibility("default")));
int fork_often(void) __attribute__((visibility("default")));
int count_hung(void) __attribute__((visibility("default")));

typedef int visit_object(struct dl_phdr_info *, size_t, void *);
typedef int walk_objects(visit_object *visit, void *context);

struct slow_walk {
	visit_object *visit;
	void *context;
	bool has_slept;
};

static unsigned forked[FORKERS];
static int hung;

static void sleep_ms(long ms)
{
	const struct timespec pause = {.tv_nsec = ms * 1000000};

	nanosleep(&pause, NULL);
}

static int visit_slowly(struct dl_phdr_info *info, size_t size, void *context)
{
	struct slow_walk *walk = context;

	if (!walk->has_slept)
		sleep_ms(10);
	walk->has_slept = true;
	return walk->visit(info, size, walk->context);
}

int dl_iterate_phdr(visit_object *visit, void *context)
{
	struct slow_walk walk = {visit, context, syscall(SYS_gettid) == getpid()};
	void *found = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	walk_objects *next;

	memcpy(&next, &found, sizeof(next));
	return next(visit_slowly, &walk);
}

static int end_walk(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)info;
	(void)size;
	(void)context;
	return 1;
}

static void *fork_in_loop(void *context)
{
	unsigned *count = context;
	int status;
	pid_t child;

	for (;;) {
		child = fork();
		if (child == 0) {
			alarm(HUNG_S);
			dl_iterate_phdr(end_walk, NULL);
			_exit(0);
		}
		if (child > 0 && waitpid(child, &status, 0) == child && status)
			__atomic_add_fetch(&hung, 1, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
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

/* Of children that are forked until now. */
int count_hung(void)
{
	for (unsigned i = 0; i < FORKERS; i++) {
		unsigned before = __atomic_load_n(&forked[i], __ATOMIC_SEQ_CST);

		while (__atomic_load_n(&forked[i], __ATOMIC_SEQ_CST) == before)
			sleep_ms(1);
	}
	return __atomic_load_n(&hung, __ATOMIC_SEQ_CST);
}
