/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/client/client_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <flmem/text.h>

#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/text/text.h"
#include "exchange/valid_names.h"
#include "model/shards.h"

#define BLOCK_BYTES (1U << 20)
#define SHOWN_MAX   256

void flmem_push_files_clear(struct flmem_push_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		flmem_push_file_close(&files->files[i]);
		flmem_generated_free(files->files[i].generated);
		free(files->files[i].path);
	}
	free(files->files);
	if (files->directory >= 0)
		close(files->directory);
	*files = (struct flmem_push_files)FLMEM_PUSH_FILES_INIT;
}

void flmem_push_file_close(struct flmem_push_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

static int report_open(const struct flmem_push_file *file, int rc, struct flmem_error *err)
{
	char shown[SHOWN_MAX];

	flmem_text_escape(file->path, shown, sizeof(shown));
	if (rc == -EINVAL)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is not a regular file", shown);
	return flmem_error_set(err, flmem_code_of_open(-rc), -rc, "cannot read '%s'", shown);
}

static bool is_changed(const struct flmem_push_file *file)
{
	struct stat now;

	return fstat(file->fd, &now) || (uint64_t)now.st_size != file->bytes ||
	       now.st_mtim.tv_sec != file->modified.tv_sec ||
	       now.st_mtim.tv_nsec != file->modified.tv_nsec;
}

static int report_push_change(const struct flmem_push_file *file, struct flmem_error *err)
{
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' changed while it was sent; push finished files only",
			       file->path);
}

/* Opens a listed file. */
static int open_listed(const struct flmem_push_files *files, const struct flmem_push_file *file,
		       struct stat *ret_status)
{
	bool shard = files->directory >= 0;

	return flmem_file_place_open_regular(shard ? files->directory : AT_FDCWD,
					     shard ? file->name : file->path, O_RDONLY | O_CLOEXEC,
					     ret_status);
}

static int note_file(struct flmem_push_files *files, struct flmem_push_file *file,
		     struct flmem_error *err)
{
	struct stat status;
	FLMEM_AUTO_CLOSE int fd = open_listed(files, file, &status);

	if (fd < 0)
		return report_open(file, fd, err);
	if (!status.st_size)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is empty", file->path);
	file->bytes = (uint64_t)status.st_size;
	file->modified = status.st_mtim;
	files->bytes += file->bytes;
	return 0;
}

int flmem_push_file_open(const struct flmem_push_files *files, struct flmem_push_file *file,
			 struct flmem_error *err)
{
	struct stat status;

	if (file->generated)
		return 0;
	file->fd = open_listed(files, file, &status);
	if (file->fd < 0)
		return report_open(file, file->fd, err);
	return is_changed(file) ? report_push_change(file, err) : 0;
}

static struct flmem_push_file *add_push_file(struct flmem_push_files *files, char *path)
{
	struct flmem_push_file *file = &files->files[files->count];

	if (!path)
		return NULL;
	*file = (struct flmem_push_file){.fd = -1, .path = path};
	files->count++;
	return file;
}

/*
 * Chooses the name that the server gets: the suffix shows the format; its other characters do not
 * matter.
 */
static void choose_name(const char *name, struct flmem_push_file *file)
{
	const char *dot = strrchr(name, '.');

	if (flmem_exchange_file_name_is_valid(name)) {
		snprintf(file->name, sizeof(file->name), "%s", name);
		return;
	}
	snprintf(file->name, sizeof(file->name), "model%s", dot ?: "");
	if (!flmem_exchange_file_name_is_valid(file->name))
		snprintf(file->name, sizeof(file->name), "model");
}

static int list_single(const char *path, struct flmem_push_files *files, struct flmem_error *err)
{
	struct flmem_push_file *file;

	files->files = calloc(1, sizeof(*files->files));
	file = files->files ? add_push_file(files, strdup(path)) : NULL;
	if (!file)
		return flmem_error_nomem(err, "cannot open '%s'", path);
	choose_name(flmem_text_basename(path), file);
	return note_file(files, file, err);
}

static int list_shard(const char *folder, const char *name, struct flmem_push_files *files,
		      struct flmem_error *err)
{
	struct flmem_push_file *file;
	char *path, shown[SHOWN_MAX];

	if (asprintf(&path, "%s/%s", folder, name) < 0)
		path = NULL;
	file = add_push_file(files, path);
	if (!file)
		return flmem_error_nomem(err, "cannot open '%s'", folder);
	if (!flmem_exchange_file_name_is_valid(name))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "the name of '%s' cannot be sent; expected at most %u of "
				       "the characters A-Z a-z 0-9 . _ -",
				       flmem_text_escape(path, shown, sizeof(shown)),
				       FLMEM_EXCHANGE_NAME_MAX);
	snprintf(file->name, sizeof(file->name), "%s", name);
	return note_file(files, file, err);
}

static int list_shards(const char *folder, struct flmem_push_files *files, struct flmem_error *err)
{
	FLMEM_AUTO_SHARDS struct flmem_shards shards = FLMEM_SHARDS_INIT;
	int rc = flmem_shards_read(files->directory, folder, &shards, err);

	if (rc)
		return rc;
	files->files = calloc(shards.file_count + 1, sizeof(*files->files));
	if (!files->files)
		return flmem_error_nomem(err, "cannot open '%s'", folder);
	for (size_t i = 0; i < shards.file_count && !rc; i++)
		rc = list_shard(folder, shards.files[i], files, err);
	return rc ? rc : list_shard(folder, FLMEM_SHARDS_INDEX, files, err);
}

static int list_generated(const char *name, struct flmem_push_files *files, struct flmem_error *err)
{
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	struct flmem_push_file *file;
	int rc;

	files->files = calloc(1, sizeof(*files->files));
	file = files->files ? add_push_file(files, strdup(name)) : NULL;
	if (!file)
		return flmem_error_nomem(err, "cannot generate '%s'", name);
	rc = flmem_generated_open(name, &file->generated, &list, err);
	if (rc)
		return rc;
	snprintf(file->name, sizeof(file->name), "model.safetensors");
	file->bytes = files->bytes = flmem_generated_size(file->generated);
	return 0;
}

int flmem_push_files_list(const char *path, struct flmem_push_files *ret_files,
			  struct flmem_error *err)
{
	if (flmem_generated_is_name(path))
		return list_generated(path, ret_files, err);
	ret_files->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return ret_files->directory < 0 ? list_single(path, ret_files, err)
					: list_shards(path, ret_files, err);
}

static int digest_push_file(struct flmem_push_file *file, struct flmem_exchange_client *client,
			    char *block, struct flmem_error *err)
{
	unsigned char digest[FLMEM_SHA256_BYTES];
	struct flmem_digest sha = {0};
	int rc = flmem_digest_begin(&sha, FLMEM_DIGEST_SHA256, err);

	for (uint64_t at = 0; at < file->bytes && !rc;) {
		uint64_t left = file->bytes - at;
		size_t some = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;

		rc = flmem_push_file_read(file, at, block, some, err);
		if (rc)
			break;
		flmem_digest_add(&sha, block, some);
		at += some;
		client->progress.done_bytes += some;
		if (!flmem_exchange_client_continues(client))
			rc = flmem_error_set(err, FLMEM_EFAILED, 0, "stopped while '%s' was read",
					     file->path);
	}
	flmem_digest_end(&sha, rc ? NULL : digest);
	if (!rc)
		flmem_hex_print(digest, sizeof(digest), file->sha256);
	return rc;
}

int flmem_push_files_digest(struct flmem_push_files *files, struct flmem_exchange_client *client,
			    struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *block = malloc(BLOCK_BYTES);
	int rc = block ? 0 : flmem_error_nomem(err, "cannot read the model");

	flmem_exchange_client_show(client, files->bytes);
	for (size_t i = 0; i < files->count && !rc; i++) {
		rc = flmem_push_file_open(files, &files->files[i], err);
		if (!rc)
			rc = digest_push_file(&files->files[i], client, block, err);
		flmem_push_file_close(&files->files[i]);
	}
	return rc;
}

int flmem_push_file_read(const struct flmem_push_file *file, uint64_t offset, char *out,
			 size_t bytes, struct flmem_error *err)
{
	bool got;

	if (file->generated) {
		flmem_generated_read(file->generated, offset, bytes, out);
		return 0;
	}
	got = flmem_io_read_at(file->fd, offset, out, bytes);
	if (is_changed(file))
		return report_push_change(file, err);
	return got ? 0 : flmem_error_set(err, FLMEM_EFAILED, errno, "cannot read '%s'", file->path);
}
