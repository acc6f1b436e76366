/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of an arena of glibc stays held, as by a thread that was ended in malloc(). Says "ready"
 * and its own pid, and sleeps until its input ends.
 *
 * usage: locked-arena first|later|absent
 *
 * first: of 150 arenas it is the one that was made first.
 * absent: the page that begins with it is in a file, and not in the page tables.
 * later: it says "ready" first, computes for a while, and only then has a second arena.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Heaps of arenas are aligned; the first word points to the arena, which begins with its lock. */
#define HEAP_MAX ((uintptr_t)64 << 20)

static int started, is_absent;

static void put_away(char *page)
{
	const size_t length = (size_t)sysconf(_SC_PAGESIZE);
	int file = memfd_create("arena", MFD_CLOEXEC);

	if (file < 0 || write(file, page, length) != (ssize_t)length ||
	    mmap(page, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != page ||
	    madvise(page, length, MADV_DONTNEED))
		abort();
}

static void *take(void *holds)
{
	void *block = malloc(1000);
	char *heap = (char *)((uintptr_t)block & ~(HEAP_MAX - 1));

	if (!block)
		abort();
	if (holds)
		**(int **)heap = 1;
	if (holds && is_absent)
		put_away(heap);
	__atomic_add_fetch(&started, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
	return NULL;
}

/* Starts one thread after the other, each with a separate arena. */
static void make_arenas(int count)
{
	pthread_attr_t small;
	pthread_t thread;

	mallopt(M_ARENA_MAX, count + 1);
	if (pthread_attr_init(&small) || pthread_attr_setstacksize(&small, (size_t)64 << 10))
		abort();
	for (int i = 0; i < count; i++) {
		if (pthread_create(&thread, &small, take, i ? NULL : &small))
			abort();
		while (__atomic_load_n(&started, __ATOMIC_SEQ_CST) <= i)
			usleep(100);
	}
}

static void say_ready(void)
{
	printf("ready %d\n", (int)getpid());
}

static void compute(void)
{
	const clock_t begun = clock();

	while (clock() - begun < CLOCKS_PER_SEC / 2)
		continue;
}

int main(int argc, char **argv)
{
	const int later = argc > 1 && strcmp(argv[1], "later") == 0;
	char line[64];

	setvbuf(stdin, NULL, _IONBF, 0);
	setvbuf(stdout, NULL, _IONBF, 0);
	if (later) {
		say_ready();
		compute();
	}
	is_absent = argc > 1 && strcmp(argv[1], "absent") == 0;
	make_arenas(later || is_absent ? 1 : 150);
	if (!later)
		say_ready();
	while (fgets(line, sizeof(line), stdin))
		continue;
	return 0;
}
