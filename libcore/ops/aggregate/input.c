/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/input.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/url.h"
#include "model/shards.h"
#include "net/http.h"
#include "ops/aggregate/generated.h"
#include "ops/aggregate/input_direct.h"
#include "ops/aggregate/remote.h"

#define SHOWN_MAX 100U
#define ONE_FILE  "model.safetensors"

void flmem_inputs_clear(struct flmem_input *inputs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		for (size_t f = 0; f < inputs[i].file_count; f++) {
			flmem_cleanup_close(&inputs[i].files[f].fd);
			flmem_direct_close(inputs[i].files[f].direct);
			flmem_generated_free(inputs[i].files[f].generated);
			flmem_http_file_close(inputs[i].files[f].remote);
			free(inputs[i].files[f].path);
		}
		free(inputs[i].files);
		free(inputs[i].offsets);
		free(inputs[i].file_of);
		free(inputs[i].shown);
		flmem_http_close(inputs[i].http);
		flmem_tensor_file_clear(&inputs[i].kind);
		inputs[i] = (struct flmem_input){0};
	}
}

/*
 * Prints the place of an input for a message; path NULL is the model that an update is compared
 * with.
 */
static void print_place(const char *path, struct flmem_buf *out)
{
	if (path)
		flmem_buf_printf(out, "'%s'", path);
	else
		flmem_buf_puts(out, "the model");
}

static int report_lack(const char *with, const char *without, const struct flmem_tensor *tensor,
		       struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf lacking = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf having = FLMEM_BUF_INIT;
	char shown[SHOWN_MAX];

	flmem_text_escape(tensor->name, shown, sizeof(shown));
	print_place(without, &lacking);
	print_place(with, &having);
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "%s has no tensor '%s', which %s has",
			       lacking.data, shown, having.data);
}

/* Tensors to compare: those of the first input and those of another. */
struct input_pair {
	const char *first_path, *path;
	const struct flmem_tensor_list *first, *list;
};

static int report_difference(const struct input_pair *pair, const struct flmem_tensor *a,
			     const struct flmem_tensor *b, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf shape = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf other = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf first = FLMEM_BUF_INIT;
	char shown[SHOWN_MAX];

	flmem_text_escape(a->name, shown, sizeof(shown));
	flmem_tensor_shape_print(pair->first, a, &shape);
	flmem_tensor_shape_print(pair->list, b, &other);
	print_place(pair->first_path, &first);
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "tensor '%s' is %s %.100s in %s, but %s %.100s in '%s'", shown,
			       a->dtype->stored, shape.data, first.data, b->dtype->stored,
			       other.data, pair->path);
}

static bool is_alike(const struct input_pair *pair, const struct flmem_tensor *a,
		     const struct flmem_tensor *b)
{
	return a->dtype == b->dtype && a->rank == b->rank &&
	       (!a->rank || memcmp(pair->first->extents + a->shape, pair->list->extents + b->shape,
				   a->rank * sizeof(*pair->list->extents)) == 0);
}

/* Compares two lists, both sorted by name. */
static int compare_lists(const struct input_pair *pair, struct flmem_error *err)
{
	size_t i = 0;

	for (; i < pair->first->count && i < pair->list->count; i++) {
		const struct flmem_tensor *a = &pair->first->tensors[i];
		const struct flmem_tensor *b = &pair->list->tensors[i];
		int order = strcmp(a->name, b->name);

		if (order < 0)
			return report_lack(pair->first_path, pair->path, a, err);
		if (order > 0)
			return report_lack(pair->path, pair->first_path, b, err);
		if (!is_alike(pair, a, b))
			return report_difference(pair, a, b, err);
	}
	if (i < pair->first->count)
		return report_lack(pair->first_path, pair->path, &pair->first->tensors[i], err);
	if (i < pair->list->count)
		return report_lack(pair->path, pair->first_path, &pair->list->tensors[i], err);
	return 0;
}

/*
 * Takes the offsets of an input's tensors. `list` has the same names in the same order as the
 * layout.
 */
static int take_offsets(struct flmem_input *input, const struct flmem_layout *layout,
			const struct flmem_tensor_list *list, struct flmem_error *err)
{
	FLMEM_AUTO_FREE uint64_t *offsets = calloc(layout->list.count + 1, sizeof(*offsets));
	FLMEM_AUTO_FREE uint32_t *file_of = calloc(layout->list.count + 1, sizeof(*file_of));
	bool same = input->file_count == 1;

	if (!offsets || !file_of)
		return flmem_error_nomem(err, "cannot list the tensors of '%s'", input->path);
	for (size_t i = 0; i < layout->list.count; i++) {
		size_t named = (size_t)(layout->order[i] - layout->list.tensors);

		offsets[i] = list->tensors[named].offset;
		file_of[i] = list->tensors[named].file;
		same &= offsets[i] == list->data_offset + layout->begins[i];
	}
	input->data_offset = list->data_offset;
	if (!same) {
		input->offsets = FLMEM_TAKE(offsets);
		input->file_of = FLMEM_TAKE(file_of);
	}
	return 0;
}

static int report_unreadable(const char *path, struct flmem_error *err)
{
	return flmem_error_set(err, flmem_code_of_open(errno), errno, "cannot read '%s'", path);
}

/* Adds the tensors of the next of several files to the list. */
static int read_shard(struct flmem_input *input, const struct flmem_source *source,
		      struct flmem_tensor_list *list, struct flmem_error *err)
{
	const char *path = input->files[input->file_count - 1].path;
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list more = {0};
	int rc;

	if (input->file_count == 1)
		return flmem_safetensors_read(source, path, list, err);
	rc = flmem_safetensors_read(source, path, &more, err);
	if (!rc && !flmem_tensor_list_merge(list, &more, (uint32_t)(input->file_count - 1)))
		rc = flmem_error_nomem(err, "cannot list the tensors of '%s'", input->path);
	return rc;
}

/* Opens the next file of an input and adds its tensors to the list. Takes ownership of `path`. */
static int open_file(struct flmem_input *input, int dirfd, const char *name, char *path,
		     struct flmem_tensor_list *list, struct flmem_error *err)
{
	struct flmem_input_file *file = &input->files[input->file_count++];
	struct statfs system;

	file->path = path;
	file->fd = -1;
	if (!path)
		return flmem_error_nomem(err, "cannot read '%s'", input->path);
	/*
	 * O_NONBLOCK: the open must not wait for the writer of a FIFO; for regular files it has no
	 * effect.
	 */
	file->fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (file->fd < 0 || fstat(file->fd, &file->status) < 0)
		return report_unreadable(path, err);
	if (!S_ISREG(file->status.st_mode))
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is not a regular file", path);
	file->in_memory = fstatfs(file->fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
	if (dirfd == AT_FDCWD)
		return flmem_tensor_file_read(FLMEM_SOURCE_FD(file->fd), path, input->key,
					      &input->kind, list, err);
	return read_shard(input, FLMEM_SOURCE_FD(file->fd), list, err);
}

/* Checks that the index and the headers of the shards agree about every tensor. */
static int check_shards(const struct flmem_input *input, const struct flmem_shards *shards,
			struct flmem_tensor_list *list, struct flmem_error *err)
{
	const struct flmem_tensor *tensor = flmem_tensor_list_sort(list);
	const char *name = tensor ? tensor->name : NULL;
	char shown[SHOWN_MAX];

	for (size_t i = 0; i < shards->count && !name; i++) {
		tensor = flmem_tensor_list_find(list, shards->entries[i].tensor);
		if (!tensor || tensor->file != shards->entries[i].shard)
			name = shards->entries[i].tensor;
	}
	if (!name && list->count == shards->count)
		return 0;
	if (!name)
		return flmem_error_set(
			err, FLMEM_EUSAGE, 0, "the shards of '%s' have %s, but its index has %zu",
			input->path,
			flmem_text_counted(list->count, "tensor", shown, sizeof(shown)),
			shards->count);
	flmem_text_escape(name, shown, sizeof(shown));
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "tensor '%s' of '%s' is not in exactly the shard that the index "
			       "names",
			       shown, input->path);
}

static int reserve_files(struct flmem_input *input, size_t count, struct flmem_error *err)
{
	input->files = calloc(count, sizeof(*input->files));
	return input->files ? 0 : flmem_error_nomem(err, "cannot read '%s'", input->path);
}

/* Returns true if the folder holds one file: models that fit one file have no index. */
static bool has_one_file(int dirfd)
{
	struct stat status;

	return fstatat(dirfd, FLMEM_SHARDS_INDEX, &status, AT_SYMLINK_NOFOLLOW) < 0 &&
	       errno == ENOENT && fstatat(dirfd, ONE_FILE, &status, 0) == 0;
}

static int open_one_file(struct flmem_input *input, int dirfd, struct flmem_tensor_list *list,
			 struct flmem_error *err)
{
	char *path;
	int rc = reserve_files(input, 1, err);

	if (rc)
		return rc;
	if (asprintf(&path, "%s/" ONE_FILE, input->path) < 0)
		path = NULL;
	return open_file(input, dirfd, ONE_FILE, path, list, err);
}

static int open_folder(struct flmem_input *input, int dirfd, struct flmem_tensor_list *list,
		       struct flmem_error *err)
{
	FLMEM_AUTO_SHARDS struct flmem_shards shards = FLMEM_SHARDS_INIT;
	struct stat status;
	int rc;

	if (has_one_file(dirfd))
		return open_one_file(input, dirfd, list, err);
	if (fstatat(dirfd, FLMEM_SHARDS_INDEX, &status, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "the folder '%s' contains neither " FLMEM_SHARDS_INDEX
				       " nor model.safetensors; name the files of the model",
				       input->path);
	rc = flmem_shards_read(dirfd, input->path, &shards, err);
	if (rc)
		return rc;
	rc = reserve_files(input, shards.file_count, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < shards.file_count && !rc; i++) {
		char *path;

		if (asprintf(&path, "%s/%s", input->path, shards.files[i]) < 0)
			path = NULL;
		rc = open_file(input, dirfd, shards.files[i], path, list, err);
	}
	return rc ? rc : check_shards(input, &shards, list, err);
}

/* Opens an address as the next file of an input. */
static int open_address(struct flmem_input *input, const char *url, bool shard,
			struct flmem_tensor_list *list, struct flmem_error *err)
{
	struct flmem_input_file *file = &input->files[input->file_count++];
	FLMEM_AUTO(flmem_remote_source_clear) struct flmem_remote_source remote = {0};
	int rc;

	file->fd = -1;
	rc = flmem_remote_open(input->http, url, file, &remote, err);
	if (rc)
		return rc;
	rc = shard ? read_shard(input, &remote.source, list, err)
		   : flmem_tensor_file_read(&remote.source, file->path, input->key, &input->kind,
					    list, err);
	return flmem_remote_source_end(&remote, rc, err);
}

static int open_remote_shards(struct flmem_input *input, const char *url,
			      struct flmem_tensor_list *list, struct flmem_error *err)
{
	FLMEM_AUTO_SHARDS struct flmem_shards shards = FLMEM_SHARDS_INIT;
	int rc = flmem_remote_read_index(input->http, url, &shards, err);

	if (rc)
		return rc;
	rc = reserve_files(input, shards.file_count, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < shards.file_count && !rc; i++) {
		FLMEM_AUTO_FREE char *shard = flmem_remote_shard_url(url, shards.files[i]);

		rc = shard ? open_address(input, shard, true, list, err)
			   : flmem_error_nomem(err, "cannot read '%s'", input->path);
	}
	return rc ? rc : check_shards(input, &shards, list, err);
}

static int open_remote(struct flmem_input *input, const char *url, struct flmem_tensor_list *list,
		       struct flmem_error *err)
{
	int rc;

	input->path = input->shown = flmem_url_show(url);
	if (!input->shown)
		return flmem_error_nomem(err, "cannot open an address");
	if (!input->access)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' is an address; name a file here",
				       input->path);
	rc = flmem_http_open(input->access, &input->http, err);
	if (rc)
		return rc;
	if (flmem_remote_is_index(url))
		return open_remote_shards(input, url, list, err);
	rc = reserve_files(input, 1, err);
	if (rc)
		return rc;
	return open_address(input, url, false, list, err);
}

static int open_generated(struct flmem_input *input, struct flmem_tensor_list *list,
			  struct flmem_error *err)
{
	struct flmem_input_file *file;
	int rc;

	input->files = calloc(1, sizeof(*input->files));
	if (!input->files)
		return flmem_error_nomem(err, "cannot generate '%s'", input->path);
	file = &input->files[input->file_count++];
	file->fd = -1;
	file->path = strdup(input->path);
	if (!file->path)
		return flmem_error_nomem(err, "cannot generate '%s'", input->path);
	rc = flmem_generated_open(input->path, &file->generated, list, err);
	if (!rc)
		file->status.st_size = (off_t)flmem_generated_size(file->generated);
	return rc;
}

/*
 * Refuses schemes other than http and https, such as s3://bucket/model, unless a file has that
 * name.
 */
static int check_scheme(const char *path, struct flmem_error *err)
{
	size_t length = strcspn(path, ":/");

	if (!length || strncmp(path + length, "://", 3) != 0 ||
	    faccessat(AT_FDCWD, path, F_OK, 0) == 0)
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' is neither a file nor an address that can be read; expected "
			       "http:// or https://, for example a presigned address",
			       path);
}

int flmem_input_load(const char *path, struct flmem_input *input, struct flmem_tensor_list *list,
		     struct flmem_error *err)
{
	bool generated = flmem_generated_is_name(path), remote = flmem_url_is(path);
	FLMEM_AUTO_CLOSE int dirfd =
		generated || remote ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc;

	input->path = path;
	if (remote)
		return open_remote(input, path, list, err);
	if (generated)
		return open_generated(input, list, err);
	if (dirfd >= 0)
		return open_folder(input, dirfd, list, err);
	rc = check_scheme(path, err);
	if (!rc)
		rc = reserve_files(input, 1, err);
	if (rc)
		return rc;
	return open_file(input, AT_FDCWD, path, strdup(path), list, err);
}

static int open_first(const char *path, struct flmem_input *input, struct flmem_layout *layout,
		      struct flmem_error *err)
{
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	int rc = flmem_input_load(path, input, &list, err);

	if (!rc)
		rc = flmem_layout_init(layout, &list, input->path, err);
	return rc ? rc : take_offsets(input, layout, &layout->list, err);
}

int flmem_input_open(const char *path, const char *first_path, const struct flmem_layout *layout,
		     struct flmem_input *input, struct flmem_error *err)
{
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	struct input_pair pair = {
		.first_path = first_path,
		.first = &layout->list,
		.list = &list,
	};
	int rc = flmem_input_load(path, input, &list, err);

	pair.path = input->path;
	flmem_tensor_file_clear(&input->kind); /* only the entries of the first input are used */
	if (!rc)
		rc = compare_lists(&pair, err);
	return rc ? rc : take_offsets(input, layout, &list, err);
}

int flmem_inputs_open(const char *const *paths, size_t count, struct flmem_input *inputs,
		      struct flmem_layout *layout, struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < count && !rc; i++)
		rc = i ? flmem_input_open(paths[i], inputs[0].path, layout, &inputs[i], err)
		       : open_first(paths[i], &inputs[i], layout, err);
	return rc;
}

struct flmem_input_piece flmem_input_piece(const struct flmem_input *input,
					   const struct flmem_layout *layout, uint64_t begin,
					   uint64_t end, size_t *tensor)
{
	const uint64_t *begins = layout->begins, *offsets = input->offsets;
	struct flmem_input_piece piece = {.file = input->files};
	size_t t = *tensor;

	if (!offsets) {
		piece.offset = input->data_offset + begin;
		piece.bytes = end - begin;
		return piece;
	}
	while (begins[t + 1] <= begin)
		t++;
	piece.file = &input->files[input->file_of[t]];
	piece.offset = offsets[t] + (begin - begins[t]);
	while (begins[t + 1] < end && input->file_of[t + 1] == input->file_of[t] &&
	       offsets[t + 1] == offsets[t] + (begins[t + 1] - begins[t]))
		t++;
	piece.bytes = (begins[t + 1] < end ? begins[t + 1] : end) - begin;
	*tensor = t;
	return piece;
}

static int read_piece(struct flmem_input_piece piece, char *out, struct flmem_error *err)
{
	const struct flmem_input_stream *stream = piece.file->stream;

	if (stream)
		return stream->read(stream->context, piece.offset, piece.bytes, out, err);
	if (piece.file->generated) {
		flmem_generated_read(piece.file->generated, piece.offset, piece.bytes, out);
		return 0;
	}
	if (piece.file->remote)
		return flmem_http_file_read(piece.file->remote, piece.offset, piece.bytes, out,
					    err);
	while (piece.bytes) {
		ssize_t got = pread(piece.file->fd, out, piece.bytes, (off_t)piece.offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return flmem_error_set(err, FLMEM_EFAILED, errno,
					       "cannot read '%s' at byte %llu", piece.file->path,
					       (unsigned long long)piece.offset);
		if (!got)
			return flmem_error_set(err, FLMEM_EFAILED, 0,
					       "'%s' was truncated while it was read: it ends at "
					       "byte %llu of %llu",
					       piece.file->path, (unsigned long long)piece.offset,
					       (unsigned long long)piece.file->status.st_size);
		out += got;
		piece.offset += (uint64_t)got;
		piece.bytes -= (uint64_t)got;
	}
	return 0;
}

void flmem_input_file_expect(const struct flmem_input_file *file, uint64_t offset, uint64_t bytes)
{
	if (file->remote)
		flmem_http_file_expect(file->remote, offset, bytes);
}

int flmem_input_file_read(const struct flmem_input_file *file, uint64_t offset, uint64_t bytes,
			  char *out, struct flmem_error *err)
{
	const struct flmem_input_piece piece = {.file = file, .offset = offset, .bytes = bytes};

	return read_piece(piece, out, err);
}

int flmem_input_read(const struct flmem_input *input, const struct flmem_layout *layout,
		     uint64_t begin, uint64_t end, char *out, struct flmem_error *err)
{
	size_t tensor = input->offsets ? flmem_layout_find(layout, begin) : 0;
	int rc = 0;

	while (begin < end && !rc) {
		struct flmem_input_piece piece =
			flmem_input_piece(input, layout, begin, end, &tensor);

		rc = read_piece(piece, out, err);
		out += piece.bytes;
		begin += piece.bytes;
	}
	return rc;
}

bool flmem_input_is_same(const struct flmem_input *one, const struct flmem_input *other)
{
	bool same = one->file_count == other->file_count;

	for (size_t i = 0; i < one->file_count && same; i++) {
		const struct flmem_input_file *a = &one->files[i], *b = &other->files[i];

		same = a->fd >= 0 && b->fd >= 0 && flmem_file_is_same(&a->status, &b->status);
	}
	return same;
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static int check_file(const struct flmem_input_file *file, struct flmem_error *err)
{
	const struct stat *before = &file->status;
	struct stat now;

	if (file->generated)
		return 0;
	if (file->remote)
		return flmem_http_file_check(file->remote, err);
	if (fstat(file->fd, &now) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot read '%s'", file->path);
	if (now.st_size == before->st_size && is_same_time(&now.st_mtim, &before->st_mtim) &&
	    is_same_time(&now.st_ctim, &before->st_ctim))
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "'%s' changed while it was read; aggregate finished files only",
			       file->path);
}

int flmem_input_check(const struct flmem_input *input, struct flmem_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < input->file_count && !rc; i++)
		rc = check_file(&input->files[i], err);
	return rc;
}
