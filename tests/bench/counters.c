/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the kernel's share of a sample: counters INTERVAL_US TICKS PID... reads /proc/PID/statm
 * of each process at each tick through files that stay open, ignores the content, and prints its
 * processor time per tick in ns.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static uint64_t spent_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static int open_counters(const char *pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/statm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		perror(path);
	return fd;
}

static void read_all(const int *files, int count)
{
	char text[192];

	for (int i = 0; i < count; i++)
		if (pread(files[i], text, sizeof(text), 0) <= 0)
			exit(1);
}

int main(int argc, char **argv)
{
	int count = argc - 3;
	int *files = count > 0 ? calloc((size_t)count, sizeof(*files)) : NULL;
	long ticks = files ? strtol(argv[2], NULL, 10) : 0;
	uint64_t before;

	if (ticks < 1)
		return 2;
	for (int i = 0; i < count; i++) {
		files[i] = open_counters(argv[i + 3]);
		if (files[i] < 0)
			return 1;
	}
	before = spent_ns();
	for (long i = 0; i < ticks; i++) {
		read_all(files, count);
		usleep((useconds_t)strtoul(argv[1], NULL, 10));
	}
	printf("%lu\n", (unsigned long)((spent_ns() - before) / (uint64_t)ticks));
	return 0;
}
