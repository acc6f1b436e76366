/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watched WAY ROUNDS PAUSE_MS SIZE_KIB [LOG]: each round takes SIZE_KIB for a while and gives it
 * back, as training does, on top of 32 MiB. In between the way of the program decides what stays.
 * With a LOG it says there when a round starts. 0 rounds: without limit. "retain" gives nothing
 * back to the kernel by itself; a thread waits for input, and can be borrowed.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BASE ((size_t)32 << 20)

static void *take(size_t size)
{
	void *block = malloc(size ? size : 1);

	if (!block)
		exit(1);
	memset(block, 1, size);
	return block;
}

static void pause_ms(long ms)
{
	const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&time, NULL);
}

/* Returns the bytes that this round keeps for good. */
static size_t kept(const char *way, unsigned long round, size_t size)
{
	if (strcmp(way, "leak") == 0)
		return size;
	if (strcmp(way, "stairs") == 0) /* the growth of a leak over twelve rounds, at once */
		return round % 12 == 11 ? 12 * size : 0;
	if (strcmp(way, "step") == 0)
		return round == 10 ? 16 * size : 0;
	if (strcmp(way, "cache") == 0) /* halves with each round, down to nothing */
		return round < 8 ? (16 * size) >> round : 0;
	return 0; /* flat, keep, noise, saw, retain */
}

/*
 * Keeps memory for some rounds: noise for one round, of any size; saw until there are nine blocks.
 */
static void keep_for_a_while(const char *way, unsigned long round, size_t size)
{
	static void *held[9];
	unsigned long place = round % 9;

	if (strcmp(way, "noise") == 0) {
		free(held[0]);
		held[0] = take((round * 7919 + 13) % 31 * size / 8);
	} else if (strcmp(way, "saw") == 0) {
		for (unsigned long i = 0; !place && i < 9; i++) {
			free(held[i]);
			held[i] = NULL;
		}
		held[place] = take(size);
	}
}

static void *wait_for_input(void *unused)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	for (;;)
		pause();
	return unused;
}

static void retain(void)
{
	pthread_t thread;

	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	if (pthread_create(&thread, NULL, wait_for_input, NULL))
		exit(1);
}

int main(int argc, char **argv)
{
	unsigned long rounds;
	size_t size;
	FILE *log = NULL;
	long pause_for;
	void *base;

	if (argc < 5)
		return 2;
	rounds = strtoul(argv[2], NULL, 10);
	pause_for = strtol(argv[3], NULL, 10);
	size = strtoul(argv[4], NULL, 10) << 10;
	if (argc > 5)
		log = fopen(argv[5], "ae");
	/*
	 * Otherwise freeing a large block makes glibc keep the next ones: that is the way "keep".
	 */
	if (strcmp(argv[1], "keep") != 0)
		mallopt(M_MMAP_THRESHOLD, 128 << 10);
	if (strcmp(argv[1], "retain") == 0)
		retain();
	base = take(BASE);
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		return 1;
	for (unsigned long round = 0; !rounds || round < rounds; round++) {
		size_t stays = kept(argv[1], round, size);
		void *work;

		if (log) {
			fprintf(log,
				"2026-01-01 00:00:00,000 - FedAvg - INFO - Round %lu started.\n",
				round);
			fflush(log);
		}
		pause_ms(pause_for / 2);
		work = take(size);
		if (stays)
			take(stays);
		keep_for_a_while(argv[1], round, size);
		pause_ms(pause_for / 2);
		free(work);
	}
	free(base);
	return 0;
}
