/* SPDX-License-Identifier: Apache-2.0 */
#include "model/shards.h"

#include <stdlib.h>
#include <string.h>

#include "base/files/io.h"
#include "base/text/text.h"
#include "model/json_scan.h"

#define INDEX_BYTES_MAX (100U << 20) /* the limit of the header of one file */

void flmem_shards_clear(struct flmem_shards *shards)
{
	free(shards->entries);
	free(shards->files);
	flmem_buf_clear(&shards->text);
	*shards = (struct flmem_shards)FLMEM_SHARDS_INIT;
}

static int invalid_index(const char *index, const char *why, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' %s", index, why);
}

/* Rejects names with a folder: the format allows paths, but not outside of its folder. */
static bool is_plain_name(const char *name)
{
	return *name != '.' && !strchr(name, '/') && flmem_text_ends(name, ".safetensors");
}

static bool add_shard_entry(struct flmem_shards *shards, const char *tensor, const char *file)
{
	if (shards->count == shards->room) {
		size_t room = shards->room ? shards->room * 2 : 64;
		void *larger = reallocarray(shards->entries, room, sizeof(*shards->entries));

		if (!larger)
			return false;
		shards->entries = larger;
		shards->room = room;
	}
	shards->entries[shards->count++] =
		(struct flmem_shard_entry){.tensor = tensor, .file = file};
	return true;
}

static int read_weight_map(struct flmem_json_scan *scan, const char *index,
			   struct flmem_shards *shards, struct flmem_error *err)
{
	const char *tensor, *file;

	if (shards->count)
		return invalid_index(index, "has two maps of weights", err);
	if (!flmem_json_scan_expect(scan, '{'))
		return invalid_index(index, scan->why, err);
	if (flmem_json_scan_take(scan, '}'))
		return 0;
	do {
		if (!flmem_json_scan_string(scan, &tensor) || !flmem_json_scan_expect(scan, ':') ||
		    !flmem_json_scan_string(scan, &file))
			return invalid_index(index, scan->why, err);
		if (!is_plain_name(file))
			return invalid_index(index, "names a shard outside of its folder", err);
		if (!add_shard_entry(shards, tensor, file))
			return flmem_error_nomem(err, "cannot read '%s'", index);
	} while (flmem_json_scan_take(scan, ','));
	return flmem_json_scan_expect(scan, '}') ? 0 : invalid_index(index, scan->why, err);
}

static int read_index(struct flmem_json_scan *scan, const char *index, struct flmem_shards *shards,
		      struct flmem_error *err)
{
	const char *key;

	if (!flmem_json_scan_expect(scan, '{'))
		return invalid_index(index, scan->why, err);
	if (flmem_json_scan_take(scan, '}'))
		return 0;
	do {
		if (!flmem_json_scan_string(scan, &key) || !flmem_json_scan_expect(scan, ':'))
			return invalid_index(index, scan->why, err);
		if (strcmp(key, "weight_map") == 0) {
			int rc = read_weight_map(scan, index, shards, err);

			if (rc)
				return rc;
		} else if (!flmem_json_scan_skip(scan)) {
			return invalid_index(index, scan->why, err);
		}
	} while (flmem_json_scan_take(scan, ','));
	if (!flmem_json_scan_expect(scan, '}') || !flmem_json_scan_ends(scan))
		return invalid_index(index, scan->why, err);
	return 0;
}

static int compare_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int compare_to_text(const void *key, const void *element)
{
	return strcmp(key, *(const char *const *)element);
}

/* Lists each file once and numbers the files. */
static int list_files(const char *index, struct flmem_shards *shards, struct flmem_error *err)
{
	size_t kept = 0;

	if (!shards->count)
		return invalid_index(index, "names no shards", err);
	shards->files = calloc(shards->count, sizeof(*shards->files));
	if (!shards->files)
		return flmem_error_nomem(err, "cannot read '%s'", index);
	for (size_t i = 0; i < shards->count; i++)
		shards->files[i] = shards->entries[i].file;
	qsort(shards->files, shards->count, sizeof(*shards->files), compare_text);
	for (size_t i = 0; i < shards->count; i++)
		if (!kept || strcmp(shards->files[kept - 1], shards->files[i]) != 0)
			shards->files[kept++] = shards->files[i];
	if (kept > FLMEM_SHARDS_MAX)
		return invalid_index(index, "names more than 10000 shards", err);
	shards->file_count = kept;
	for (size_t i = 0; i < shards->count; i++) {
		const char **file = bsearch(shards->entries[i].file, shards->files, kept,
					    sizeof(*shards->files), compare_to_text);

		shards->entries[i].shard = (uint32_t)(file - shards->files);
	}
	return 0;
}

int flmem_shards_parse(const char *index, struct flmem_shards *shards, struct flmem_error *err)
{
	struct flmem_json_scan scan;
	int rc;

	if (flmem_text_utf8_length(shards->text.data) != shards->text.length)
		return invalid_index(index, "is not UTF-8 text", err);
	flmem_json_scan_begin(&scan, shards->text.data, shards->text.length);
	rc = read_index(&scan, index, shards, err);
	return rc ? rc : list_files(index, shards, err);
}

int flmem_shards_read(int dirfd, const char *folder, struct flmem_shards *ret_shards,
		      struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf index = FLMEM_BUF_INIT;
	int rc = flmem_io_read_file_at(dirfd, FLMEM_SHARDS_INDEX, INDEX_BYTES_MAX,
				       &ret_shards->text);

	if (rc)
		return flmem_error_set(err, flmem_code_of_open(-rc), -rc,
				       "cannot read '%s/" FLMEM_SHARDS_INDEX "'", folder);
	flmem_buf_printf(&index, "%s/" FLMEM_SHARDS_INDEX, folder);
	if (index.failed)
		return flmem_error_nomem(err, "cannot read the index of '%s'", folder);
	return flmem_shards_parse(index.data, ret_shards, err);
}
