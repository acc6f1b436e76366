/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded and unloaded again and again by sampled.c. */
#include <stdlib.h>

__attribute__((visibility("default"))) void *library_allocate(size_t size);

#ifdef SHIFTED
/* The code begins further on. */
__asm__(".text\n.skip 64\n");
#endif

void *library_allocate(size_t size)
{
	return malloc(size);
}

/* The sampler must not take this code for that of what is loaded at the same addresses later. */
__attribute__((destructor)) static void allocate_at_unloading(void)
{
	static void *volatile sink;

	sink = library_allocate(64);
}
