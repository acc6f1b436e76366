/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/client/client_writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/thread.h"

#define BLOCK_BYTES ((size_t)1 << 20)

struct flmem_pull_writer {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	int fd;
	uint64_t at;
	struct flmem_digest *digest;
	char *filling, *writing;
	size_t filled;
	bool ending;
	int error;
};

/* What is written behind the end of a part that others cut would leave zeros in it. */
static bool is_part_cut(const struct flmem_pull_writer *writer)
{
	struct stat status;

	return writer->fd >= 0 && fstat(writer->fd, &status) == 0 &&
	       (uint64_t)status.st_size != writer->at;
}

/* An errno. */
static int put_received(const struct flmem_pull_writer *writer, size_t length)
{
	size_t put = 0;

	if (is_part_cut(writer))
		return FLMEM_PULL_PART_CUT;
	while (writer->fd >= 0 && put < length) {
		ssize_t some = pwrite(writer->fd, writer->writing + put, length - put,
				      (off_t)(writer->at + put));

		if (some < 0 && errno == EINTR)
			continue;
		if (some <= 0)
			return some < 0 ? errno : EIO;
		put += (size_t)some;
	}
	flmem_digest_add(writer->digest, writer->writing, length);
	return 0;
}

/* With the lock, which is released meanwhile. */
static void take_received(struct flmem_pull_writer *writer)
{
	char *block = writer->filling;
	size_t length = writer->filled;
	int error;

	writer->filling = writer->writing;
	writer->writing = block;
	writer->filled = 0;
	pthread_cond_signal(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	error = put_received(writer, length);
	pthread_mutex_lock(&writer->lock);
	writer->at += length;
	writer->error = error;
}

static void *run_pull_writer(void *context)
{
	struct flmem_pull_writer *writer = context;

	pthread_mutex_lock(&writer->lock);
	while (!writer->error && (writer->filled || !writer->ending)) {
		if (writer->filled)
			take_received(writer);
		else
			pthread_cond_wait(&writer->changed, &writer->lock);
	}
	pthread_cond_signal(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	return NULL;
}

static void free_writer(struct flmem_pull_writer *writer)
{
	pthread_cond_destroy(&writer->changed);
	pthread_mutex_destroy(&writer->lock);
	free(writer->filling);
	free(writer->writing);
	free(writer);
}

int flmem_pull_writer_open(int fd, uint64_t at, struct flmem_digest *digest,
			   struct flmem_pull_writer **ret_writer, struct flmem_error *err)
{
	struct flmem_pull_writer *writer = calloc(1, sizeof(*writer));
	int error;

	if (!writer)
		return flmem_error_nomem(err, "cannot receive a model");
	*writer = (struct flmem_pull_writer){
		.fd = fd,
		.at = at,
		.digest = digest,
		.filling = malloc(BLOCK_BYTES),
		.writing = malloc(BLOCK_BYTES),
	};
	pthread_mutex_init(&writer->lock, NULL);
	pthread_cond_init(&writer->changed, NULL);
	error = writer->filling && writer->writing
			? flmem_thread_start(&writer->thread, run_pull_writer, writer)
			: ENOMEM;
	if (error) {
		free_writer(writer);
		return flmem_error_set(err, FLMEM_EFAILED, error, "cannot receive a model");
	}
	*ret_writer = writer;
	return 0;
}

int flmem_pull_writer_add(struct flmem_pull_writer *writer, const char *bytes, size_t length)
{
	int error;

	pthread_mutex_lock(&writer->lock);
	while (length && !writer->error) {
		size_t room = BLOCK_BYTES - writer->filled, some = length < room ? length : room;

		if (!room) {
			pthread_cond_wait(&writer->changed, &writer->lock);
			continue;
		}
		memcpy(writer->filling + writer->filled, bytes, some);
		writer->filled += some;
		bytes += some;
		length -= some;
		pthread_cond_signal(&writer->changed);
	}
	error = writer->error;
	pthread_mutex_unlock(&writer->lock);
	return error;
}

int flmem_pull_writer_close(struct flmem_pull_writer *writer)
{
	int error;

	if (!writer)
		return 0;
	pthread_mutex_lock(&writer->lock);
	writer->ending = true;
	pthread_cond_signal(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	pthread_join(writer->thread, NULL);
	error = writer->error;
	free_writer(writer);
	return error;
}
