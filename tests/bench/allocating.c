/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that does nothing but take memory from the kernel and from the heap, touch it and give
 * it back: each turn needs the locks that a reader of its page tables or mappings would hold. Obeys
 * one command per line: `usual` and `realtime` begin, `end` prints the longest turn in ns and the
 * turns.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MAPPED ((size_t)256 << 10)
#define PAGE   4096U
#define CHUNK  600U

static atomic_bool wanted;
static bool realtime;
static uint64_t longest_ns, turns;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void take_a_turn(void)
{
	char *mapped =
		mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile char *chunk = malloc(CHUNK);

	if (mapped == MAP_FAILED || !chunk)
		abort();
	chunk[0] = 1;
	for (size_t i = 0; i < MAPPED; i += PAGE)
		((volatile char *)mapped)[i] = 1;
	munmap(mapped, MAPPED);
	free((void *)chunk);
}

static void *spin(void *unused)
{
	/* Above the priority of `run --realtime`. */
	const struct sched_param above = {.sched_priority = 3};
	uint64_t last, now;

	(void)unused;
	if (realtime && pthread_setschedparam(pthread_self(), SCHED_FIFO, &above))
		return NULL;
	for (last = now_ns(); atomic_load_explicit(&wanted, memory_order_relaxed); last = now) {
		take_a_turn();
		now = now_ns();
		if (now - last > longest_ns)
			longest_ns = now - last;
		turns++;
	}
	return NULL;
}

int main(void)
{
	char line[32];
	pthread_t thread;
	bool running = false;

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (running && strcmp(line, "end\n") == 0) {
			atomic_store(&wanted, false);
			pthread_join(thread, NULL);
			running = false;
			printf("%lu %lu\n", (unsigned long)longest_ns, (unsigned long)turns);
			fflush(stdout);
		} else if (!running) {
			realtime = strcmp(line, "realtime\n") == 0;
			longest_ns = turns = 0;
			atomic_store(&wanted, true);
			running = pthread_create(&thread, NULL, spin, NULL) == 0;
		}
	}
	return 0;
}
