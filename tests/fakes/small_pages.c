/* SPDX-License-Identifier: Apache-2.0 */
/* Ends like jemalloc 5.3, src/pages.c, where the pages are larger than it was built for. */
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void refuse_pages(void)
{
	static const char text[] = "<jemalloc>: Unsupported system page size\n";

	if (write(STDERR_FILENO, text, sizeof(text) - 1) > 0)
		abort();
	abort();
}
