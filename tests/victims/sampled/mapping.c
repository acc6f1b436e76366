/* SPDX-License-Identifier: Apache-2.0 */
/* Prints how many of its calls of mmap(), mmap64() and mremap() reached own_mappings.c. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#define LENGTH ((size_t)1 << 20)

extern int own_mappings, own_moves;

static void *be_mapped(void *map)
{
	if (map != MAP_FAILED)
		return map;
	perror("mapping");
	return NULL;
}

int main(void)
{
	const int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	int plain, large;
	void *map;

	own_mappings = own_moves = 0;
	map = be_mapped(mmap(NULL, LENGTH, access, flags, -1, 0));
	plain = own_mappings;
	map = map ? be_mapped(mremap(map, LENGTH, 2 * LENGTH, MREMAP_MAYMOVE)) : NULL;
	if (!map || munmap(map, 2 * LENGTH))
		return 1;
	map = be_mapped(mmap64(NULL, LENGTH, access, flags, -1, 0));
	large = own_mappings - plain;
	if (!map || munmap(map, LENGTH))
		return 1;
	printf("%d %d %d\n", plain, large, own_moves);
	return 0;
}
