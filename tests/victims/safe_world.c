/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A runtime that stops its threads by signals, as Boehm's collector, Mono and D do: one thread
 * mallocs, one waits; the main thread stops both again and again, waits for their answers, and lets
 * them go on. Whoever is borrowed meanwhile may be waited for, or be who lets the others go on.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "safe_common.h"

#define THREADS	 2
#define BLOCKS	 64
#define PAUSE_US 300

static sem_t answers;
static atomic_int turn;
static pthread_t threads[THREADS];

static void stop_here(int number)
{
	int now = atomic_load(&turn), error = errno;
	sigset_t all_but_one;

	(void)number;
	sem_post(&answers);
	sigfillset(&all_but_one);
	sigdelset(&all_but_one, SIGXCPU);
	while (atomic_load(&turn) == now)
		sigsuspend(&all_but_one);
	errno = error;
}

static void go_on(int number)
{
	(void)number;
}

static void *wait_for_ever(void *unused)
{
	int ends[2];
	char byte;

	(void)unused;
	if (pipe(ends))
		abort();
	while (read(ends[0], &byte, 1) < 0)
		continue;
	return NULL;
}

static void *allocate(void *unused)
{
	void *blocks[BLOCKS];

	(void)unused;
	for (;;) {
		for (size_t i = 0; i < BLOCKS; i++) {
			blocks[i] = malloc(2000 + i * 1500);
			if (blocks[i])
				memset(blocks[i], 1, 50);
		}
		for (size_t i = 0; i < BLOCKS; i++)
			free(blocks[i]);
		usleep(PAUSE_US); // leaves the processor to others
	}
	return NULL;
}

static void stop_and_let_go(void)
{
	for (size_t i = 0; i < THREADS; i++)
		pthread_kill(threads[i], SIGPWR);
	for (size_t i = 0; i < THREADS; i++)
		while (sem_wait(&answers))
			continue;
	usleep(PAUSE_US);
	atomic_fetch_add(&turn, 1);
	for (size_t i = 0; i < THREADS; i++)
		pthread_kill(threads[i], SIGXCPU);
	usleep(PAUSE_US);
}

int main(void)
{
	const struct sigaction let_go = {.sa_handler = go_on, .sa_flags = SA_RESTART};
	struct sigaction stop = {.sa_handler = stop_here, .sa_flags = SA_RESTART};

	victim_open();
	sigfillset(&stop.sa_mask);
	mallopt(M_ARENA_MAX, 1);
	if (sigaction(SIGPWR, &stop, NULL) || sigaction(SIGXCPU, &let_go, NULL) ||
	    sem_init(&answers, 0, 0) || pthread_create(&threads[0], NULL, wait_for_ever, NULL) ||
	    pthread_create(&threads[1], NULL, allocate, NULL))
		return 2;
	victim_ready();
	for (;;) {
		stop_and_let_go();
		victim_round();
	}
}
