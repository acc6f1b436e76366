/* SPDX-License-Identifier: Apache-2.0 */
/* A library to preload, with a malloc() that takes a lock and calls glibc's. */
#include <pthread.h>
#include <stddef.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void wrapped_take(void)
{
	pthread_mutex_lock(&lock);
}

void wrapped_give(void)
{
	pthread_mutex_unlock(&lock);
}

void *malloc(size_t size)
{
	wrapped_take();
	wrapped_give();
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	wrapped_take();
	wrapped_give();
	return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
	wrapped_take();
	wrapped_give();
	return __libc_realloc(block, size);
}

void free(void *block)
{
	wrapped_take();
	wrapped_give();
	__libc_free(block);
}
