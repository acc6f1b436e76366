/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collector that stops its threads by signals, in the moment in which it must not be kept: its
 * thread has stopped inside jemalloc, with the lock of mallctl(), and the main thread lets it go on
 * when it reads a byte from the FIFO that is named by the argument. Says "go on" for each byte.
 * Started with jemalloc preloaded.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* extent_alloc_t and extent_hooks_t of jemalloc 5. */
typedef void *alloc_hook(void *, void *, size_t, size_t, bool *, bool *, unsigned);

struct hooks {
	alloc_hook *alloc;
	void *dalloc, *destroy, *commit, *decommit, *purge_lazy, *purge_forced, *split, *merge;
};

static int (*mallctl_of)(const char *, void *, size_t *, void *, size_t);
static sem_t inside, answers;

/* Stops the thread until the main thread lets it go on, all the time with the lock of the arena. */
static void stop_here(int number)
{
	sigset_t all_but_one;

	(void)number;
	sem_post(&answers);
	sigfillset(&all_but_one);
	sigdelset(&all_but_one, SIGXCPU);
	sigsuspend(&all_but_one);
}

static void go_on(int number)
{
	(void)number;
}

/*
 * Allocates memory for the arena itself: jemalloc requests it with the lock of all its mallctl()
 * calls.
 */
/* The parameters are jemalloc's. NOLINTNEXTLINE(readability-function-size) */
static void *wait_inside(void *hooks, void *at, size_t size, size_t alignment, bool *zeroed,
			 bool *committed, unsigned arena)
{
	(void)hooks, (void)at, (void)size, (void)alignment, (void)zeroed, (void)committed;
	(void)arena;
	sem_post(&inside);
	pause();
	return NULL;
}

static void *create_arena(void *unused)
{
	static struct hooks own;
	struct hooks *hooks;
	size_t length = sizeof(hooks), index_length = sizeof(unsigned);
	unsigned arena;

	if (mallctl_of("arena.0.extent_hooks", &hooks, &length, NULL, 0))
		abort();
	own = *hooks;
	own.alloc = wait_inside;
	hooks = &own;
	mallctl_of("arenas.create", &arena, &index_length, &hooks, sizeof(hooks));
	return unused;
}

int main(int argc, char **argv)
{
	const struct sigaction let_go = {.sa_handler = go_on};
	struct sigaction stop = {.sa_handler = stop_here};
	void *function = dlsym(RTLD_DEFAULT, "mallctl");
	pthread_t thread;
	int commands = argc == 2 ? open(argv[1], O_RDWR) : -1;
	char byte;

	if (!function)
		return 3;
	memcpy(&mallctl_of, &function, sizeof(function));
	sigfillset(&stop.sa_mask);
	if (commands < 0 || sigaction(SIGPWR, &stop, NULL) || sigaction(SIGXCPU, &let_go, NULL) ||
	    sem_init(&inside, 0, 0) || sem_init(&answers, 0, 0) ||
	    pthread_create(&thread, NULL, create_arena, NULL))
		return 2;
	sem_wait(&inside);
	pthread_kill(thread, SIGPWR);
	sem_wait(&answers);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (read(commands, &byte, 1) == 1) {
		pthread_kill(thread, SIGXCPU);
		(void)!write(1, "go on\n", 6);
	}
	return 0;
}
