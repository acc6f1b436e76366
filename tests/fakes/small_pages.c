/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends the program as jemalloc 5.3 does (src/pages.c) where the pages are larger than those it was
 * built for.
 */
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void refuse_pages(void)
{
	static const char text[] = "<jemalloc>: Unsupported system page size\n";

	if (write(STDERR_FILENO, text, sizeof(text) - 1) > 0)
		abort();
	abort();
}
