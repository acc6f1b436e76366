/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the threads beside a connection of a client: one reads chunks ahead, one writes received
 * data.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes/crc32c.h"
#include "base/cleanup.h"
#include "base/files/io.h"
#include "ops/exchange/client/client_reader.h"
#include "ops/exchange/client/client_writer.h"

#define BYTES ((size_t)5000000)
#define CHUNK ((size_t)70001)

static char data[BYTES];
static char path[] = "/tmp/test_exchange_pipeline.XXXXXX";

static int make_data(void **state)
{
	FLMEM_AUTO_CLOSE int fd = mkstemp(path);

	(void)state;
	for (size_t i = 0; i < BYTES; i++)
		data[i] = (char)(i * i >> 7);
	return fd < 0 || flmem_io_write_all(fd, data, BYTES);
}

static int remove_data(void **state)
{
	(void)state;
	return unlink(path);
}

static int open_reader(struct flmem_push_reader *reader, struct flmem_push_files *files)
{
	int rc = flmem_push_files_list(path, files, NULL);

	if (!rc)
		rc = flmem_push_file_open(files, &files->files[0], NULL);
	return rc ? rc : flmem_push_reader_init(reader, CHUNK, NULL);
}

static void read_and_compare(struct flmem_push_reader *reader, const struct flmem_push_file *file,
			     uint64_t at, size_t bytes)
{
	const struct flmem_push_chunk *chunk;

	assert_int_equal(flmem_push_reader_get(reader, file, at, bytes, &chunk, NULL), 0);
	assert_memory_equal(chunk->data, data + at, bytes);
	assert_int_equal(chunk->crc32c, flmem_crc32c(0, data + at, bytes));
}

static void chunks_are_those_that_were_asked_for(void **state)
{
	struct flmem_push_files files = FLMEM_PUSH_FILES_INIT;
	struct flmem_push_reader reader = {0};

	(void)state;
	assert_int_equal(open_reader(&reader, &files), 0);
	for (uint64_t at = 0; at < BYTES; at += CHUNK) {
		read_and_compare(&reader, &files.files[0], at,
				 BYTES - at < CHUNK ? (size_t)(BYTES - at) : CHUNK);
		if (at % 3)
			flmem_push_reader_ahead(&reader);
	}
	/* Reads out of order, and in other sizes. */
	read_and_compare(&reader, &files.files[0], 3, CHUNK);
	flmem_push_reader_ahead(&reader);
	read_and_compare(&reader, &files.files[0], 3, CHUNK);
	flmem_push_reader_ahead(&reader);
	read_and_compare(&reader, &files.files[0], 3 + CHUNK, 1);
	flmem_push_reader_idle(&reader);
	read_and_compare(&reader, &files.files[0], 4 + CHUNK, CHUNK - 1);
	flmem_push_reader_clear(&reader);
	flmem_push_files_clear(&files);
}

static void the_next_chunk_is_read_when_that_is_asked_for(void **state)
{
	struct flmem_push_files files = FLMEM_PUSH_FILES_INIT;
	struct flmem_push_reader reader = {0};
	const struct flmem_push_chunk *chunk;

	(void)state;
	assert_int_equal(open_reader(&reader, &files), 0);
	flmem_push_reader_ahead(&reader);
	assert_false(reader.wanted);
	read_and_compare(&reader, &files.files[0], 0, CHUNK);
	assert_false(reader.wanted);
	flmem_push_reader_ahead(&reader);
	pthread_mutex_lock(&reader.lock);
	while (reader.wanted)
		pthread_cond_wait(&reader.changed, &reader.lock);
	chunk = &reader.chunks[1 - reader.current];
	assert_ptr_equal(chunk->file, &files.files[0]);
	assert_int_equal(chunk->offset, CHUNK);
	assert_memory_equal(chunk->data, data + CHUNK, CHUNK);
	pthread_mutex_unlock(&reader.lock);
	flmem_push_reader_clear(&reader);
	flmem_push_files_clear(&files);
}

static void a_file_that_changes_is_noticed(void **state)
{
	struct flmem_push_files files = FLMEM_PUSH_FILES_INIT;
	struct flmem_push_reader reader = {0};
	const struct flmem_push_chunk *chunk;

	(void)state;
	assert_int_equal(open_reader(&reader, &files), 0);
	read_and_compare(&reader, &files.files[0], 0, CHUNK);
	flmem_push_reader_ahead(&reader);
	flmem_push_reader_idle(&reader);
	assert_int_equal(truncate(path, (off_t)BYTES - 1), 0);
	assert_int_equal(
		flmem_push_reader_get(&reader, &files.files[0], CHUNK, CHUNK, &chunk, NULL),
		FLMEM_EUSAGE);
	flmem_push_reader_clear(&reader);
	flmem_push_files_clear(&files);
}

static void what_arrives_is_written_and_digested(void **state)
{
	char name[] = "/tmp/test_exchange_pipeline.XXXXXX";
	FLMEM_AUTO_CLOSE int fd = mkstemp(name);
	FLMEM_AUTO_FREE char *back = malloc(BYTES);
	struct flmem_digest digest = {.kind = FLMEM_DIGEST_CRC32C};
	struct flmem_pull_writer *writer = NULL;
	size_t at = 7, some;

	(void)state;
	assert_non_null(back);
	assert_int_equal(ftruncate(fd, (off_t)at), 0); /* removes the earlier data */
	assert_int_equal(flmem_pull_writer_open(fd, at, &digest, &writer, NULL), 0);
	for (size_t i = 1; at < BYTES; at += some, i = i * 5 % 65537) {
		some = BYTES - at < i * 40 ? BYTES - at : i * 40;
		assert_int_equal(flmem_pull_writer_add(writer, data + at, some), 0);
	}
	assert_int_equal(flmem_pull_writer_close(writer), 0);
	assert_int_equal(digest.crc32c, flmem_crc32c(0, data + 7, BYTES - 7));
	assert_true(flmem_io_read_at(fd, 7, back, BYTES - 7));
	assert_memory_equal(back, data + 7, BYTES - 7);
	unlink(name);
}

static void a_failure_to_write_is_reported(void **state)
{
	FLMEM_AUTO_CLOSE int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct flmem_digest digest = {.kind = FLMEM_DIGEST_CRC32C};
	struct flmem_pull_writer *writer = NULL;
	int error = 0;

	(void)state;
	assert_int_equal(flmem_pull_writer_open(fd, 0, &digest, &writer, NULL), 0);
	/* More than both blocks, so that it is not kept for later. */
	for (size_t at = 0; at < BYTES && !error; at += CHUNK)
		error = flmem_pull_writer_add(writer, data, CHUNK);
	assert_int_equal(error, EBADF);
	assert_int_equal(flmem_pull_writer_close(writer), EBADF);
	assert_int_equal(flmem_pull_writer_close(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_are_those_that_were_asked_for),
		cmocka_unit_test(what_arrives_is_written_and_digested),
		cmocka_unit_test(a_failure_to_write_is_reported),
		cmocka_unit_test(the_next_chunk_is_read_when_that_is_asked_for),
		cmocka_unit_test(a_file_that_changes_is_noticed),
	};

	return cmocka_run_group_tests(tests, make_data, remove_data);
}
