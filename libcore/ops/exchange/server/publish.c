/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/text/text.h"
#include "exchange/valid_names.h"
#include "model/shards.h"
#include "ops/aggregate/generated.h"
#include "ops/aggregate/output.h"

#define FILES_MAX	(FLMEM_SHARDS_MAX + 1U)
#define GENERATED_BLOCK (UINT64_C(256) << 10)

const struct flmem_published *flmem_published_find(const struct flmem_exchange *x, uint64_t round)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(x->published); i++)
		if (x->published[i].valid && x->published[i].round == round)
			return &x->published[i];
	return NULL;
}

void flmem_published_clear(struct flmem_exchange *x)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(x->published); i++)
		free(x->published[i].files);
	memset(x->published, 0, sizeof(x->published));
}

/* Makes a model the newest one. */
static void push_published(struct flmem_exchange *x, struct flmem_published published)
{
	struct flmem_published *last = &x->published[FLMEM_ARRAY_SIZE(x->published) - 1];

	free(last->files);
	memmove(x->published + 1, x->published, sizeof(x->published) - sizeof(*last));
	x->published[0] = published;
}

static void print_published_index(const struct flmem_published *published, struct flmem_buf *text)
{
	char hex[FLMEM_SHA256_HEX];

	for (size_t i = 0; i < published->count; i++) {
		const struct flmem_published_file *file = &published->files[i];

		flmem_hex_print(file->sha256, sizeof(file->sha256), hex);
		flmem_buf_printf(text, "%s %" PRIu64 " %s\n", file->name, file->bytes, hex);
	}
}

static bool parse_published_line(char *line, struct flmem_published_file *file)
{
	char *name = strsep(&line, " "), *bytes = strsep(&line, " ");
	const char *number = bytes;

	if (!bytes || !line || !flmem_exchange_file_name_is_valid(name) ||
	    !flmem_text_read_digits(&number, &file->bytes) || *number ||
	    strlen(line) != FLMEM_SHA256_HEX - 1 ||
	    !flmem_hex_read(line, file->sha256, sizeof(file->sha256)))
		return false;
	memcpy(file->name, name, strlen(name) + 1);
	return true;
}

/*
 * Reads the index of a round. Returns 0 or -errno; -ENOENT if the round is not published, -EINVAL
 * if the index is damaged. A model has at least one file.
 */
static int read_published_index(const struct flmem_exchange *x, uint64_t round,
				struct flmem_published *ret_published)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_published published = {.round = round, .valid = true};
	char name[40], *rest, *line;
	int rc;

	snprintf(name, sizeof(name), "%" PRIu64 "/index", round);
	rc = flmem_spool_read(x->spool.rounds, name, &text);
	if (rc)
		return rc;
	published.files = calloc(FILES_MAX, sizeof(*published.files));
	if (!published.files)
		return -ENOMEM;
	for (rest = text.data; (line = strsep(&rest, "\n")) && *line;)
		if (published.count == FILES_MAX ||
		    !parse_published_line(line, &published.files[published.count++])) {
			free(published.files);
			return -EINVAL;
		}
	if (!published.count || !line || rest) {
		free(published.files);
		return -EINVAL;
	}
	*ret_published = published;
	return 0;
}

static int write_index(const struct flmem_exchange *x, const struct flmem_published *published,
		       struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	FLMEM_AUTO_CLOSE int round = flmem_spool_open_round(&x->spool, published->round);
	int rc = round < 0 ? round : 0;

	print_published_index(published, &text);
	if (!rc)
		rc = text.failed ? -ENOMEM
				 : flmem_spool_write(round, "index", text.data, text.length);
	if (!rc)
		rc = flmem_file_place_sync(x->spool.rounds);
	return rc ? flmem_error_set(err, FLMEM_EFAILED, -rc,
				    "cannot write '%s/rounds/%" PRIu64 "/index'", x->spool.path,
				    published->round)
		  : 0;
}

/* Opens a file of the initial model at its owner's path. */
static int open_source(const struct flmem_exchange *x, const char *name)
{
	FLMEM_AUTO_FREE char *path = NULL;
	int fd;

	if (!x->shard_bytes)
		path = strdup(x->model.files[0].path);
	else if (asprintf(&path, "%s/%s", x->model.path, name) < 0)
		path = NULL;
	if (!path)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* Opens a file of a round's model. Returns a descriptor or -errno. */
static int open_model_file(const struct flmem_exchange *x, uint64_t round, const char *name)
{
	FLMEM_AUTO_CLOSE int directory = -1;
	char path[40];

	if (!round)
		return open_source(x, name);
	snprintf(path, sizeof(path), "%" PRIu64 "/model", round);
	directory = openat(x->spool.rounds, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return directory < 0 ? -errno : flmem_spool_open_file(directory, name, O_RDONLY);
}

/*
 * Returns true if a file of the initial model has changed. It is served in place, and a changed
 * file would not have its entity tag.
 */
static bool is_changed_source(const struct flmem_exchange *x, const char *name,
			      const struct stat *now)
{
	for (size_t i = 0; i < x->model.file_count; i++) {
		const struct flmem_input_file *file = &x->model.files[i];

		if (x->shard_bytes && strcmp(flmem_text_basename(file->path), name) != 0)
			continue;
		return !flmem_file_is_same(now, &file->status) ||
		       now->st_mtim.tv_sec != file->status.st_mtim.tv_sec ||
		       now->st_mtim.tv_nsec != file->status.st_mtim.tv_nsec;
	}
	return false;
}

/* Returns the generated model if the round is that of a generated initial model, else NULL. */
static const struct flmem_generated *generated_model(const struct flmem_exchange *x, uint64_t round)
{
	return round ? NULL : x->model.files[0].generated;
}

int flmem_published_open(struct flmem_exchange *x, uint64_t round, const char *name,
			 struct flmem_published_source *ret_source, struct flmem_error *err)
{
	const struct flmem_generated *generated = generated_model(x, round);
	const struct flmem_published *published;
	struct flmem_published_file file = {0};
	struct stat status;
	int fd = -1;

	pthread_mutex_lock(&x->lock);
	published = flmem_published_find(x, round);
	for (size_t i = 0; published && i < published->count; i++)
		if (strcmp(published->files[i].name, name) == 0)
			file = published->files[i];
	/*
	 * Open with the lock held: the oldest round is removed even if the next one cannot be
	 * published.
	 */
	if (*file.name && !generated)
		fd = open_model_file(x, round, name);
	pthread_mutex_unlock(&x->lock);
	if (!*file.name)
		return flmem_error_set(err, published ? FLMEM_EUSAGE : FLMEM_ENOPROC, 0,
				       "not found");
	if (generated) {
		*ret_source = (struct flmem_published_source){file, -1, generated};
		return 0;
	}
	if (fd < 0)
		return flmem_error_set(err, FLMEM_EFAILED, -fd, "cannot read the model");
	if (fstat(fd, &status) < 0 || (uint64_t)status.st_size != file.bytes ||
	    (!round && is_changed_source(x, name, &status))) {
		close(fd);
		return flmem_error_set(err, FLMEM_EFAILED, 0, "the model changed on the server");
	}
	*ret_source = (struct flmem_published_source){file, fd, NULL};
	return 0;
}

int flmem_published_check_base(const struct flmem_exchange *x, struct flmem_error *err)
{
	for (size_t i = 0; i < x->model.file_count && !x->round; i++) {
		const struct flmem_input_file *file = &x->model.files[i];
		struct stat now;
		bool is_there;

		if (file->generated)
			continue;
		is_there = stat(file->path, &now) == 0;
		if (!is_there && flmem_code_of_open(errno) == FLMEM_EFAILED)
			return flmem_error_set(err, FLMEM_EFAILED, errno,
					       "cannot examine the initial model '%s'",
					       flmem_text_basename(file->path));
		if (!is_there || is_changed_source(x, flmem_text_basename(file->path), &now))
			return flmem_error_set(
				err, FLMEM_EFAILED, 0,
				"the initial model '%s' changed while it was served; "
				"restore it, or begin again with another --state",
				flmem_text_basename(file->path));
	}
	return 0;
}

static bool is_stopped(const struct flmem_exchange *x)
{
	struct pollfd stop = {.fd = x->options->stop, .events = POLLIN};

	return poll(&stop, 1, 0) > 0;
}

/* Digests a generated model, by generating all of it once. */
static int digest_generated(const struct flmem_exchange *x, const char *name,
			    struct flmem_published_file *file, struct flmem_error *err)
{
	const struct flmem_generated *generated = x->model.files[0].generated;
	FLMEM_AUTO_FREE char *block = malloc(GENERATED_BLOCK);
	struct flmem_digest digest = {0};
	int rc = block ? flmem_digest_begin(&digest, FLMEM_DIGEST_SHA256, err)
		       : flmem_error_nomem(err, "cannot publish the model");

	memcpy(file->name, name, strlen(name) + 1);
	file->bytes = flmem_generated_size(generated);
	for (uint64_t at = 0, some; at < file->bytes && !rc; at += some) {
		some = file->bytes - at < GENERATED_BLOCK ? file->bytes - at : GENERATED_BLOCK;
		flmem_generated_read(generated, at, some, block);
		flmem_digest_add(&digest, block, some);
		if (is_stopped(x))
			rc = flmem_error_set(err, FLMEM_EFAILED, 0,
					     "stopped before the SHA-256 of '%s' was known",
					     x->options->model);
	}
	flmem_digest_end(&digest, rc ? NULL : file->sha256);
	return rc;
}

static int digest_file(const struct flmem_exchange *x, uint64_t round, const char *name,
		       struct flmem_published_file *file, struct flmem_error *err)
{
	bool generated = generated_model(x, round);
	FLMEM_AUTO_CLOSE int fd = generated ? -1 : open_model_file(x, round, name);
	struct stat status;

	if (generated)
		return digest_generated(x, name, file, err);
	if (fd < 0 || fstat(fd, &status) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, fd < 0 ? -fd : errno,
				       "cannot read the model '%s'", name);
	if (!flmem_exchange_file_name_is_valid(name))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%.80s' cannot be published: names are 1 to 64 of A-Z a-z "
				       "0-9 . _ -, no dot first",
				       name);
	memcpy(file->name, name, strlen(name) + 1);
	file->bytes = (uint64_t)status.st_size;
	return flmem_digest_file(fd, name, file->sha256, err);
}

/* Digests all files of a model for its index. */
static int digest_model(const struct flmem_exchange *x, const struct flmem_input *model,
			struct flmem_published *published, struct flmem_error *err)
{
	size_t count = model->file_count;
	int rc = 0;

	published->files = calloc(count + 1, sizeof(*published->files));
	if (!published->files)
		return flmem_error_nomem(err, "cannot publish the model");
	for (size_t i = 0; i < count && !rc; i++)
		rc = digest_file(x, published->round,
				 x->shard_bytes ? flmem_text_basename(model->files[i].path)
						: x->model_name,
				 &published->files[published->count++], err);
	if (!rc && x->shard_bytes)
		rc = digest_file(x, published->round, FLMEM_SHARDS_INDEX,
				 &published->files[published->count++], err);
	return rc;
}

/* Returns a description of the first difference, or NULL. */
static const char *compare_published(const struct flmem_published *a,
				     const struct flmem_published *b)
{
	if (a->count != b->count)
		return "another number of files";
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->files[i].name, b->files[i].name) != 0)
			return "another file name";
	for (size_t i = 0; i < a->count; i++)
		if (a->files[i].bytes != b->files[i].bytes ||
		    memcmp(a->files[i].sha256, b->files[i].sha256, FLMEM_SHA256_BYTES) != 0)
			return "other bytes";
	return NULL;
}

static int report_unread_index(const struct flmem_exchange *x, uint64_t round, int rc,
			       struct flmem_error *err)
{
	if (rc == -EINVAL)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "'%s/rounds/%" PRIu64 "/index' is damaged, which lists the "
				       "files of the model; restore it, or name another --state",
				       x->spool.path, round);
	return flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot read '%s/rounds/%" PRIu64 "/index'",
			       x->spool.path, round);
}

int flmem_published_begin(struct flmem_exchange *x, struct flmem_error *err)
{
	struct flmem_published first = {.valid = true}, before = {0};
	int rc = digest_model(x, &x->model, &first, err);
	const char *differs;

	if (!rc) {
		rc = read_published_index(x, 0, &before);
		differs = rc ? "the list of its files is damaged"
			     : compare_published(&first, &before);
		if (rc == -ENOENT)
			rc = write_index(x, &first, err);
		else if (rc && rc != -EINVAL)
			rc = report_unread_index(x, 0, rc, err);
		else if (differs)
			rc = flmem_error_set(err, FLMEM_EUSAGE, 0,
					     "'%s' has changed since '%s' began with it (%s); "
					     "restore it, or name another --state",
					     x->options->model, x->spool.path, differs);
	}
	free(before.files);
	free(first.files);
	return rc;
}

static void measure_first_model(struct flmem_exchange *x)
{
	const struct flmem_input *model = &x->model;
	const char *name = flmem_text_basename(model->files[0].path);
	char index[] = FLMEM_SHARDS_INDEX;
	uint64_t largest = 0;

	for (size_t i = 0; i < model->file_count; i++) {
		uint64_t bytes = (uint64_t)model->files[i].status.st_size;

		x->model_bytes += bytes;
		largest = bytes > largest ? bytes : largest;
	}
	/* A folder may have a single file without an index. */
	if (strcmp(model->files[0].path, model->path) != 0) {
		FLMEM_AUTO_CLOSE int fd = open(model->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		x->shard_bytes = faccessat(fd, index, F_OK, 0) == 0 ? largest : 0;
	}
	if (!flmem_exchange_file_name_is_valid(name))
		name = "model.safetensors";
	memcpy(x->model_name, name, strlen(name) + 1);
	x->needs_checkpoint =
		!x->shard_bytes && flmem_output_format(x->model_name) == FLMEM_FORMAT_CHECKPOINT;
}

int flmem_published_read(struct flmem_exchange *x, struct flmem_error *err)
{
	const char *path = x->options->model;
	int rc;

	x->model.key = x->options->aggregate.key;
	rc = flmem_inputs_open(&path, 1, &x->model, &x->layout, err);
	if (!rc && x->model.files[0].fd < 0 && !x->model.files[0].generated)
		rc = flmem_error_set(err, FLMEM_EUSAGE, 0,
				     "'%s' is not a file; write the model to one", path);
	if (rc)
		return flmem_error_prefix(err, rc, "--model");
	measure_first_model(x);
	return 0;
}

char *flmem_published_path(const struct flmem_exchange *x, uint64_t round)
{
	char *path;

	if (!round)
		return strdup(x->options->model);
	if (asprintf(&path, "%s/rounds/%" PRIu64 "/model%s%s", x->spool.path, round,
		     x->shard_bytes ? "" : "/", x->shard_bytes ? "" : x->model_name) < 0)
		return NULL;
	return path;
}

int flmem_published_add(struct flmem_exchange *x, uint64_t round, struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *path = flmem_published_path(x, round);
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	struct flmem_published published = {.round = round, .valid = true};
	struct flmem_input model = {.key = x->options->aggregate.key};
	int rc = path ? flmem_input_load(path, &model, &list, err)
		      : flmem_error_nomem(err, "cannot publish a model");

	if (!rc)
		rc = digest_model(x, &model, &published, err);
	if (!rc)
		rc = write_index(x, &published, err);
	flmem_inputs_clear(&model, 1);
	if (rc) {
		free(published.files);
		return rc;
	}
	pthread_mutex_lock(&x->lock);
	push_published(x, published);
	pthread_mutex_unlock(&x->lock);
	return 0;
}

/* Raises *newest to the round named `name`, if that is published. Returns 0 or -errno. */
static int find_newer(const struct flmem_exchange *x, const char *name, uint64_t *newest)
{
	char index[40];
	uint64_t round;

	if (!flmem_text_read_digits(&name, &round) || *name || round <= *newest)
		return 0;
	snprintf(index, sizeof(index), "%" PRIu64 "/index", round);
	if (faccessat(x->spool.rounds, index, F_OK, 0) < 0)
		return errno == ENOENT ? 0 : -errno;
	*newest = round;
	return 0;
}

int flmem_published_newest(const struct flmem_exchange *x, uint64_t *ret_newest,
			   struct flmem_error *err)
{
	FLMEM_AUTO_DIR DIR *list = flmem_io_open_dir(x->spool.rounds, ".");
	int rc = list ? 0 : -errno;

	*ret_newest = 0;
	while (!rc) {
		const struct dirent *entry;

		errno = 0;
		entry = readdir(list);
		if (!entry) {
			rc = -errno;
			break;
		}
		rc = find_newer(x, entry->d_name, ret_newest);
	}
	return rc ? flmem_error_set(err, FLMEM_EFAILED, -rc, "cannot list '%s/rounds'",
				    x->spool.path)
		  : 0;
}

/*
 * Checks the files at the start: otherwise each request for a file that was cut or removed would be
 * answered with 500.
 */
static int check_published(const struct flmem_exchange *x, const struct flmem_published *published,
			   struct flmem_error *err)
{
	for (size_t i = 0; i < published->count; i++) {
		const struct flmem_published_file *file = &published->files[i];
		FLMEM_AUTO_CLOSE int fd = open_model_file(x, published->round, file->name);
		struct stat status;

		if (fd < 0 && flmem_code_of_open(-fd) != FLMEM_EUSAGE)
			return flmem_error_set(err, FLMEM_EFAILED, -fd,
					       "cannot read '%s/rounds/%" PRIu64 "/model/%s'",
					       x->spool.path, published->round, file->name);
		if (fd < 0 || fstat(fd, &status) < 0 || (uint64_t)status.st_size != file->bytes)
			return flmem_error_set(err, FLMEM_EFAILED, fd < 0 ? -fd : 0,
					       "'%s/rounds/%" PRIu64
					       "/model/%s' is not the file that was published; "
					       "restore it, or name another --state",
					       x->spool.path, published->round, file->name);
	}
	return 0;
}

int flmem_published_load(struct flmem_exchange *x, uint64_t newest, struct flmem_error *err)
{
	uint64_t first = newest + 1 < FLMEM_EXCHANGE_KEPT_ROUNDS
				 ? 0
				 : newest + 1 - FLMEM_EXCHANGE_KEPT_ROUNDS;

	for (uint64_t round = first; round <= newest; round++) {
		struct flmem_published published;
		int rc = read_published_index(x, round, &published);

		if (rc)
			return report_unread_index(x, round, rc, err);
		push_published(x, published);
	}
	return newest ? check_published(x, &x->published[0], err) : 0;
}
