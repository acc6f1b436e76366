/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/journal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes/crc32c.h"
#include "base/files/io.h"

#define MAGIC UINT64_C(0x314a41454d4c46) /* "FLMEAJ1", little-endian */

/* The head and each record have 16 bytes. `check` is the CRC-32C of the fields before it. */
struct journal_head {
	uint64_t magic, fingerprint;
};

struct journal_record {
	uint64_t chunk;
	uint32_t crc32c;
	uint32_t check;
};

#define RECORDS_AT_ONCE 256U

/* Bit that marks a number of flmem_journal_mark(); no chunk has such a number. */
#define MARK (UINT64_C(1) << 63)

static uint32_t check_of(const struct journal_record *record)
{
	return flmem_crc32c(0, record, offsetof(struct journal_record, check));
}

static bool read_head(int fd, uint64_t fingerprint)
{
	struct journal_head head;

	return flmem_io_read_at(fd, 0, &head, sizeof(head)) && head.magic == MAGIC &&
	       head.fingerprint == fingerprint;
}

int flmem_journal_is_own(int fd, bool *ret_own)
{
	struct stat status;
	uint64_t magic = 0;

	if (fstat(fd, &status) < 0)
		return -errno;
	errno = 0; /* a short read at the end of the file is not a failure */
	*ret_own = !status.st_size || flmem_io_read_at(fd, 0, &magic, sizeof(magic));
	if (!*ret_own)
		return -errno;
	/* A head of zeros is an own one that a failed disk or a power cut has lost. */
	*ret_own = !status.st_size || magic == MAGIC ||
		   (!magic && status.st_size == (off_t)sizeof(struct journal_head));
	return 0;
}

bool flmem_journal_read(int fd, uint64_t fingerprint, struct flmem_journal_chunk *chunks,
			size_t count)
{
	struct journal_record records[RECORDS_AT_ONCE];
	off_t at = sizeof(struct journal_head);
	ssize_t got;

	if (!read_head(fd, fingerprint))
		return false;
	while ((got = pread(fd, records, sizeof(records), at)) >= (ssize_t)sizeof(records[0])) {
		size_t whole = (size_t)got / sizeof(records[0]);

		for (size_t i = 0; i < whole; i++)
			if (records[i].chunk < count && records[i].check == check_of(&records[i]))
				chunks[records[i].chunk] = (struct flmem_journal_chunk){
					.crc32c = records[i].crc32c,
					.done = true,
				};
		at += (off_t)(whole * sizeof(records[0]));
	}
	/* Cut off a partly written record, which would shift later ones. */
	return ftruncate(fd, at) == 0;
}

int flmem_journal_start(int fd, uint64_t fingerprint)
{
	const struct journal_head head = {.magic = MAGIC, .fingerprint = fingerprint};

	if (ftruncate(fd, 0) < 0)
		return -errno;
	return flmem_io_write_all(fd, &head, sizeof(head));
}

int flmem_journal_append(int fd, uint64_t chunk, uint32_t crc32c)
{
	struct journal_record record = {.chunk = chunk, .crc32c = crc32c};

	record.check = check_of(&record);
	return flmem_io_write_all(fd, &record, sizeof(record));
}

int flmem_journal_mark(int fd, uint64_t number)
{
	return flmem_journal_append(fd, MARK | number, 0);
}

bool flmem_journal_has_mark(int fd, uint64_t number)
{
	struct journal_record record;
	uint64_t magic;

	return flmem_io_read_at(fd, 0, &magic, sizeof(magic)) && magic == MAGIC &&
	       flmem_io_read_at(fd, sizeof(struct journal_head), &record, sizeof(record)) &&
	       record.chunk == (MARK | number) && record.check == check_of(&record);
}
