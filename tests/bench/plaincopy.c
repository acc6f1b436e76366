/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the lower bound of an aggregation: reads all inputs and writes an output of the size of
 * the first one, without computing anything. It uses as many threads as flmem, chunks of 4 MiB
 * through buffers that stay in the cache, writes in the background, and flushes at the end:
 * plaincopy OUTPUT INPUT...
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK	    (4L << 20)
#define BLOCK	    (256L << 10)
#define THREADS_MAX 8

static int *inputs, input_count, output;
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

static void *work(void *unused)
{
	char *buffer = aligned_alloc(4096, BLOCK);
	off_t begin;

	(void)unused;
	if (!buffer)
		stop("aligned_alloc");
	while ((begin = atomic_fetch_add(&next, CHUNK)) < bytes)
		copy_chunk(buffer, begin, begin + CHUNK < bytes ? begin + CHUNK : bytes);
	free(buffer);
	return NULL;
}

int main(int argc, char **argv)
{
	long count = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t threads[THREADS_MAX];
	struct stat status;

	count = count > THREADS_MAX ? THREADS_MAX : count;
	input_count = argc - 2;
	inputs = calloc((size_t)argc, sizeof(*inputs));
	if (argc < 3 || !inputs || stat(argv[2], &status) < 0)
		stop("usage: plaincopy OUTPUT INPUT...");
	bytes = status.st_size;
	output = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (output < 0 || fallocate(output, 0, 0, bytes) < 0)
		stop(argv[1]);
	for (int i = 0; i < input_count; i++) {
		inputs[i] = open(argv[i + 2], O_RDONLY);
		if (inputs[i] < 0)
			stop(argv[i + 2]);
		posix_fadvise(inputs[i], 0, 0, POSIX_FADV_SEQUENTIAL);
	}
	for (long i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			stop("pthread_create");
	for (long i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	if (fdatasync(output) < 0)
		stop("fdatasync");
	return 0;
}
