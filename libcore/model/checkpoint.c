/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PyTorch checkpoint is a zip archive whose entries "<name>/data/<number>" are the storages of
 * its tensors, uncompressed. Its directory contains their sizes (APPNOTE.TXT 4.3.12 to 4.3.16,
 * 4.5.3); types and shapes are in a pickle, which is not read. Checkpoints from before PyTorch 1.6
 * are one pickle, nearly as large as their tensors.
 */
#include "model/tensors.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/io.h"

#define TAIL_BYTES    65557U /* the end record, with the longest comment */
#define END_BYTES     22U
#define LOCATOR_BYTES 20U
#define END64_BYTES   56U
#define ENTRY_BYTES   46U
#define DIRECTORY_MAX (16U << 20)
#define END_MARK      0x06054b50U
#define LOCATOR_MARK  0x07064b50U
#define END64_MARK    0x06064b50U
#define ENTRY_MARK    0x02014b50U
#define LARGE	      0xffffffffU
#define EXTRA_SIZES   1U /* header of the field with sizes of 64 bits */

static uint64_t read_archive_number(const char *at, size_t bytes)
{
	uint64_t value = 0;

	while (bytes-- > 0)
		value = value << 8 | (unsigned char)at[bytes];
	return value;
}

struct directory {
	uint64_t offset, bytes;
};

static int damaged_archive(const char *path, const char *why, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is not a valid PyTorch archive: %s",
			       path, why);
}

/* Locates the directory when it does not fit 32 bits; `end` is the offset of the end record. */
static bool find_large(int fd, uint64_t end, struct directory *directory)
{
	char locator[LOCATOR_BYTES], record[END64_BYTES];

	if (end < LOCATOR_BYTES ||
	    !flmem_io_read_at(fd, end - LOCATOR_BYTES, locator, sizeof(locator)) ||
	    read_archive_number(locator, 4) != LOCATOR_MARK ||
	    read_archive_number(locator + 8, 8) > end ||
	    !flmem_io_read_at(fd, read_archive_number(locator + 8, 8), record, sizeof(record)) ||
	    read_archive_number(record, 4) != END64_MARK)
		return false;
	directory->bytes = read_archive_number(record + 40, 8);
	directory->offset = read_archive_number(record + 48, 8);
	return true;
}

/* False without an end record: not an archive. */
static bool find_end(int fd, uint64_t file_bytes, struct flmem_buf *tail, uint64_t *ret_end)
{
	size_t length = file_bytes < TAIL_BYTES ? (size_t)file_bytes : TAIL_BYTES;

	if (length < END_BYTES || !flmem_buf_reserve(tail, length) ||
	    !flmem_io_read_at(fd, file_bytes - length, tail->data, length))
		return false;
	for (size_t at = length - END_BYTES + 1; at-- > 0;)
		if (read_archive_number(tail->data + at, 4) == END_MARK) {
			memmove(tail->data, tail->data + at, END_BYTES);
			*ret_end = file_bytes - length + at;
			return true;
		}
	return false;
}

/* The uncompressed size: in the entry, or first in the extra field for large ones. */
static bool entry_size(const char *entry, size_t name_bytes, size_t extra_bytes, uint64_t *ret_size)
{
	const char *extra = entry + ENTRY_BYTES + name_bytes, *end = extra + extra_bytes;

	*ret_size = read_archive_number(entry + 24, 4);
	if (*ret_size != LARGE)
		return true;
	while (end - extra >= 4) {
		size_t length = (size_t)read_archive_number(extra + 2, 2);

		if ((size_t)(end - extra) < 4 + length)
			return false;
		if (read_archive_number(extra, 2) == EXTRA_SIZES && length >= 8) {
			*ret_size = read_archive_number(extra + 4, 8);
			return true;
		}
		extra += 4 + length;
	}
	return false;
}

static bool is_storage(const char *name, size_t length)
{
	static const char folder[] = "/data/";
	const char *at = memmem(name, length, folder, sizeof(folder) - 1);

	if (!at || at + sizeof(folder) - 1 == name + length)
		return false;
	for (at += sizeof(folder) - 1; at < name + length; at++)
		if (*at < '0' || *at > '9')
			return false;
	return true;
}

static int sum_entries(const struct flmem_buf *bytes, const char *path, uint64_t file_bytes,
		       struct flmem_tensors *sum, struct flmem_error *err)
{
	for (size_t at = 0, length; at < bytes->length; at += length) {
		const char *entry = bytes->data + at;
		size_t name, extra, left = bytes->length - at;
		uint64_t size;

		if (left < ENTRY_BYTES || read_archive_number(entry, 4) != ENTRY_MARK)
			return damaged_archive(path, "its directory is damaged", err);
		name = (size_t)read_archive_number(entry + 28, 2);
		extra = (size_t)read_archive_number(entry + 30, 2);
		length = ENTRY_BYTES + name + extra + (size_t)read_archive_number(entry + 32, 2);
		if (length > left || !entry_size(entry, name, extra, &size))
			return damaged_archive(path, "its directory is damaged", err);
		if (!is_storage(entry + ENTRY_BYTES, name))
			continue;
		if (read_archive_number(entry + 10, 2) != 0 || size > file_bytes - sum->bytes)
			return damaged_archive(
				path, "a tensor is compressed, or larger than the file", err);
		sum->bytes += size;
		sum->count++;
		if (size > sum->largest_bytes)
			sum->largest_bytes = size;
	}
	return 0;
}

static int read_directory(int fd, const char *path, const struct directory *directory, uint64_t end,
			  struct flmem_buf *bytes, struct flmem_error *err)
{
	if (directory->offset > end || directory->bytes > end - directory->offset)
		return damaged_archive(path, "its directory starts after its end", err);
	if (directory->bytes > DIRECTORY_MAX)
		return damaged_archive(path, "its directory exceeds the size limit", err);
	if (!flmem_buf_reserve(bytes, (size_t)directory->bytes))
		return flmem_error_nomem(err, "cannot read the directory of '%s'", path);
	if (!flmem_io_read_at(fd, directory->offset, bytes->data, (size_t)directory->bytes))
		return flmem_error_set(err, FLMEM_EFAILED, 0, "'%s' changed while it was read",
				       path);
	bytes->length = (size_t)directory->bytes;
	return 0;
}

static int add_archive(int fd, const char *path, uint64_t end, const struct directory *directory,
		       struct flmem_tensors *tensors, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf bytes = FLMEM_BUF_INIT;
	struct flmem_tensors sum = {0};
	int rc = read_directory(fd, path, directory, end, &bytes, err);

	if (!rc)
		rc = sum_entries(&bytes, path, end, &sum, err);
	if (!rc && !sum.count)
		rc = damaged_archive(path, "it has no tensors", err);
	if (!rc && __builtin_add_overflow(tensors->bytes, sum.bytes, &tensors->bytes))
		rc = damaged_archive(path, "it exceeds the memory of any machine", err);
	if (rc)
		return rc;
	tensors->count += sum.count;
	if (sum.largest_bytes > tensors->largest_bytes)
		tensors->largest_bytes = sum.largest_bytes;
	return 0;
}

/* A pickle begins with its protocol, 2 or later. */
static int add_pickle(int fd, const char *path, uint64_t file_bytes, struct flmem_tensors *tensors,
		      struct flmem_error *err)
{
	unsigned char start[2];

	if (!flmem_io_read_at(fd, 0, start, sizeof(start)) || start[0] != 0x80 || start[1] < 2 ||
	    start[1] > 5)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is not a PyTorch checkpoint, or is truncated", path);
	if (__builtin_add_overflow(tensors->bytes, file_bytes, &tensors->bytes))
		return damaged_archive(path, "it exceeds the memory of any machine", err);
	tensors->listed = false;
	return 0;
}

int flmem_checkpoint_add(int fd, const char *path, struct flmem_tensors *tensors,
			 struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf tail = FLMEM_BUF_INIT;
	struct directory directory;
	uint64_t end = 0, file_bytes;
	struct stat status;

	if (fstat(fd, &status) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot read '%s'", path);
	file_bytes = (uint64_t)status.st_size;
	tensors->counted = false; /* the types are in the pickle */
	if (!find_end(fd, file_bytes, &tail, &end))
		return add_pickle(fd, path, file_bytes, tensors, err);
	directory.bytes = read_archive_number(tail.data + 12, 4);
	directory.offset = read_archive_number(tail.data + 16, 4);
	if ((directory.bytes == LARGE || directory.offset == LARGE) &&
	    !find_large(fd, end, &directory))
		return damaged_archive(path, "its 64-bit directory cannot be found", err);
	return add_archive(fd, path, end, &directory, tensors, err);
}
