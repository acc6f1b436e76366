/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/client/client_reader.h"

#include <stdlib.h>

#include <flmem/exchange_client.h>

#include "base/bytes/crc32c.h"
#include "base/thread.h"

#define SUM_BYTES (256U << 10)

uint32_t flmem_exchange_crc32c(uint32_t crc, const void *bytes, size_t length)
{
	return flmem_crc32c(crc, bytes, length);
}

uint32_t flmem_exchange_crc32c_join(uint32_t first, uint32_t second, uint64_t length)
{
	return flmem_crc32c_join(first, second, length);
}

static void read_push_chunk(struct flmem_push_chunk *chunk)
{
	chunk->why = (struct flmem_error){0};
	chunk->rc = flmem_push_file_read(chunk->file, chunk->offset, chunk->data, chunk->bytes,
					 &chunk->why);
	chunk->crc32c = chunk->rc ? 0 : flmem_crc32c(0, chunk->data, chunk->bytes);
}

void flmem_push_print_crc32c(uint32_t crc32c, unsigned char out[4])
{
	for (unsigned i = 0; i < 4; i++)
		out[i] = (unsigned char)(crc32c >> (24 - 8 * i));
}

static void *run_push_reader(void *context)
{
	struct flmem_push_reader *reader = context;

	/*
	 * Wait: the next chunk is needed only when this one was acknowledged, and reading it must
	 * not delay the sending of this one.
	 */
	flmem_thread_give_way();
	pthread_mutex_lock(&reader->lock);
	while (!reader->ending) {
		if (!reader->wanted) {
			pthread_cond_wait(&reader->changed, &reader->lock);
			continue;
		}
		pthread_mutex_unlock(&reader->lock);
		read_push_chunk(&reader->chunks[1 - reader->current]);
		pthread_mutex_lock(&reader->lock);
		reader->wanted = false;
		pthread_cond_signal(&reader->changed);
	}
	pthread_mutex_unlock(&reader->lock);
	return NULL;
}

int flmem_push_reader_init(struct flmem_push_reader *reader, uint64_t bytes,
			   struct flmem_error *err)
{
	pthread_mutex_init(&reader->lock, NULL);
	pthread_cond_init(&reader->changed, NULL);
	reader->initialised = true;
	for (unsigned i = 0; i < 2; i++) {
		reader->chunks[i].data = malloc((size_t)bytes);
		if (!reader->chunks[i].data)
			return flmem_error_nomem(err, "cannot send a chunk");
	}
	reader->started = flmem_thread_start(&reader->thread, run_push_reader, reader) == 0;
	return 0;
}

void flmem_push_reader_idle(struct flmem_push_reader *reader)
{
	if (!reader->initialised)
		return;
	pthread_mutex_lock(&reader->lock);
	while (reader->wanted)
		pthread_cond_wait(&reader->changed, &reader->lock);
	reader->chunks[0].file = reader->chunks[1].file = NULL;
	pthread_mutex_unlock(&reader->lock);
}

void flmem_push_reader_clear(struct flmem_push_reader *reader)
{
	if (!reader->initialised)
		return;
	flmem_push_reader_idle(reader);
	if (reader->started) {
		pthread_mutex_lock(&reader->lock);
		reader->ending = true;
		pthread_cond_signal(&reader->changed);
		pthread_mutex_unlock(&reader->lock);
		pthread_join(reader->thread, NULL);
	}
	pthread_cond_destroy(&reader->changed);
	pthread_mutex_destroy(&reader->lock);
	free(reader->chunks[0].data);
	free(reader->chunks[1].data);
	*reader = (struct flmem_push_reader){0};
}

/* Reads the likely next request, which has the same size or is the rest. */
void flmem_push_reader_ahead(struct flmem_push_reader *reader)
{
	const struct flmem_push_chunk *chunk = &reader->chunks[reader->current];
	struct flmem_push_chunk *next = &reader->chunks[1 - reader->current];
	uint64_t at = chunk->offset + chunk->bytes, left;

	if (!reader->started || !chunk->file)
		return;
	left = chunk->file->bytes - at;
	pthread_mutex_lock(&reader->lock);
	if (left && !reader->wanted) {
		next->file = chunk->file;
		next->offset = at;
		next->bytes = left < chunk->bytes ? (size_t)left : chunk->bytes;
		reader->wanted = true;
		pthread_cond_signal(&reader->changed);
	}
	pthread_mutex_unlock(&reader->lock);
}

int flmem_push_reader_get(struct flmem_push_reader *reader, const struct flmem_push_file *file,
			  uint64_t offset, size_t bytes, const struct flmem_push_chunk **ret_chunk,
			  struct flmem_error *err)
{
	struct flmem_push_chunk *chunk;

	pthread_mutex_lock(&reader->lock);
	while (reader->wanted)
		pthread_cond_wait(&reader->changed, &reader->lock);
	reader->current = 1 - reader->current;
	reader->chunks[1 - reader->current].file = NULL;
	chunk = &reader->chunks[reader->current];
	if (chunk->file != file || chunk->offset != offset || chunk->bytes != bytes || chunk->rc) {
		chunk->file = file;
		chunk->offset = offset;
		chunk->bytes = bytes;
		read_push_chunk(chunk);
	}
	pthread_mutex_unlock(&reader->lock);
	*ret_chunk = chunk;
	if (chunk->rc && err)
		*err = chunk->why;
	return chunk->rc;
}

int flmem_push_reader_sum(struct flmem_push_reader *reader, struct flmem_exchange_client *client,
			  const struct flmem_push_file *file, const uint64_t span[2],
			  uint32_t *crc32c, struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *block = malloc(SUM_BYTES);
	int rc = block ? 0 : flmem_error_nomem(err, "cannot read '%s'", file->path);

	flmem_push_reader_idle(reader);
	for (uint64_t at = span[0], some; at < span[1] && !rc; at += some) {
		some = span[1] - at < SUM_BYTES ? span[1] - at : SUM_BYTES;
		rc = flmem_push_file_read(file, at, block, (size_t)some, err);
		if (!rc)
			*crc32c = flmem_crc32c(*crc32c, block, (size_t)some);
		if (!rc && !flmem_exchange_client_continues(client))
			rc = flmem_error_set(err, FLMEM_EFAILED, 0, "stopped while '%s' was read",
					     file->path);
	}
	return rc;
}
