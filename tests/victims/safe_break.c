/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that moves the break itself: its second thread, the only one that allocates, takes
 * memory after the heap and gives it back all the time, while the first one waits. Nothing but
 * malloc_trim() on that one moves the break meanwhile.
 *	safe_break
 */
#include "safe_common.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAKEN  ((size_t)64 << 10)
#define BLOCKS 200
#define BYTES  1000
#define EVERY  8
#define KEEP   (1 << 30) /* free() releases nothing */
#define FILL   0x5a

static void take_and_give_back(void)
{
	unsigned char *taken = sbrk((intptr_t)TAKEN);

	if (taken == (void *)-1)
		victim_die("sbrk");
	memset(taken, FILL, TAKEN);
	if (sbrk(0) != taken + TAKEN)
		victim_fail("the break was moved by something else");
	for (size_t i = 0; i < TAKEN; i++)
		if (taken[i] != FILL)
			victim_fail("byte %zu is %d", i, taken[i]);
	sbrk(-(intptr_t)TAKEN);
}

static void use_heap(void)
{
	static void *blocks[BLOCKS];

	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(BYTES);
		if (!blocks[i])
			victim_die("malloc");
		memset(blocks[i], FILL, BYTES);
	}
	for (size_t i = 0; i < BLOCKS; i++)
		free(blocks[i]);
}

static void *move_break(void *unused)
{
	thread_started();
	for (uint64_t round = 0;; round++) {
		take_and_give_back();
		if (round % EVERY == 0)
			use_heap();
		victim_round();
	}
	return unused;
}

int main(void)
{
	int ends[2];
	char byte;

	victim_open();
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TRIM_THRESHOLD, KEEP);
	if (pipe(ends) != 0)
		victim_die("pipe");
	threads_start(1, move_break, NULL);
	victim_ready();
	while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
		;
	return 1;
}
