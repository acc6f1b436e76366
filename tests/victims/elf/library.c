/* SPDX-License-Identifier: Apache-2.0 */
/* Exports a function, data, a thread-local, and calls malloc through its GOT. */
#include <stdlib.h>

extern int sample_data;
extern __thread int sample_local;
void *sample_function(size_t size);
int sample_counted(void);

int sample_data = 42;
__thread int sample_local = 7;
const char sample_marker[] = "flmem sample marker";

__attribute__((visibility("hidden"), noinline)) int sample_hidden(int value);

__attribute__((visibility("hidden"), noinline)) int sample_hidden(int value)
{
	return value + sample_data;
}

static int (*resolve_counted(void))(void);

static int counted(void)
{
	return sample_local;
}

static int (*resolve_counted(void))(void)
{
	return counted;
}

int sample_counted(void) __attribute__((ifunc("resolve_counted")));

void *sample_function(size_t size)
{
	return malloc(size + (size_t)sample_hidden(1));
}

#ifdef ADDRESSES /* take malloc's address, so that its slot is not for calls alone */
void *(*sample_allocator(void))(size_t);

void *(*sample_allocator(void))(size_t)
{
	return malloc;
}
#endif
