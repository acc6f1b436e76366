/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child of fork() that calls vfork() before its profile has begun: vforked PROGRAM. The child of
 * vfork() allocates, and executes the program; then its parent allocates.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK  ((size_t)4 << 20) /* a thread requests a profile after a MiB */
#define BLOCKS 3

static void *volatile sink;

static int wait_for(pid_t child)
{
	int status;

	return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

static int run_child(const char *program)
{
	pid_t child = vfork();

	if (child == 0) {
		sink = malloc(BLOCK / 2);
		execl(program, program, (char *)NULL);
		_exit(3);
	}
	for (int i = 0; i < BLOCKS; i++)
		sink = malloc(BLOCK);
	return wait_for(child);
}

int main(int count, char **values)
{
	pid_t child;

	if (count != 2)
		return 2;
	/*
	 * The first sample: all that it allocates until it forks is less than the distance to the
	 * next.
	 */
	sink = malloc(1);
	child = fork();
	if (child == 0)
		exit(run_child(values[1]));
	return wait_for(child);
}
