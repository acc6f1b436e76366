/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the lower bound of an aggregation: reads all inputs and writes an output of the size of
 * the first one, without computing anything. It uses one thread per processor, chunks of 4 MiB
 * through buffers that stay in the cache, writes in the background, and flushes at the end:
 * plaincopy WAY OUTPUT INPUT..., where WAY is copy, write (reads nothing) or write-direct (reads
 * nothing, and writes past the page cache from huge pages). No program that writes and flushes as
 * many bytes is faster than the faster one of the last two.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK	    (4L << 20)
#define BLOCK	    (256L << 10)
#define HUGE_PAGE   (2UL << 20)
#define PAGE	    4096L
#define THREADS_MAX 8

static int *inputs, input_count, output;
static bool direct;
static off_t bytes;
static atomic_long next;

static void stop(const char *what)
{
	perror(what);
	exit(1);
}

static void read_block(int fd, char *buffer, size_t length, off_t at)
{
	if (pread(fd, buffer, length, at) != (ssize_t)length)
		stop("pread");
}

static void copy_chunk(char *buffer, off_t begin, off_t end)
{
	for (off_t at = begin; at < end; at += BLOCK) {
		size_t length = (size_t)(end - at < BLOCK ? end - at : BLOCK);

		for (int i = 0; i < input_count; i++)
			read_block(inputs[i], buffer, length, at);
		if (pwrite(output, buffer, length, at) != (ssize_t)length)
			stop("pwrite");
	}
	sync_file_range(output, begin, end - begin, SYNC_FILE_RANGE_WRITE);
}

/* O_DIRECT needs whole pages; main() cuts off what is too much. */
static void write_directly(const char *buffer, off_t begin, off_t end)
{
	size_t length = (size_t)((end - begin + PAGE - 1) / PAGE * PAGE);

	if (pwrite(output, buffer, length, begin) != (ssize_t)length)
		stop("pwrite");
}

static void *work(void *unused)
{
	char *buffer = aligned_alloc(HUGE_PAGE, CHUNK);
	off_t begin, end;

	(void)unused;
	if (!buffer)
		stop("aligned_alloc");
	madvise(buffer, CHUNK, direct ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	memset(buffer, 1, direct ? CHUNK : BLOCK);
	while ((begin = atomic_fetch_add(&next, CHUNK)) < bytes) {
		end = begin + CHUNK < bytes ? begin + CHUNK : bytes;
		if (direct)
			write_directly(buffer, begin, end);
		else
			copy_chunk(buffer, begin, end);
	}
	free(buffer);
	return NULL;
}

static void open_files(char **names, int count, bool reads)
{
	struct stat status;

	if (stat(names[1], &status) < 0)
		stop(names[1]);
	bytes = status.st_size;
	output = open(names[0], O_RDWR | O_CREAT | O_TRUNC | (direct ? O_DIRECT : 0), 0600);
	if (output < 0 && errno == EINVAL) /* files in memory, before Linux 6.6 */
		output = open(names[0], O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (output < 0 || fallocate(output, 0, 0, bytes) < 0)
		stop(names[0]);
	input_count = reads ? count - 1 : 0;
	inputs = calloc((size_t)count, sizeof(*inputs));
	if (!inputs)
		stop("calloc");
	for (int i = 0; i < input_count; i++) {
		inputs[i] = open(names[i + 1], O_RDONLY);
		if (inputs[i] < 0)
			stop(names[i + 1]);
		posix_fadvise(inputs[i], 0, 0, POSIX_FADV_SEQUENTIAL);
	}
}

int main(int argc, char **argv)
{
	long count = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t threads[THREADS_MAX];

	count = count > THREADS_MAX ? THREADS_MAX : count;
	if (argc < 4)
		stop("usage: plaincopy WAY OUTPUT INPUT...");
	direct = strcmp(argv[1], "write-direct") == 0;
	open_files(argv + 2, argc - 2, strcmp(argv[1], "copy") == 0);
	for (long i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			stop("pthread_create");
	for (long i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	if (ftruncate(output, bytes) < 0 || fdatasync(output) < 0)
		stop("fdatasync");
	return 0;
}
