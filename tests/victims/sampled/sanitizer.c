/* SPDX-License-Identifier: Apache-2.0 */
/* Like the library of a sanitizer, this one ends a program in which another one is before it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void sanitizer_used(void) __attribute__((visibility("default")));

__attribute__((constructor)) static void refuse_preloaded(void)
{
	const char *preload = getenv("LD_PRELOAD");

	if (preload && !strstr(preload, "libasan"))
		_exit(1);
}

void sanitizer_used(void)
{
}
