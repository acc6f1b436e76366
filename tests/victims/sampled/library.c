/* SPDX-License-Identifier: Apache-2.0 */
/* A library that sampled.c loads and unloads again and again. */
#include <stdlib.h>

__attribute__((visibility("default"))) void *library_allocate(size_t size);
__attribute__((visibility("default"))) void library_free(void *block);

#ifdef SHIFTED
/* Moves the start of the code. */
__asm__(".text\n.skip 64\n");
#endif

void *library_allocate(size_t size)
{
	return malloc(size);
}

void library_free(void *block)
{
	free(block);
}

/*
 * The sampler must not mistake this code for that of a library that is loaded at the same addresses
 * later.
 */
__attribute__((destructor)) static void allocate_at_unloading(void)
{
	static void *volatile sink;

	sink = library_allocate(64);
}
