/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stopwatch FD PROGRAM [ARGUMENT...]: runs PROGRAM and writes one line to descriptor FD: wall time
 * in ns, peak resident memory in KiB, exit status. It is a separate small program because the
 * kernel counts the memory of the parent that starts a program as part of that program's peak, and
 * Python's would be more than flmem's.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
	struct rusage usage = {0};
	int status = 0, rc, fd;
	uint64_t start;
	pid_t pid;

	if (argc < 3) {
		fprintf(stderr, "usage: stopwatch FD PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	fd = (int)strtol(argv[1], NULL, 10);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	start = now_ns();
	rc = posix_spawnp(&pid, argv[2], NULL, NULL, argv + 2, environ);
	if (rc) {
		fprintf(stderr, "stopwatch: %s: %s\n", argv[2], strerror(rc));
		return 127;
	}
	while (wait4(pid, &status, 0, &usage) < 0)
		if (errno != EINTR)
			return 1;
	dprintf(fd, "%llu %ld %d\n", (unsigned long long)(now_ns() - start), usage.ru_maxrss,
		WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return 0;
}
