/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PyTorch checkpoint is a zip archive whose entries "<name>/data/<number>" are the storages of
 * its tensors, uncompressed. Its directory contains their sizes; types and shapes are in a pickle,
 * which is not read here (checkpoint_tensors.c). Checkpoints from before PyTorch 1.6 are one
 * pickle, nearly as large as their tensors.
 */
#include "model/checkpoint_tensors.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/io.h"
#include "model/archive.h"

static int damaged_checkpoint(const char *path, const char *why, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is not a valid PyTorch archive: %s",
			       path, why);
}

static bool is_storage(const char *name)
{
	static const char folder[] = "/data/";
	const char *at = strstr(name, folder);

	if (!at || !at[sizeof(folder) - 1])
		return false;
	at += sizeof(folder) - 1;
	return at[strspn(at, "0123456789")] == '\0';
}

static int sum_entries(const struct flmem_archive *archive, const char *path,
		       struct flmem_tensors *sum, struct flmem_error *err)
{
	for (size_t i = 0; i < archive->count; i++) {
		const struct flmem_archive_entry *entry = &archive->entries[i];

		if (!is_storage(entry->name))
			continue;
		if (entry->method != 0 || entry->bytes > archive->end - sum->bytes)
			return damaged_checkpoint(
				path, "a tensor is compressed, or larger than the file", err);
		sum->bytes += entry->bytes;
		sum->count++;
		if (entry->bytes > sum->largest_bytes)
			sum->largest_bytes = entry->bytes;
	}
	return 0;
}

int flmem_checkpoint_add_archive(const char *path, const struct flmem_archive *archive,
				 struct flmem_tensors *tensors, struct flmem_error *err)
{
	struct flmem_tensors sum = {0};
	int rc = sum_entries(archive, path, &sum, err);

	if (!rc && !sum.count)
		rc = damaged_checkpoint(path, "it has no tensors", err);
	if (!rc && __builtin_add_overflow(tensors->bytes, sum.bytes, &tensors->bytes))
		rc = damaged_checkpoint(path, "it exceeds the memory of any machine", err);
	if (rc)
		return rc;
	tensors->count += sum.count;
	if (sum.largest_bytes > tensors->largest_bytes)
		tensors->largest_bytes = sum.largest_bytes;
	return 0;
}

/* Adds a checkpoint that is one pickle, which begins with its protocol, 2 or later. */
static int add_pickle(int fd, const char *path, uint64_t file_bytes, struct flmem_tensors *tensors,
		      struct flmem_error *err)
{
	unsigned char start[2];

	if (!flmem_io_read_at(fd, 0, start, sizeof(start)) || start[0] != 0x80 || start[1] < 2 ||
	    start[1] > 5)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is not a PyTorch checkpoint, or is truncated", path);
	if (__builtin_add_overflow(tensors->bytes, file_bytes, &tensors->bytes))
		return damaged_checkpoint(path, "it exceeds the memory of any machine", err);
	tensors->listed = false;
	return 0;
}

int flmem_checkpoint_add(int fd, const char *path, struct flmem_tensors *tensors,
			 struct flmem_error *err)
{
	FLMEM_AUTO_ARCHIVE struct flmem_archive archive = {0};
	struct stat status;
	bool found;
	int rc;

	if (fstat(fd, &status) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot read '%s'", path);
	tensors->counted = false; /* the types are in the pickle, which is not read */
	rc = flmem_archive_list(FLMEM_SOURCE_FD(fd), path, &archive, &found, err);
	if (rc)
		return rc;
	return found ? flmem_checkpoint_add_archive(path, &archive, tensors, err)
		     : add_pickle(fd, path, (uint64_t)status.st_size, tensors, err);
}
