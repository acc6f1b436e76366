/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As LD_AUDIT: the dynamic linker takes long in the middle of loading the sampler. Loaded in the
 * ordinary way: threads that fork all the time, whose children use the linker.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FORKERS	 4
#define SLEEP_MS 100
#define PAUSE_MS 1
#define HUNG_S	 5

int fork_often(void) __attribute__((visibility("default")));
int count_broken(void) __attribute__((visibility("default")));
__typeof__(la_version) la_version __attribute__((visibility("default")));
__typeof__(la_activity) la_activity __attribute__((visibility("default")));
__typeof__(la_objsearch) la_objsearch __attribute__((visibility("default")));
__typeof__(la_objopen) la_objopen __attribute__((visibility("default")));

static unsigned forked[FORKERS];
static int broken;
static bool is_loading; /* the sampler */
static bool was_refused;

static void sleep_ms(long ms)
{
	const struct timespec pause = {.tv_nsec = ms * 1000000};

	nanosleep(&pause, NULL);
}

unsigned la_version(unsigned version)
{
	return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
	(void)namespace;
	(void)cookie;
	is_loading |= strstr(map->l_name, "/.flmem-") != NULL;
	return 0;
}

/* With SLOW_LOADS_REFUSED, it is not found the first time. */
char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag)
{
	(void)cookie;
	(void)flag;
	if (!getenv("SLOW_LOADS_REFUSED") || !strstr(name, "/.flmem-") || was_refused)
		return (char *)(uintptr_t)name;
	was_refused = true;
	return NULL;
}

/* Right before the linker's list of objects counts as consistent again. */
void la_activity(uintptr_t *cookie, unsigned flag)
{
	(void)cookie;
	if (is_loading && flag == LA_ACT_CONSISTENT)
		sleep_ms(SLEEP_MS);
	if (flag == LA_ACT_CONSISTENT)
		is_loading = false;
}

static int end_walk(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)info;
	(void)size;
	(void)context;
	return 1;
}

/* The linker insists on a consistent list where it is asked for what it has opened before. */
static void use_linker(void)
{
	Dl_info own;

	alarm(HUNG_S);
	close(STDERR_FILENO);
	dl_iterate_phdr(end_walk, NULL);
	_exit(dladdr(forked, &own) && dlopen(own.dli_fname, RTLD_NOW) ? 0 : 1);
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
			__atomic_add_fetch(&broken, 1, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
		sleep_ms(PAUSE_MS);
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
int count_broken(void)
{
	for (unsigned i = 0; i < FORKERS; i++) {
		unsigned before = __atomic_load_n(&forked[i], __ATOMIC_SEQ_CST);

		while (__atomic_load_n(&forked[i], __ATOMIC_SEQ_CST) == before)
			sleep_ms(1);
	}
	return __atomic_load_n(&broken, __ATOMIC_SEQ_CST);
}
