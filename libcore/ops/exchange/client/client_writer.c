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

#define RING_BYTES  ((size_t)4 << 20)
#define BLOCK_BYTES ((size_t)1 << 20) /* most bytes of one write: room in the ring returns early */
/*
 * Size of the steps in which bytes are handed over. TLS records have 16 KiB, and each would wake
 * both threads; file systems write aligned steps best.
 */
#define STEP_BYTES ((size_t)256 << 10)

/*
 * One of the two threads. Bytes in the ring are used up when both have passed them. Positions are
 * those in the file.
 */
struct ring_reader {
	struct flmem_pull_writer *writer;
	pthread_t thread;
	bool started;
	int (*take)(struct flmem_pull_writer *writer, const char *bytes, size_t length);
	uint64_t passed;
};

enum {
	WRITES,
	DIGESTS,
	READERS
};

struct flmem_pull_writer {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int fd;
	uint64_t at; /* offset in the file; used by the writing thread only */
	struct flmem_digest *digest;
	char *ring;
	uint64_t added; /* end of the bytes that the threads may take */
	/* End of all bytes in the ring; used by the adding thread only, as is `end`. */
	uint64_t filled;
	uint64_t end; /* end of the room that is known to be free */
	struct ring_reader readers[READERS];
	bool ending;
	int error;
};

/* Returns true if another program cut the part: writing past its end would leave zeros in it. */
static bool is_part_cut(const struct flmem_pull_writer *writer)
{
	struct stat status;

	return writer->fd >= 0 && fstat(writer->fd, &status) == 0 &&
	       (uint64_t)status.st_size != writer->at;
}

/* Writes bytes to the part. Returns 0 or an errno. */
static int write_received(struct flmem_pull_writer *writer, const char *bytes, size_t length)
{
	size_t put = 0;

	if (is_part_cut(writer))
		return FLMEM_PULL_PART_CUT;
	while (writer->fd >= 0 && put < length) {
		ssize_t some =
			pwrite(writer->fd, bytes + put, length - put, (off_t)(writer->at + put));

		if (some < 0 && errno == EINTR)
			continue;
		if (some <= 0)
			return some < 0 ? errno : EIO;
		put += (size_t)some;
	}
	writer->at += length;
	return 0;
}

static int digest_received(struct flmem_pull_writer *writer, const char *bytes, size_t length)
{
	flmem_digest_add(writer->digest, bytes, length);
	return 0;
}

/* Takes the next bytes from the ring. Called with the lock held, which is released meanwhile. */
static void take_received(struct ring_reader *reader)
{
	struct flmem_pull_writer *writer = reader->writer;
	size_t begin = reader->passed % RING_BYTES;
	uint64_t length = writer->added - reader->passed;
	int error;

	if (length > BLOCK_BYTES)
		length = BLOCK_BYTES;
	if (length > RING_BYTES - begin)
		length = RING_BYTES - begin;
	pthread_mutex_unlock(&writer->lock);
	error = reader->take(writer, writer->ring + begin, (size_t)length);
	pthread_mutex_lock(&writer->lock);
	reader->passed += length;
	if (error)
		writer->error = error;
	pthread_cond_broadcast(&writer->changed);
}

static void *run_ring_reader(void *context)
{
	struct ring_reader *reader = context;
	struct flmem_pull_writer *writer = reader->writer;

	pthread_mutex_lock(&writer->lock);
	while (!writer->error && (reader->passed < writer->added || !writer->ending)) {
		if (reader->passed < writer->added)
			take_received(reader);
		else
			pthread_cond_wait(&writer->changed, &writer->lock);
	}
	pthread_mutex_unlock(&writer->lock);
	return NULL;
}

static void end_readers(struct flmem_pull_writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	writer->added = writer->filled;
	writer->ending = true;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	for (unsigned i = 0; i < READERS; i++)
		if (writer->readers[i].started)
			pthread_join(writer->readers[i].thread, NULL);
}

static void free_writer(struct flmem_pull_writer *writer)
{
	pthread_cond_destroy(&writer->changed);
	pthread_mutex_destroy(&writer->lock);
	free(writer->ring);
	free(writer);
}

/* Starts both threads. Returns 0 or an errno. */
static int start_readers(struct flmem_pull_writer *writer)
{
	int error = 0;

	for (unsigned i = 0; i < READERS && !error; i++) {
		struct ring_reader *reader = &writer->readers[i];

		reader->writer = writer;
		reader->passed = writer->at;
		reader->take = i == WRITES ? write_received : digest_received;
		error = flmem_thread_start(&reader->thread, run_ring_reader, reader);
		reader->started = !error;
	}
	return error;
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
		.added = at,
		.filled = at,
		.end = at + RING_BYTES,
		.digest = digest,
		.ring = malloc(RING_BYTES),
	};
	pthread_mutex_init(&writer->lock, NULL);
	pthread_cond_init(&writer->changed, NULL);
	error = writer->ring ? start_readers(writer) : ENOMEM;
	if (error) {
		end_readers(writer);
		free_writer(writer);
		return flmem_error_set(err, FLMEM_EFAILED, error, "cannot receive a model");
	}
	*ret_writer = writer;
	return 0;
}

/* Returns the end of the free room. Called with the lock held. */
static uint64_t end_of_room(const struct flmem_pull_writer *writer)
{
	uint64_t passed = writer->readers[WRITES].passed;

	if (writer->readers[DIGESTS].passed < passed)
		passed = writer->readers[DIGESTS].passed;
	return passed + RING_BYTES;
}

/*
 * Hands the filled bytes over to the threads, and waits for room if there is none. Returns 0 or an
 * errno.
 */
static int hand_over_step(struct flmem_pull_writer *writer)
{
	int error;

	pthread_mutex_lock(&writer->lock);
	writer->added = writer->filled;
	pthread_cond_broadcast(&writer->changed);
	while (!writer->error && end_of_room(writer) == writer->filled)
		pthread_cond_wait(&writer->changed, &writer->lock);
	writer->end = end_of_room(writer);
	error = writer->error;
	pthread_mutex_unlock(&writer->lock);
	return error;
}

int flmem_pull_writer_add(struct flmem_pull_writer *writer, const char *bytes, size_t length)
{
	int error = 0;

	while (length && !error) {
		uint64_t at = writer->filled % RING_BYTES, step = STEP_BYTES - at % STEP_BYTES;
		uint64_t some = length < step ? length : step;

		if (some > writer->end - writer->filled)
			some = writer->end - writer->filled;
		/*
		 * No lock: only this thread uses the part of the ring between `filled` and `end`.
		 */
		memcpy(writer->ring + at, bytes, (size_t)some);
		writer->filled += some;
		bytes += some;
		length -= (size_t)some;
		if (writer->filled % STEP_BYTES == 0 || writer->filled == writer->end)
			error = hand_over_step(writer);
	}
	return error;
}

int flmem_pull_writer_close(struct flmem_pull_writer *writer)
{
	int error;

	if (!writer)
		return 0;
	end_readers(writer);
	error = writer->error;
	free_writer(writer);
	return error;
}
