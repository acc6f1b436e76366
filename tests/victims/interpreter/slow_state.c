/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delays each allocation that a thread makes from the interpreter without its lock, as if the
 * thread lost the processor there: a thread that enters the interpreter allocates its state this
 * way.
 */
#include <stddef.h>
#include <unistd.h>

#define DOMAIN_RAW 0
#define SLOW_US	   150000

struct allocator {
	void *context;
	void *(*malloc)(void *context, size_t size);
	void *(*calloc)(void *context, size_t count, size_t size);
	void *(*realloc)(void *context, void *block, size_t size);
	void (*free)(void *context, void *block);
};

void PyMem_GetAllocator(int domain, struct allocator *allocator);
void PyMem_SetAllocator(int domain, struct allocator *allocator);
int PyGILState_Check(void);

static struct allocator before;
volatile int blocks; /* number of blocks allocated so far without the lock */

static void delay(void)
{
	if (gettid() == getpid() || PyGILState_Check())
		return;
	blocks++;
	usleep(SLOW_US);
}

static void *slow_malloc(void *context, size_t size)
{
	delay();
	return before.malloc(context, size);
}

static void *slow_calloc(void *context, size_t count, size_t size)
{
	delay();
	return before.calloc(context, count, size);
}

void slow_states(void)
{
	struct allocator slow;

	PyMem_GetAllocator(DOMAIN_RAW, &before);
	slow = before;
	slow.malloc = slow_malloc;
	slow.calloc = slow_calloc;
	PyMem_SetAllocator(DOMAIN_RAW, &slow);
}
