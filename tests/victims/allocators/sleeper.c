/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses its allocator, prints "ready", and sleeps until it is killed or its input ends. OPENER:
 * first opens the library that it is given, for itself alone; status 77 when that does not load.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef ALLOCATE
void *ALLOCATE(size_t size);
void RELEASE(void *block);
#else
#define ALLOCATE malloc
#define RELEASE	 free
#endif

int main(int argc, char **argv)
{
	char *blocks[64], *plain, byte;

	(void)argc, (void)argv;
#ifdef OPENER
	if (argc < 2 || !dlopen(argv[1], RTLD_NOW | RTLD_LOCAL))
		return 77;
#endif
	for (size_t i = 0; i < 64; i++) {
		blocks[i] = ALLOCATE(i * 1000 + 1);
		if (!blocks[i])
			return 1;
		memset(blocks[i], 1, i * 1000 + 1);
	}
	for (size_t i = 0; i < 64; i += 2)
		RELEASE(blocks[i]);
	plain = malloc(100);
	if (!plain || write(STDOUT_FILENO, "ready\n", 6) != 6)
		return 1;
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	free(plain);
	return 0;
}
