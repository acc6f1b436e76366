/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the journal of an unfinished aggregation, and its checksums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aggregate/journal.h"
#include "base/bytes/crc32c.h"
#include "base/cleanup.h"

#define CHUNKS 8U

static int make_file(void)
{
	char path[] = "/tmp/flmem-journal-XXXXXX";
	int fd = mkostemp(path, O_APPEND | O_CLOEXEC);

	assert_true(fd >= 0);
	unlink(path);
	return fd;
}

static void checksums_are_those_of_the_rfc(void **state)
{
	static const char digits[] = "123456789";
	unsigned char bytes[32];

	(void)state;
	assert_int_equal(flmem_crc32c(0, digits, 9), 0xe3069283);
	assert_int_equal(flmem_crc32c(flmem_crc32c(0, digits, 4), digits + 4, 5), 0xe3069283);
	memset(bytes, 0, sizeof(bytes)); /* RFC 3720, B.4 */
	assert_int_equal(flmem_crc32c(0, bytes, sizeof(bytes)), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(flmem_crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43);
}

static void checksums_of_pieces_are_joined(void **state)
{
	char bytes[1000];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7 + i / 13);
	for (size_t cut = 0; cut <= sizeof(bytes); cut += 41)
		assert_int_equal(
			flmem_crc32c_join(flmem_crc32c(0, bytes, cut),
					  flmem_crc32c(0, bytes + cut, sizeof(bytes) - cut),
					  sizeof(bytes) - cut),
			flmem_crc32c(0, bytes, sizeof(bytes)));
}

/*
 * The lengths are around those at which the processor's instructions begin, with every alignment.
 */
static void instructions_agree_with_the_portable_checksum(void **state)
{
	static char bytes[40000];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * i >> 3);
	for (size_t length = 0; length + 8 < sizeof(bytes); length += length < 64 ? 1 : 1229)
		for (size_t shift = 0; shift < 8; shift++)
			assert_int_equal(
				flmem_crc32c((uint32_t)length, bytes + shift, length),
				flmem_crc32c_portable((uint32_t)length, bytes + shift, length));
}

static void records_are_read_back(void **state)
{
	FLMEM_AUTO_CLOSE int fd = make_file();
	struct flmem_journal_chunk chunks[CHUNKS] = {0};

	(void)state;
	assert_int_equal(flmem_journal_start(fd, 77), 0);
	assert_int_equal(flmem_journal_append(fd, 3, 0x1234), 0);
	assert_int_equal(flmem_journal_append(fd, 7, 5), 0);
	assert_int_equal(flmem_journal_append(fd, CHUNKS, 5), 0);
	assert_int_equal(flmem_journal_append(fd, UINT64_MAX, 5), 0);
	assert_false(flmem_journal_read(fd, 78, chunks, CHUNKS));
	assert_false(chunks[3].done);
	assert_true(flmem_journal_read(fd, 77, chunks, CHUNKS));
	for (size_t i = 0; i < CHUNKS; i++)
		assert_int_equal(chunks[i].done, i == 3 || i == 7);
	assert_int_equal(chunks[3].crc32c, 0x1234);
	assert_int_equal(flmem_journal_start(fd, 77), 0);
	memset(chunks, 0, sizeof(chunks));
	assert_true(flmem_journal_read(fd, 77, chunks, CHUNKS));
	assert_false(chunks[3].done);
}

static void damaged_and_torn_records_are_skipped(void **state)
{
	FLMEM_AUTO_CLOSE int fd = make_file();
	struct flmem_journal_chunk chunks[CHUNKS] = {0};

	(void)state;
	assert_int_equal(flmem_journal_start(fd, 77), 0);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(flmem_journal_append(fd, i, 9), 0);
	/* On Linux, pwrite() to a file open with O_APPEND appends: pwrite(2). */
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	assert_int_equal(pwrite(fd, "x", 1, 16 + 16 + 8), 1);
	assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
	assert_int_equal(write(fd, "torn", 4), 4);
	assert_true(flmem_journal_read(fd, 77, chunks, CHUNKS));
	assert_false(chunks[1].done);
	assert_true(chunks[0].done && chunks[2].done && chunks[3].done);
	assert_int_equal(flmem_journal_append(fd, 5, 9), 0);
	assert_true(flmem_journal_read(fd, 77, chunks, CHUNKS));
	assert_true(chunks[5].done);
}

static void an_empty_or_foreign_file_is_no_journal(void **state)
{
	FLMEM_AUTO_CLOSE int fd = make_file();
	struct flmem_journal_chunk chunks[CHUNKS] = {0};

	(void)state;
	assert_false(flmem_journal_read(fd, 0, chunks, CHUNKS));
	assert_int_equal(write(fd, "0123456789abcdef0123456789abcdef", 32), 32);
	assert_false(flmem_journal_read(fd, 0, chunks, CHUNKS));
}

static void a_mark_is_known_and_is_no_chunk(void **state)
{
	FLMEM_AUTO_CLOSE int fd = make_file();
	struct flmem_journal_chunk chunks[CHUNKS] = {0};

	(void)state;
	assert_false(flmem_journal_has_mark(fd, 3));
	assert_int_equal(flmem_journal_start(fd, 77), 0);
	assert_false(flmem_journal_has_mark(fd, 3));
	assert_int_equal(flmem_journal_mark(fd, 3), 0);
	assert_int_equal(flmem_journal_append(fd, 5, 9), 0);
	assert_true(flmem_journal_has_mark(fd, 3));
	assert_false(flmem_journal_has_mark(fd, 2));
	assert_true(flmem_journal_read(fd, 77, chunks, CHUNKS));
	for (size_t i = 0; i < CHUNKS; i++)
		assert_int_equal(chunks[i].done, i == 5);
	assert_int_equal(flmem_journal_start(fd, 77), 0);
	assert_int_equal(flmem_journal_append(fd, 3, 0), 0);
	assert_false(flmem_journal_has_mark(fd, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checksums_are_those_of_the_rfc),
		cmocka_unit_test(checksums_of_pieces_are_joined),
		cmocka_unit_test(instructions_agree_with_the_portable_checksum),
		cmocka_unit_test(records_are_read_back),
		cmocka_unit_test(damaged_and_torn_records_are_skipped),
		cmocka_unit_test(an_empty_or_foreign_file_is_no_journal),
		cmocka_unit_test(a_mark_is_known_and_is_no_chunk),
	};

	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
