/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded and unloaded again and again by sampled.c. */
#include <stdlib.h>

__attribute__((visibility("default"))) void *library_allocate(size_t size);

void *library_allocate(size_t size)
{
	return malloc(size);
}
