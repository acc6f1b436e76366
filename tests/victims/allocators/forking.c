/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks with an allocator that it has opened: forking LIBRARY WHO. The handler of fork() that the
 * program has registered before waits for a byte of the input, with the allocator's locks held. It
 * reads the byte itself (`own`), or another thread does (`other`); `before`: the program has forked
 * already, and no handler waits. "go on" for each byte. Built with FIRST it registers the handler
 * before any library's functions are called, so that LIBRARY may be its malloc().
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 4000
#define BLOCK  10000

static enum {
	BEFORE,
	OWN,
	OTHER
} who;
static sem_t asked, answered;

static void read_byte(void)
{
	char byte;

	if (read(STDIN_FILENO, &byte, 1) != 1)
		_exit(1);
}

static void prepare(void)
{
	if (who == OWN) {
		puts("ready");
		read_byte();
	} else if (who == OTHER) {
		sem_post(&asked);
		sem_wait(&answered);
	}
}

/* This is the thread to be borrowed: its wait has no timeout. */
static void *answer(void *unused)
{
	sem_wait(&asked);
	puts("ready");
	read_byte();
	sem_post(&answered);
	return unused;
}

/* Gives the allocator something to release, and makes it register its handlers. */
static void use_allocator(const char *path)
{
	void *library = dlopen(path, RTLD_NOW), *place;
	void *(*allocate)(size_t), (*release)(void *), *blocks[BLOCKS];

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(77);
	}
	place = dlsym(library, "malloc");
	memcpy(&allocate, &place, sizeof(place));
	place = dlsym(library, "free");
	memcpy(&release, &place, sizeof(place));
	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = memset(allocate(BLOCK), 1, BLOCK);
	for (int i = 0; i < BLOCKS; i++)
		release(blocks[i]);
}

static void fork_once(void)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	if (child < 0 || waitpid(child, NULL, 0) != child)
		exit(1);
}

static void register_handler(void)
{
	pthread_atfork(prepare, NULL, NULL);
}

#ifdef FIRST
__attribute__((section(".preinit_array"), used)) static void (*first)(void) = register_handler;
#endif

int main(int argc, char **argv)
{
	static char line[100];
	pthread_t thread;

	if (argc != 3)
		return 2;
	setvbuf(stdout, line, _IOLBF, sizeof(line)); /* the handler must not allocate a buffer */
	sem_init(&asked, 0, 0);
	sem_init(&answered, 0, 0);
#ifndef FIRST
	register_handler();
#endif
	use_allocator(argv[1]);
	fork_once();
	who = strcmp(argv[2], "own") == 0 ? OWN : strcmp(argv[2], "other") == 0 ? OTHER : BEFORE;
	if (who == OTHER)
		pthread_create(&thread, NULL, answer, NULL);
	if (who != BEFORE) {
		fork_once();
	} else {
		puts("ready");
		read_byte();
	}
	for (;;) {
		puts("go on");
		read_byte();
	}
}
