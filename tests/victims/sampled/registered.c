/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plug-in of which nobody looks up a function: it registers one when it is loaded, and already
 * allocates then. ORPHAN: without the start files of the C library.
 */
#include <stdio.h>
#include <stdlib.h>

#define ADDRESS_MAX 32

static void *volatile kept[2];

/* The caller is in the stack of the allocation. */
static __attribute__((noinline)) int registered_allocate(void)
{
	kept[1] = malloc(3U << 20);
	return kept[1] == NULL;
}

__attribute__((constructor)) static void register_function(void)
{
	char text[ADDRESS_MAX];

	kept[0] = malloc(5U << 20);
	snprintf(text, sizeof(text), "%p", (void *)registered_allocate);
	setenv("SAMPLED_REGISTERED", text, 1);
}
