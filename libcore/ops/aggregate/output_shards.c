/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/output_shards.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/io.h"
#include "base/text/text.h"
#include "model/shards.h"

/* Limit of files: each is open while the output is written. */
#define FILES_MAX      500U
#define NAME_MAX_BYTES 64U

struct shard {
	char name[NAME_MAX_BYTES];
	size_t first, count; /* range of tensors, in the order of the layout */
	uint64_t bytes;
	struct flmem_buf header;
};

struct flmem_output_shards {
	struct shard *rows;
	struct flmem_input_file *files;
	size_t count;
	struct flmem_buf index;
	/* This call named the index; until the rename the folder does not have its final name. */
	bool index_named;
	/* Folder, its unfinished name, and the path of the index in the latter. */
	char *folder, *unfinished, *index_path;
	struct flmem_file_place place; /* place of the folder */
};

static void clear_files(struct flmem_output_shards *shards)
{
	for (size_t i = 0; i < shards->count; i++) {
		if (shards->files)
			flmem_cleanup_close(&shards->files[i].fd);
		flmem_buf_clear(&shards->rows[i].header);
	}
	free(shards->rows);
	free(shards->files);
}

void flmem_output_shards_free(struct flmem_output_shards *shards, struct flmem_part_file *part)
{
	bool remove = flmem_part_file_is_dropped(part);

	for (size_t i = 0; remove && i < shards->count; i++)
		if (shards->files[i].fd >= 0)
			unlinkat(part->place.directory, shards->rows[i].name, 0);
	if (remove && shards->index_named)
		unlinkat(part->place.directory, FLMEM_SHARDS_INDEX, 0);
	flmem_part_file_clear(part);
	if (remove)
		rmdir(shards->unfinished);
	clear_files(shards);
	flmem_buf_clear(&shards->index);
	flmem_file_place_close(&shards->place);
	free(shards->folder);
	free(shards->unfinished);
	free(shards->index_path);
	free(shards);
}

static int shards_nomem(const struct flmem_output *output, struct flmem_error *err)
{
	return flmem_error_nomem(err, "cannot write '%s'", output->path);
}

/* Cuts the layout: fills each shard with tensors until the next one would not fit. */
static void cut_layout(const struct flmem_output *output, struct shard *rows, size_t *ret_count)
{
	const struct flmem_layout *layout = output->layout;
	size_t count = 0;
	uint64_t has = 0;

	for (size_t t = 0; t < layout->list.count; t++) {
		uint64_t bytes = layout->order[t]->bytes;
		bool fits =
			count && bytes <= output->shard_bytes && has <= output->shard_bytes - bytes;

		if (!fits) {
			has = 0;
			if (rows)
				rows[count].first = t;
			count++;
		}
		has += bytes;
		if (rows)
			rows[count - 1].count++;
	}
	*ret_count = count;
}

static void print_header(const struct flmem_layout *layout, struct shard *shard)
{
	struct flmem_tensor_list some = layout->list;

	some.count = shard->count;
	flmem_buf_init(&shard->header);
	flmem_safetensors_print(&some, layout->order + shard->first, &shard->header);
	shard->bytes = shard->header.length + layout->begins[shard->first + shard->count] -
		       layout->begins[shard->first];
}

static int make_shard_tensors(struct flmem_output *output, struct flmem_output_shards *shards,
			      struct flmem_error *err)
{
	size_t count;

	cut_layout(output, NULL, &count);
	if (!count)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "a model without tensors has no shards; omit --shard-size");
	if (count > FILES_MAX)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0,
			"the output would have %zu shards; at most %u are supported: give "
			"a larger --shard-size",
			count, FILES_MAX);
	shards->rows = calloc(count, sizeof(*shards->rows));
	shards->files = calloc(count, sizeof(*shards->files));
	if (!shards->rows || !shards->files)
		return shards_nomem(output, err);
	shards->count = count;
	cut_layout(output, shards->rows, &count);
	for (size_t i = 0; i < count; i++) {
		struct shard *shard = &shards->rows[i];

		snprintf(shard->name, sizeof(shard->name), "model-%05zu-of-%05zu.safetensors",
			 i + 1, count);
		print_header(output->layout, shard);
		output->bytes += shard->bytes;
		shards->files[i].fd = -1;
		shards->files[i].path = (char *)output->path; /* the path is for messages */
		if (shard->header.failed)
			return shards_nomem(output, err);
		if (shard->header.length > FLMEM_SAFETENSORS_HEAD_MAX)
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "the names in '%s' would exceed the 100 MB that "
					       "readers of the format accept",
					       output->path);
	}
	return 0;
}

static int map_tensors(struct flmem_output *output, const struct flmem_output_shards *shards,
		       struct flmem_error *err)
{
	const struct flmem_layout *layout = output->layout;
	size_t room = layout->list.count + 1;

	output->map.offsets = calloc(room, sizeof(*output->map.offsets));
	output->map.file_of = calloc(room, sizeof(*output->map.file_of));
	if (!output->map.offsets || !output->map.file_of)
		return shards_nomem(output, err);
	for (size_t i = 0; i < shards->count; i++) {
		const struct shard *shard = &shards->rows[i];

		for (size_t t = shard->first; t < shard->first + shard->count; t++) {
			output->map.file_of[t] = (uint32_t)i;
			output->map.offsets[t] = shard->header.length + layout->begins[t] -
						 layout->begins[shard->first];
		}
	}
	output->map.files = shards->files;
	output->map.file_count = shards->count;
	return 0;
}

struct tensor_placement {
	const char *tensor;
	size_t shard;
};

static int compare_named(const void *a, const void *b)
{
	const struct tensor_placement *x = a, *y = b;

	return strcmp(x->tensor, y->tensor);
}

/* Prints the index, sorted by names as that of the transformers package is. */
static int print_index(const struct flmem_output *output, struct flmem_output_shards *shards,
		       struct flmem_error *err)
{
	const struct flmem_layout *layout = output->layout;
	size_t count = layout->list.count;
	FLMEM_AUTO_FREE struct tensor_placement *named = calloc(count + 1, sizeof(*named));

	if (!named)
		return shards_nomem(output, err);
	for (size_t t = 0; t < count; t++)
		named[t] =
			(struct tensor_placement){layout->order[t]->name, output->map.file_of[t]};
	qsort(named, count, sizeof(*named), compare_named);
	flmem_buf_printf(&shards->index,
			 "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n"
			 "  \"weight_map\": {\n",
			 (unsigned long long)flmem_layout_bytes(layout));
	for (size_t t = 0; t < count; t++) {
		flmem_buf_puts(&shards->index, "    ");
		flmem_tensor_text_print(named[t].tensor, &shards->index);
		flmem_buf_printf(&shards->index, ": \"%s\"%s\n", shards->rows[named[t].shard].name,
				 t + 1 < count ? "," : "");
	}
	flmem_buf_puts(&shards->index, "  }\n}\n");
	return shards->index.failed ? shards_nomem(output, err) : 0;
}

static int make_paths(const struct flmem_output *output, struct flmem_output_shards *shards,
		      struct flmem_error *err)
{
	size_t length;

	shards->folder = strdup(output->path);
	if (!shards->folder)
		return shards_nomem(output, err);
	length = strlen(shards->folder);
	while (length > 1 && shards->folder[length - 1] == '/')
		shards->folder[--length] = '\0';
	if (asprintf(&shards->unfinished, "%s.part", shards->folder) < 0)
		shards->unfinished = NULL;
	if (asprintf(&shards->index_path, "%s.part/" FLMEM_SHARDS_INDEX, shards->folder) < 0)
		shards->index_path = NULL;
	return shards->unfinished && shards->index_path ? 0 : shards_nomem(output, err);
}

int flmem_output_plan_shards(struct flmem_output *output, struct flmem_error *err)
{
	struct flmem_output_shards *shards = calloc(1, sizeof(*shards));
	int rc;

	if (!shards)
		return shards_nomem(output, err);
	output->shards = shards;
	shards->place = (struct flmem_file_place)FLMEM_FILE_PLACE_INIT;
	flmem_buf_init(&shards->index);
	if (flmem_output_suffix_length(output->path))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s': shards are a folder of safetensors files; name a "
				       "folder without such a suffix",
				       output->path);
	for (size_t i = 0; i < output->layout->list.count; i++)
		if (strcmp(output->layout->order[i]->name, "__metadata__") == 0)
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "'%s' cannot have a tensor '__metadata__', a name "
					       "that the format reserves",
					       output->path);
	rc = make_paths(output, shards, err);
	if (!rc)
		rc = make_shard_tensors(output, shards, err);
	if (!rc)
		rc = map_tensors(output, shards, err);
	if (!rc)
		rc = print_index(output, shards, err);
	output->bytes += shards->index.length;
	return rc;
}

/*
 * Returns true if the directory is empty, or has only a file of the name `but`; false also if it
 * cannot be listed.
 */
static bool is_empty_but(int directory, const char *name, const char *but)
{
	DIR *list = flmem_io_open_dir(directory, name);
	const struct dirent *entry;
	bool empty = list;

	while (empty && (entry = readdir(list)))
		empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
			strcmp(entry->d_name, but) == 0;
	if (list)
		closedir(list);
	return empty;
}

/*
 * Refuses an existing folder that is not empty: it cannot be exchanged without a moment in which
 * there is no model.
 */
static int check_output_folder(const struct flmem_output_shards *shards, struct flmem_error *err)
{
	struct stat status;
	char *index;

	if (fstatat(shards->place.directory, shards->place.name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : flmem_error_set(err, flmem_code_of_open(errno), errno,
							 "cannot examine '%s'", shards->folder);
	if (S_ISDIR(status.st_mode) &&
	    is_empty_but(shards->place.directory, shards->place.name, ""))
		return 0;
	if (asprintf(&index, "%s/" FLMEM_SHARDS_INDEX, shards->folder) >= 0) {
		flmem_part_file_forget(index);
		free(index);
	}
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' exists and is not an empty folder; name another output",
			       shards->folder);
}

/*
 * Returns true if the unfinished folder has only files that a call leaves before its journal
 * exists. Shards are created later, and a part that was written to has a journal.
 */
static bool is_just_begun(const struct flmem_output_shards *shards)
{
	FLMEM_AUTO_FREE char *part = NULL;
	struct stat status;

	if (asprintf(&part, "%s.part", shards->index_path) < 0)
		part = NULL;
	if (!part || !is_empty_but(AT_FDCWD, shards->unfinished, FLMEM_SHARDS_INDEX ".part"))
		return false;
	return lstat(part, &status) < 0 || (S_ISREG(status.st_mode) && !status.st_size);
}

static int report_just_written(const struct flmem_output_shards *shards, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EFAILED, 0, "another aggregation has just written '%s'",
			       shards->folder);
}

/* Creates the unfinished folder. A folder without a journal may belong to another program. */
static int make_unfinished(const struct flmem_output_shards *shards, struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *journal = NULL;
	struct stat status;

	if (mkdir(shards->unfinished, 0777) == 0)
		return 0;
	if (errno != EEXIST)
		return flmem_error_set(err, flmem_code_of_open(errno), errno, "cannot make '%s'",
				       shards->unfinished);
	if (asprintf(&journal, "%s" FLMEM_PART_FILE_JOURNAL_SUFFIX, shards->index_path) < 0) {
		journal = NULL;
		return flmem_error_nomem(err, "cannot write '%s'", shards->folder);
	}
	/* Test for the journal again: another call may put it into the empty folder meanwhile. */
	if (lstat(shards->unfinished, &status) == 0 && S_ISDIR(status.st_mode) &&
	    status.st_uid == geteuid() &&
	    (access(journal, F_OK) == 0 || is_just_begun(shards) || access(journal, F_OK) == 0))
		return 0;
	if (lstat(shards->unfinished, &status) < 0)
		return errno == ENOENT ? report_just_written(shards, err)
				       : flmem_part_file_report_lost(shards->folder, -errno, err);
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' is not from an unfinished aggregation of this user; remove "
			       "it, or name another output",
			       shards->unfinished);
}

/*
 * Returns 1; 0 if the folder was renamed before it was locked, by a writer that finished, or was
 * moved; a negative errno.
 */
static int is_still_unfinished(const struct flmem_output_shards *shards,
			       const struct flmem_part_file *part)
{
	return flmem_file_place_has_name(part->place.directory, AT_FDCWD, shards->unfinished);
}

int flmem_output_open_shards(struct flmem_output *output, struct flmem_error *err)
{
	struct flmem_output_shards *shards = output->shards;
	int named, rc = flmem_file_place_open(shards->folder, &shards->place);

	if (rc)
		return flmem_part_file_report_place(output->path, rc, err);
	rc = check_output_folder(shards, err);
	if (!rc)
		rc = make_unfinished(shards, err);
	if (!rc)
		rc = flmem_part_file_open(output->part, shards->index_path, err);
	named = rc ? 1 : is_still_unfinished(shards, output->part);
	if (named != 1)
		rc = named ? flmem_part_file_report_lost(shards->folder, named, err)
			   : report_just_written(shards, err);
	if (!rc)
		/* The output folder may have been created since the first check. */
		rc = check_output_folder(shards, err);
	for (size_t i = 0; i < shards->count && !rc; i++)
		rc = flmem_part_file_open_other(output->part, shards->rows[i].name,
						&shards->files[i].fd, err);
	return rc;
}

static uint64_t shard_begin(const struct flmem_output *output, size_t shard)
{
	return output->layout->begins[output->shards->rows[shard].first];
}

uint64_t flmem_output_shards_nearest(const struct flmem_output *output, uint64_t at)
{
	size_t next = 1;
	uint64_t before, after;

	while (next < output->shards->count && shard_begin(output, next) <= at)
		next++;
	before = shard_begin(output, next - 1);
	if (next == output->shards->count)
		return before;
	after = shard_begin(output, next);
	return after - at < at - before ? after : before;
}

int flmem_output_join_shards(struct flmem_output *output, uint64_t begin, uint64_t end,
			     uint64_t mark, struct flmem_error *err)
{
	struct flmem_output_shards *shards = output->shards;
	const uint64_t *begins = output->layout->begins;
	int rc = flmem_part_file_join(output->part, shards->index_path, shards->index.length, mark,
				      err);

	for (size_t i = 0; i < shards->count && !rc; i++) {
		const struct shard *shard = &shards->rows[i];

		if (begins[shard->first] < end && begin < begins[shard->first + shard->count])
			rc = flmem_part_file_join_other(output->part, shard->name, shard->bytes,
							&shards->files[i].fd, err);
	}
	return rc;
}

/* Returns 1 if all files have their sizes, 0 if not, or a negative errno. */
static int have_sizes(const struct flmem_output_shards *shards)
{
	struct stat status;

	for (size_t i = 0; i < shards->count; i++) {
		if (fstat(shards->files[i].fd, &status) < 0)
			return -errno;
		if ((uint64_t)status.st_size != shards->rows[i].bytes)
			return 0;
	}
	return 1;
}

/* Checks the room for all files together, so that the message has what is missing for all. */
static int check_room(const struct flmem_output *output, struct flmem_error *err)
{
	const struct flmem_output_shards *shards = output->shards;
	uint64_t free_bytes;

	if (flmem_io_free_bytes(output->part->fd, &free_bytes) < 0 || output->bytes <= free_bytes)
		return 0;
	return flmem_error_set(err, FLMEM_EFAILED, ENOSPC,
			       "'%s' needs %llu bytes, but its file system is short by %llu",
			       shards->folder, (unsigned long long)output->bytes,
			       (unsigned long long)(output->bytes - free_bytes));
}

/* Returns true for a name of a shard of any model: "model-00001-of-00003.safetensors". */
static bool is_shard_name(const char *name)
{
	static const char pattern[] = "model-#####-of-#####.safetensors";
	size_t i = 0;

	for (; name[i] && pattern[i]; i++)
		if (pattern[i] == '#' ? !isdigit((unsigned char)name[i]) : pattern[i] != name[i])
			return false;
	return name[i] == pattern[i];
}

/*
 * The folder is renamed with all its contents, so remove shards that a killed call had split
 * differently.
 */
static int remove_other_shards(const struct flmem_output_shards *shards,
			       const struct flmem_part_file *part, struct flmem_error *err)
{
	const char *of_count = shards->rows[0].name + strlen("model-00001");
	DIR *list = flmem_io_open_dir(part->place.directory, ".");
	const struct dirent *entry;
	bool removed = list;

	while (removed && (entry = readdir(list)))
		if (is_shard_name(entry->d_name) && !flmem_text_ends(entry->d_name, of_count))
			removed = unlinkat(part->place.directory, entry->d_name, 0) == 0;
	if (!removed)
		flmem_error_set(err, FLMEM_EFAILED, errno, "cannot remove older shards in '%s'",
				shards->unfinished);
	if (list)
		closedir(list);
	return removed ? 0 : FLMEM_EFAILED;
}

int flmem_output_prepare_shards(struct flmem_output *output, uint64_t fingerprint,
				struct flmem_journal_chunk *chunks, size_t count,
				struct flmem_error *err)
{
	struct flmem_output_shards *shards = output->shards;
	struct flmem_part_file *part = output->part;
	bool complete = have_sizes(shards) == 1, left = chunks && part->keep;
	int rc = remove_other_shards(shards, part, err);

	if (rc)
		return rc;
	/*
	 * Write the index again in any case: a crash between its rename and that of the folder
	 * loses it.
	 */
	if (complete && ftruncate(part->fd, (off_t)shards->index.length) < 0)
		complete = false;
	rc = flmem_part_file_prepare(part, shards->index.length, fingerprint,
				     complete ? chunks : NULL, count, err);
	part->restarted = left && !part->resumed;
	if (rc || part->resumed)
		return rc;
	for (size_t i = 0; i < shards->count; i++)
		if (ftruncate(shards->files[i].fd, 0) < 0)
			return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot empty '%s/%s'",
					       shards->unfinished, shards->rows[i].name);
	rc = check_room(output, err);
	for (size_t i = 0; i < shards->count && !rc; i++)
		rc = flmem_part_file_reserve_other(part, shards->files[i].fd, shards->rows[i].bytes,
						   err);
	return rc;
}

int flmem_output_write_headers(const struct flmem_output *output, struct flmem_error *err)
{
	const struct flmem_output_shards *shards = output->shards;
	int rc = 0;

	for (size_t i = 0; i < shards->count && !rc; i++)
		rc = flmem_part_file_write_other(output->part, shards->files[i].fd, 0,
						 shards->rows[i].header.data,
						 shards->rows[i].header.length, err);
	return rc ? rc
		  : flmem_part_file_write(output->part, 0, shards->index.data, shards->index.length,
					  err);
}

int flmem_output_flush_shards(const struct flmem_output *output, struct flmem_error *err)
{
	const struct flmem_output_shards *shards = output->shards;

	for (size_t i = 0; i < shards->count; i++)
		if (shards->files[i].fd >= 0 && fdatasync(shards->files[i].fd) < 0) {
			output->part->unflushed = true;
			return flmem_error_set(err, FLMEM_EFAILED, errno,
					       "cannot flush '%s/%s' to the disk",
					       shards->unfinished, shards->rows[i].name);
		}
	return 0;
}

int flmem_output_commit_shards(struct flmem_output *output, struct flmem_error *err)
{
	struct flmem_output_shards *shards = output->shards;
	struct flmem_part_file *part = output->part;
	int named, rc = flmem_output_flush_shards(output, err), sized = rc ? 1 : have_sizes(shards);

	if (sized != 1)
		rc = sized ? flmem_part_file_report_lost(shards->folder, sized, err)
			   : flmem_part_file_report_cut(shards->folder, err);
	if (!rc)
		rc = flmem_part_file_publish(part, err);
	if (rc)
		return rc;
	shards->index_named = true;
	rc = flmem_file_place_flush(part->place.directory, shards->index_path, err);
	if (rc)
		return rc;
	named = is_still_unfinished(shards, part);
	if (named != 1)
		return flmem_part_file_report_lost(shards->folder, named, err);
	if (rename(shards->unfinished, shards->folder) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot rename '%s'",
				       shards->unfinished);
	shards->index_named = false;
	rc = flmem_part_file_end(part, shards->folder, err);
	return rc ? rc : flmem_file_place_flush(shards->place.directory, shards->folder, err);
}
