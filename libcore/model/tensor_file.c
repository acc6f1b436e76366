/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tensor_file.h"

#include <string.h>

#include "base/files/io.h"
#include "base/text/text.h"
#include "model/checkpoint_tensors.h"
#include "model/npz.h"

const char *flmem_tensor_format_name(enum flmem_tensor_format format)
{
	static const char *const names[] = {
		[FLMEM_FORMAT_SAFETENSORS] = "safetensors",
		[FLMEM_FORMAT_CHECKPOINT] = "PyTorch checkpoint",
		[FLMEM_FORMAT_NPZ] = "NumPy archive",
	};

	return names[format];
}

void flmem_tensor_file_clear(struct flmem_tensor_file *file)
{
	flmem_archive_clear(&file->archive);
}

static bool is_checkpoint_name(const char *path)
{
	static const char *const suffixes[] = {".pt", ".pth", ".bin", ".ckpt"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(suffixes); i++)
		if (flmem_text_ends(path, suffixes[i]))
			return true;
	return false;
}

/*
 * Reports whether the file begins as an archive does: with a local header, whose next four bytes
 * are not all 0. In a safetensors file that begins with the same four bytes the next ones are 0, as
 * they belong to the length of its header.
 */
static bool is_archive(const char start[8])
{
	return memcmp(start, "PK\3\4", 4) == 0 && memcmp(start + 4, "\0\0\0\0", 4) != 0;
}

/* Recognises an empty archive: it has only the end record, with a comment of limited length. */
static bool is_empty_archive(const struct flmem_source *source, const char start[8])
{
	uint64_t bytes;

	return memcmp(start, "PK\5\6", 4) == 0 && flmem_source_size(source, &bytes) == 0 &&
	       bytes <= 22 + UINT16_MAX;
}

static int read_archive(const struct flmem_source *source, const char *path, const char *key,
			struct flmem_tensor_file *file, struct flmem_tensor_list *ret_list,
			struct flmem_error *err)
{
	bool found;
	int rc = flmem_archive_list(source, path, &file->archive, &found, err);

	if (rc)
		return rc;
	if (!found)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is an archive without a directory: it is truncated",
				       path);
	rc = flmem_archive_check(source, path, &file->archive, err);
	if (rc) {
		flmem_archive_clear(&file->archive);
		return rc;
	}
	file->format = flmem_npz_is(&file->archive) ? FLMEM_FORMAT_NPZ : FLMEM_FORMAT_CHECKPOINT;
	if (file->format == FLMEM_FORMAT_NPZ)
		return flmem_npz_read(source, path, &file->archive, ret_list, err);
	return flmem_checkpoint_read(source, path, &file->archive, key, ret_list, err);
}

int flmem_tensor_file_read(const struct flmem_source *source, const char *path, const char *key,
			   struct flmem_tensor_file *file, struct flmem_tensor_list *ret_list,
			   struct flmem_error *err)
{
	char start[8];

	if (flmem_source_read_at(source, 0, start, sizeof(start))) {
		if (is_archive(start))
			return flmem_source_end(
				source, path, read_archive(source, path, key, file, ret_list, err),
				err);
		if (is_empty_archive(source, start))
			return flmem_error_set(
				err, FLMEM_EUSAGE, 0,
				"'%s' is an archive without files: it has no tensors", path);
		if (start[0] == '\x80' && start[1] >= 2 && start[1] <= 5 &&
		    is_checkpoint_name(path))
			return flmem_error_set(
				err, FLMEM_EUSAGE, 0,
				"'%s' is a PyTorch checkpoint of the format before version 1.6, "
				"one pickle; load and save it with a newer PyTorch",
				path);
	}
	file->format = FLMEM_FORMAT_SAFETENSORS;
	return flmem_safetensors_read(source, path, ret_list, err);
}
