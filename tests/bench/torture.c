/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load that does nothing but malloc() and free(): torture THREADS MILLIONS [KEPT [turns]]. Each
 * thread replaces blocks of 16 to 527 bytes at random places of a table, beside KEPT MiB of such
 * blocks that stay. Prints the processor time of the threads in us; with "turns" once for each line
 * read.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BLOCKS	   1024
#define KEPT_BYTES 272 /* the mean size of the blocks */

static size_t pairs; /* number of pairs of calls per thread */

static void *torture(void *context)
{
	uint64_t random = (uintptr_t)context * 2654435761U + 1;
	void *blocks[BLOCKS] = {0};

	for (size_t i = 0; i < pairs; i++) {
		void **block;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		block = &blocks[random % BLOCKS];
		free(*block);
		*block = malloc(16 + (random >> 32 & 511));
		*(char *)*block = 1;
	}
	for (size_t i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return NULL;
}

static void torture_keep(size_t mib)
{
	for (size_t i = 0; i < (mib << 20) / KEPT_BYTES; i++) {
		char *block = malloc(KEPT_BYTES);

		if (!block)
			exit(1);
		*block = 1;
	}
}

static unsigned long long torture_spent_us(void)
{
	struct timespec spent;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
	return (unsigned long long)spent.tv_sec * 1000000 +
	       (unsigned long long)spent.tv_nsec / 1000;
}

static bool torture_turn(size_t count)
{
	unsigned long long begin = torture_spent_us();
	pthread_t threads[64];

	for (size_t i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, torture, (void *)(i + 1)))
			return false;
	for (size_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("%llu\n", torture_spent_us() - begin);
	return fflush(stdout) == 0;
}

int main(int argc, char **argv)
{
	size_t count = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	char line[16];

	if (count < 1 || count > 64)
		return 2;
	pairs = (size_t)(strtod(argv[2], NULL) * 1e6);
	torture_keep(argc > 3 ? strtoul(argv[3], NULL, 10) : 0);
	if (argc < 5)
		return torture_turn(count) ? 0 : 1;
	while (fgets(line, sizeof(line), stdin))
		if (!torture_turn(count))
			return 1;
	return 0;
}
