/* SPDX-License-Identifier: Apache-2.0 */
/* A library linked so that its call of malloc() is bound when it is made first. */
#include <stdlib.h>

#define SIZE 300000

__attribute__((visibility("default"))) int call_later(void);

int call_later(void)
{
	static void *volatile kept;

	kept = malloc(SIZE);
	return kept != NULL;
}
