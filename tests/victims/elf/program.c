/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) static void *program_allocate(size_t size)
{
	return malloc(size);
}

#ifdef ADDRESSES /* take malloc's address */
static void *(*volatile program_allocator)(size_t);
#endif

int main(int argc, char **argv)
{
#ifdef ADDRESSES
	program_allocator = malloc;
#endif
	free(program_allocate((size_t)argc));
	if (argc > 1 && argv[1][0] == 'w')
		pause();
	return 0;
}
