/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that waits for a byte with a lock that malloc() takes as well: in a function that it
 * gives tcmalloc (held_hook()), or in a preloaded malloc() (wrapped.c).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

__attribute__((weak)) void wrapped_take(void);
__attribute__((weak)) void wrapped_give(void);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void hook(const void *block, size_t size)
{
	(void)block, (void)size;
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

/* Lets tcmalloc call the function for each block; returns 1 if that is possible. */
int held_hook(const char *setter)
{
	void *place = dlsym(RTLD_DEFAULT, setter);
	int (*set)(void (*)(const void *, size_t));

	if (!place)
		return 0;
	memcpy(&set, &place, sizeof(set));
	return set(hook);
}

/* Reads a byte with the lock held; allocates nothing in between. */
int held_read(int fd)
{
	char byte;
	int got;

	if (wrapped_take)
		wrapped_take();
	else
		pthread_mutex_lock(&lock);
	got = (int)read(fd, &byte, 1);
	if (wrapped_give)
		wrapped_give();
	else
		pthread_mutex_unlock(&lock);
	return got;
}
