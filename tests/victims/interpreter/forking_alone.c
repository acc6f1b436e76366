/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program without threads that forks, with a handler that waits for a byte. Its child allocates.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS	3000
#define LIMIT_S 60

static int awaited = -1;

static void wait_before(void)
{
	char byte;

	(void)!write(STDOUT_FILENO, "ready\n", 6);
	(void)!read(awaited, &byte, 1);
}

static void allocate(void)
{
	static void *blocks[BLOCKS];

	alarm(LIMIT_S);
	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i] = malloc(1100 + i);
	for (size_t i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	_exit(0);
}

int fork_after(int descriptor);

/* Forks; returns the child's status from waitpid(). */
int fork_after(int descriptor)
{
	int status = -1;
	pid_t child;

	awaited = descriptor;
	if (pthread_atfork(wait_before, NULL, NULL))
		return -1;
	child = fork();
	if (!child)
		allocate();
	waitpid(child, &status, 0);
	return status;
}
