/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that opens another one by its name alone, which only its own RUNPATH leads to; built
 * again as that other one, whose function allocates.
 */
#include <dlfcn.h>
#include <stdlib.h>

#ifdef NEIGHBOUR
__attribute__((visibility("default"))) int allocate_here(void);

int allocate_here(void)
{
	void *volatile block = malloc(1U << 20);

	return block != NULL;
}
#else
__attribute__((visibility("default"))) int open_neighbour(void);

/* Returns 1 if the other library was found and allocates; -1 if it was not found. */
int open_neighbour(void)
{
	void *handle = dlopen("neighbour.so", RTLD_NOW | RTLD_LOCAL);
	int (*function)(void) = NULL;

	if (handle)
		*(void **)&function = dlsym(handle, "allocate_here");
	return function ? function() : -1;
}
#endif
