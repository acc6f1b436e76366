/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon that has closed its standard descriptors, whose child creates a profile: ends with 0 if
 * that is at none of their numbers, to which another thread may write, where the sampler maps it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK ((size_t)4 << 20)

static int is_child, found = 3; /* 3: not checked yet */
static void *volatile sink;

static int has_standard_output(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int flags = fcntl(fd, F_GETFL);

		if (flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY)
			return 1;
	}
	return 0;
}

/* Replaces the C library's function, also for the sampler, which has its file open then. */
__attribute__((visibility("default"))) int madvise(void *memory, size_t size, int advice)
{
	if (is_child && found != 1)
		found = has_standard_output();
	return (int)syscall(SYS_madvise, memory, size, advice);
}

static int run_child(void)
{
	is_child = 1;
	sink = malloc(BLOCK);
	free(sink);
	return found;
}

int main(void)
{
	int status;
	pid_t child;

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		close(fd);
	child = fork();
	if (child == 0)
		_exit(run_child());
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return 2;
	return WEXITSTATUS(status);
}
