/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_CLIENT_READER_H
#define FLMEM_EXCHANGE_CLIENT_READER_H

/*
 * Reads the chunks of files that are sent, with their checksums. While the server takes a chunk, a
 * thread reads the next one.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "ops/exchange/client/client_files.h"

struct flmem_push_chunk {
	const struct flmem_push_file *file;
	uint64_t offset;
	size_t bytes;
	char *data;
	uint32_t crc32c;
	int rc; /* why it could not be read */
	struct flmem_error why;
};

struct flmem_push_reader {
	struct flmem_push_chunk chunks[2]; /* the chunk requested last, and the next */
	unsigned current;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	/* `started` false: no thread; each chunk is read when it is asked for. */
	bool initialised, started;
	bool wanted; /* the thread reads the next chunk, or is about to */
	bool ending;
};

/*
 * Prepares for chunks of at most `bytes`. Clear the reader also after a failure; a zeroed one may
 * be cleared, too.
 */
int flmem_push_reader_init(struct flmem_push_reader *reader, uint64_t bytes,
			   struct flmem_error *err);

void flmem_push_reader_clear(struct flmem_push_reader *reader);

/* Reads a chunk, which remains valid until the next call. */
int flmem_push_reader_get(struct flmem_push_reader *reader, const struct flmem_push_file *file,
			  uint64_t offset, size_t bytes, const struct flmem_push_chunk **ret_chunk,
			  struct flmem_error *err);

/*
 * Begins to read the chunk after the last one. Call it once that one was sent: where client and
 * server share two processors, the server would get none. The file stays open until
 * flmem_push_reader_idle().
 */
void flmem_push_reader_ahead(struct flmem_push_reader *reader);

/* Prints a CRC-32C in the byte order of digests in headers: the most significant byte first. */
void flmem_push_print_crc32c(uint32_t crc32c, unsigned char out[4]);

/* Waits until the thread is idle, and discards what it has read. */
void flmem_push_reader_idle(struct flmem_push_reader *reader);

/* Continues the checksum of the bytes before span[0] up to span[1], by reading the file. */
int flmem_push_reader_sum(struct flmem_push_reader *reader, struct flmem_exchange_client *client,
			  const struct flmem_push_file *file, const uint64_t span[2],
			  uint32_t *crc32c, struct flmem_error *err);

#endif
