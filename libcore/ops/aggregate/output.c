/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes/crc32.h"
#include "base/bytes/crc32c.h"
#include "base/bytes/little_endian.h"
#include "base/files/file_place.h"
#include "base/text/text.h"
#include "ops/aggregate/output_shards.h"

#define BLOCK_BYTES (256U << 10)

void flmem_output_clear(struct flmem_output *output)
{
	if (output->shards)
		flmem_output_shards_free(FLMEM_TAKE(output->shards), output->part);
	if (output->part)
		flmem_part_file_clear(output->part);
	free(output->map.offsets);
	free(output->map.file_of);
	free(output->texts);
	free(output->entries);
	free(output->block);
	flmem_buf_clear(&output->text);
}

static const struct suffix {
	const char *text;
	enum flmem_tensor_format format;
} suffixes[] = {
	{".safetensors", FLMEM_FORMAT_SAFETENSORS}, {".pt", FLMEM_FORMAT_CHECKPOINT},
	{".pth", FLMEM_FORMAT_CHECKPOINT},	    {".bin", FLMEM_FORMAT_CHECKPOINT},
	{".ckpt", FLMEM_FORMAT_CHECKPOINT},	    {".npz", FLMEM_FORMAT_NPZ},
};

static const struct suffix *find_suffix(const char *path)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(suffixes); i++)
		if (flmem_text_ends(path, suffixes[i].text))
			return &suffixes[i];
	return NULL;
}

enum flmem_tensor_format flmem_output_format(const char *path)
{
	const struct suffix *suffix = find_suffix(path);

	return suffix ? suffix->format : FLMEM_FORMAT_SAFETENSORS;
}

size_t flmem_output_suffix_length(const char *path)
{
	const struct suffix *suffix = find_suffix(path);

	return suffix ? strlen(suffix->text) : 0;
}

/* Refuses a suffix of another format, which would mislead readers of the file. */
static int check_suffix(const char *path, struct flmem_error *err)
{
	static const char *const others[] = {".npy", ".tar",  ".gz",   ".zip", ".h5",
					     ".pkl", ".gguf", ".onnx", ".json"};

	if (strcmp(path, "-") == 0)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "a model is not written to standard output; name a file");
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(others); i++)
		if (flmem_text_ends(path, others[i]))
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "'%s': no format that can be written has the suffix "
					       "%s; use .safetensors, .pt, .pth, .bin, .ckpt or "
					       ".npz",
					       path, others[i]);
	return 0;
}

static int plan_safetensors(struct flmem_output *output, struct flmem_error *err)
{
	const struct flmem_layout *layout = output->layout;

	for (size_t i = 0; i < layout->list.count; i++)
		if (strcmp(layout->order[i]->name, "__metadata__") == 0)
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "'%s' cannot have a tensor '__metadata__', a name "
					       "that the format reserves",
					       output->path);
	if (layout->header.length > FLMEM_SAFETENSORS_HEAD_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "the names in '%s' would exceed the 100 MB that readers of "
				       "the format accept",
				       output->path);
	output->map.data_offset = output->layout->header.length;
	output->bytes = output->layout->header.length + flmem_layout_bytes(output->layout);
	return 0;
}

/*
 * Returns true if the output would replace the input's file. A symbolic link as output is itself
 * replaced, and of a file with several names only one is.
 */
static bool would_replace(const struct stat *output, const struct flmem_input *input)
{
	for (size_t i = 0; i < input->file_count; i++)
		if (input->files[i].fd >= 0 && flmem_file_is_same(&input->files[i].status, output))
			return true;
	return false;
}

int flmem_output_check_inputs(const char *path, const struct flmem_input *inputs, size_t count,
			      struct flmem_error *err)
{
	struct stat output;

	if (lstat(path, &output) < 0 || output.st_nlink > 1)
		return 0;
	for (size_t i = 0; i < count; i++)
		if (would_replace(&output, &inputs[i]))
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "'%s' is both input and output, so the input would "
					       "be lost; name another output",
					       path);
	return 0;
}

int flmem_output_plan(struct flmem_output *output, const struct flmem_layout *layout,
		      const struct flmem_input *inputs, size_t count, struct flmem_error *err)
{
	int rc;

	output->layout = layout;
	output->map.path = output->path;
	output->map.files = &output->file;
	output->map.file_count = 1;
	output->file.path = (char *)output->path; /* the path is for messages */
	output->format = flmem_output_format(output->path);
	rc = check_suffix(output->path, err);
	if (rc)
		return rc;
	if (output->shard_bytes)
		return flmem_output_plan_shards(output, err);
	switch (output->format) {
	case FLMEM_FORMAT_SAFETENSORS:
		break;
	case FLMEM_FORMAT_CHECKPOINT:
		return flmem_output_plan_checkpoint(output, inputs, count, err);
	case FLMEM_FORMAT_NPZ:
		return flmem_output_plan_npz(output, err);
	}
	return plan_safetensors(output, err);
}

int flmem_output_write(const struct flmem_output *output, uint64_t begin, uint64_t end,
		       const char *bytes, struct flmem_error *err)
{
	const struct flmem_layout *layout = output->layout;
	size_t tensor = output->map.offsets ? flmem_layout_find(layout, begin) : 0;
	int rc = 0;

	while (begin < end && !rc) {
		struct flmem_input_piece piece =
			flmem_input_piece(&output->map, layout, begin, end, &tensor);

		rc = flmem_part_file_write_other(output->part, piece.file->fd, piece.offset, bytes,
						 (size_t)piece.bytes, err);
		bytes += piece.bytes;
		begin += piece.bytes;
	}
	return rc;
}

bool flmem_output_read(const struct flmem_output *output, uint64_t begin, uint64_t end, char *out)
{
	return flmem_input_read(&output->map, output->layout, begin, end, out, NULL) == 0;
}

int flmem_output_open(struct flmem_output *output, struct flmem_error *err)
{
	int rc;

	if (output->shards)
		return flmem_output_open_shards(output, err);
	rc = flmem_part_file_open(output->part, output->path, err);
	output->file.fd = output->part->fd;
	return rc;
}

int flmem_output_prepare(struct flmem_output *output, uint64_t fingerprint,
			 struct flmem_journal_chunk *chunks, size_t count, struct flmem_error *err)
{
	if (output->shards)
		return flmem_output_prepare_shards(output, fingerprint, chunks, count, err);
	return flmem_part_file_prepare(output->part, output->bytes, fingerprint, chunks, count,
				       err);
}

int flmem_output_join(struct flmem_output *output, uint64_t begin, uint64_t end, uint64_t mark,
		      struct flmem_error *err)
{
	int rc;

	if (output->shards)
		return flmem_output_join_shards(output, begin, end, mark, err);
	rc = flmem_part_file_join(output->part, output->path, output->bytes, mark, err);
	output->file.fd = output->part->fd;
	return rc;
}

uint64_t flmem_output_nearest_shard(const struct flmem_output *output, uint64_t at)
{
	return output->shards ? flmem_output_shards_nearest(output, at) : at;
}

int flmem_output_flush(const struct flmem_output *output, struct flmem_error *err)
{
	if (output->shards)
		return flmem_output_flush_shards(output, err);
	return fdatasync(output->part->fd) < 0
		       ? flmem_part_file_report_unflushed(output->part, errno, err)
		       : 0;
}

int flmem_output_commit(struct flmem_output *output, struct flmem_error *err)
{
	return output->shards ? flmem_output_commit_shards(output, err)
			      : flmem_part_file_commit(output->part, err);
}

/*
 * Calls `act` for the places of bytes [begin, end): for each of them in shards, in a single file
 * once for the range that covers all. Returns the last errno of `act`.
 */
static int for_places(const struct flmem_output *output, uint64_t begin, uint64_t end,
		      int (*act)(int fd, off_t offset, off_t bytes))
{
	const struct flmem_layout *layout = output->layout;
	size_t tensor = output->map.offsets ? flmem_layout_find(layout, begin) : 0;
	uint64_t first = UINT64_MAX, last = 0;
	int error = 0;

	while (begin < end) {
		struct flmem_input_piece piece =
			flmem_input_piece(&output->map, layout, begin, end, &tensor);
		uint64_t piece_end = piece.offset + piece.bytes;

		if (output->shards)
			error = act(piece.file->fd, (off_t)piece.offset, (off_t)piece.bytes)
					?: error;
		first = piece.offset < first ? piece.offset : first;
		last = piece_end > last ? piece_end : last;
		begin += piece.bytes;
	}
	if (!output->shards && last > first)
		error = act(output->file.fd, (off_t)first, (off_t)(last - first));
	return error;
}

static int push_range(int fd, off_t offset, off_t bytes)
{
	sync_file_range(fd, offset, bytes, SYNC_FILE_RANGE_WRITE);
	return 0;
}

static int drop_range(int fd, off_t offset, off_t bytes)
{
	int error = sync_file_range(fd, offset, bytes,
				    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
					    SYNC_FILE_RANGE_WAIT_AFTER) < 0
			    ? errno
			    : 0;

	posix_fadvise(fd, offset, bytes, POSIX_FADV_DONTNEED);
	/* Sandboxes lack sync_file_range(); then only the flush at the end waits for the disk. */
	return error == ENOSYS || error == EPERM || error == EINVAL ? 0 : error;
}

void flmem_output_push(const struct flmem_output *output, uint64_t begin, uint64_t end)
{
	for_places(output, begin, end, push_range);
}

/*
 * The kernel reports a failed write to a descriptor only once: here, and not again at the last
 * flush.
 */
int flmem_output_drop(const struct flmem_output *output, uint64_t begin, uint64_t end,
		      struct flmem_error *err)
{
	int error = for_places(output, begin, end, drop_range);

	return error ? flmem_part_file_report_unflushed(output->part, error, err) : 0;
}

/* Copies bytes of the source to the same place of the output. */
static int copy_bytes(const struct flmem_output *output, uint64_t begin, uint64_t end,
		      struct flmem_error *err)
{
	int rc = 0;

	for (uint64_t at = begin, bytes; at < end && !rc; at += bytes) {
		bytes = end - at < BLOCK_BYTES ? end - at : BLOCK_BYTES;
		rc = flmem_input_file_read(&output->source->files[0], at, bytes, output->block,
					   err);
		if (!rc)
			rc = flmem_part_file_write(output->part, at, output->block, (size_t)bytes,
						   err);
	}
	return rc;
}

struct output_range {
	uint64_t begin, end;
};

static int compare_range(const void *a, const void *b)
{
	const struct output_range *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Copies all bytes of the source that are not of a tensor of the layout. */
static int copy_rest(const struct flmem_output *output, struct flmem_error *err)
{
	size_t count = output->layout->list.count;
	FLMEM_AUTO_FREE struct output_range *ranges = calloc(count + 1, sizeof(*ranges));
	uint64_t at = 0;
	int rc = 0;

	if (!ranges)
		return flmem_error_nomem(err, "cannot write '%s'", output->path);
	for (size_t i = 0; i < count; i++)
		ranges[i] = (struct output_range){
			output->map.offsets[i],
			output->map.offsets[i] + output->layout->order[i]->bytes,
		};
	qsort(ranges, count, sizeof(*ranges), compare_range);
	for (size_t i = 0; i < count && !rc; i++) {
		rc = copy_bytes(output, at, ranges[i].begin, err);
		at = at > ranges[i].end ? at : ranges[i].end;
	}
	return rc ? rc : copy_bytes(output, at, output->bytes, err);
}

static int write_texts(const struct flmem_output *output, struct flmem_error *err)
{
	const struct flmem_buf *header = &output->layout->header;
	int rc = 0;

	if (output->shards)
		return flmem_output_write_headers(output, err);
	if (output->format == FLMEM_FORMAT_SAFETENSORS)
		return flmem_part_file_write(output->part, 0, header->data, header->length, err);
	for (size_t i = 0; i < output->text_count && !rc; i++)
		rc = flmem_part_file_write(output->part, output->texts[i].offset,
					   output->text.data + output->texts[i].at,
					   output->texts[i].bytes, err);
	return rc;
}

/* Reads bytes of the output back and adds them to checksums; `crc32` may be NULL. */
static int sum_bytes(const struct flmem_output *output, uint64_t begin, uint64_t end,
		     uint32_t *crc32, uint32_t *crc32c, struct flmem_error *err)
{
	for (uint64_t at = begin, bytes; at < end; at += bytes) {
		int rc;

		bytes = end - at < BLOCK_BYTES ? end - at : BLOCK_BYTES;
		rc = flmem_input_file_read(&output->file, at, bytes, output->block, err);
		if (rc)
			return rc;
		if (crc32)
			*crc32 = flmem_crc32(*crc32, output->block, (size_t)bytes);
		*crc32c = flmem_crc32c(*crc32c, output->block, (size_t)bytes);
	}
	return 0;
}

static int sum_entry(const struct flmem_output *output, struct flmem_output_entry *entry,
		     struct flmem_error *err)
{
	char crc[4];
	int rc;

	entry->crc32 = entry->crc32c = 0;
	rc = sum_bytes(output, entry->offset, entry->offset + entry->bytes, &entry->crc32,
		       &entry->crc32c, err);
	flmem_write_little(crc, entry->crc32, sizeof(crc));
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(entry->places) && !rc; i++)
		if (entry->places[i])
			rc = flmem_part_file_write(output->part, entry->places[i], crc, sizeof(crc),
						   err);
	return rc;
}

/*
 * Computes the checksums of an archive. Those of its entries must be in the file before the rest of
 * it is read.
 */
static int sum_archive(struct flmem_output *output, struct flmem_error *err)
{
	uint64_t at = 0;
	int rc = 0;

	for (size_t i = 0; i < output->entry_count && !rc; i++)
		rc = sum_entry(output, &output->entries[i], err);
	output->crc32c = 0;
	for (size_t i = 0; i < output->entry_count && !rc; i++) {
		const struct flmem_output_entry *entry = &output->entries[i];

		rc = sum_bytes(output, at, entry->offset, NULL, &output->crc32c, err);
		output->crc32c = flmem_crc32c_join(output->crc32c, entry->crc32c, entry->bytes);
		at = entry->offset + entry->bytes;
	}
	return rc ? rc : sum_bytes(output, at, output->bytes, NULL, &output->crc32c, err);
}

int flmem_output_finish(struct flmem_output *output, struct flmem_error *err)
{
	int rc;

	output->block = malloc(BLOCK_BYTES);
	if (!output->block)
		return flmem_error_nomem(err, "cannot write '%s'", output->path);
	rc = output->source ? copy_rest(output, err) : write_texts(output, err);
	if (!rc && output->format != FLMEM_FORMAT_SAFETENSORS)
		rc = sum_archive(output, err);
	return rc;
}
