/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/remote.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/url.h"

#define INDEX_SUFFIX	".safetensors.index.json"
#define INDEX_BYTES_MAX (100U << 20)
/*
 * Size of the window in which the end of an archive is searched; longer reads bypass the windows.
 */
#define WINDOW_LARGEST (128U << 10)
/* Size of the other windows: a local header of an archive, with the header of its array. */
#define WINDOW_SMALLEST 4096U

static int read_remote(const struct flmem_input_file *file, uint64_t offset, size_t bytes,
		       char *out, struct flmem_error *err)
{
	flmem_http_file_expect(file->remote, offset, bytes);
	return flmem_http_file_read(file->remote, offset, bytes, out, err);
}

static bool has_bytes(const struct flmem_remote_window *window, uint64_t offset, size_t length)
{
	return offset >= window->begin && offset - window->begin <= window->length &&
	       length <= window->length - (offset - window->begin);
}

/*
 * Finds a window that has these bytes: the headers of an archive's entries are read twice, in the
 * same order.
 */
static struct flmem_remote_window *find_window(struct flmem_remote_source *remote, uint64_t offset,
					       size_t length)
{
	for (size_t i = 0; i < remote->window_count; i++) {
		size_t at = (remote->found + i) % remote->window_count;

		if (has_bytes(&remote->windows[at], offset, length)) {
			remote->found = at;
			return &remote->windows[at];
		}
	}
	return NULL;
}

/* Reads from this offset on into a window; the oldest one if all are in use. */
static int fill_remote_window(struct flmem_remote_source *remote, uint64_t offset, size_t length,
			      struct flmem_remote_window **ret_window)
{
	struct flmem_remote_window *window = &remote->windows[remote->next];
	uint64_t rest = remote->source.bytes - offset;
	size_t bytes = length > WINDOW_SMALLEST ? length : WINDOW_SMALLEST;
	int rc;

	bytes = bytes < rest ? bytes : (size_t)rest;
	free(window->bytes);
	*window = (struct flmem_remote_window){.begin = offset, .bytes = malloc(bytes)};
	if (!window->bytes)
		return flmem_error_nomem(&remote->error, "cannot read '%s'", remote->file->path);
	rc = read_remote(remote->file, offset, bytes, window->bytes, &remote->error);
	if (rc)
		return rc;
	window->length = bytes;
	remote->next = (remote->next + 1) % FLMEM_REMOTE_WINDOWS;
	if (remote->window_count < FLMEM_REMOTE_WINDOWS)
		remote->window_count++;
	*ret_window = window;
	return 0;
}

/*
 * Reads for struct flmem_source. A failure is kept in the source, since readers do not pass on its
 * reason.
 */
static bool read_through_windows(void *context, uint64_t offset, void *out, size_t length)
{
	struct flmem_remote_source *remote = context;
	struct flmem_remote_window *window;
	uint64_t size = remote->source.bytes;

	if (remote->rc || offset > size || length > size - offset)
		return false;
	if (length > WINDOW_LARGEST) {
		remote->rc = read_remote(remote->file, offset, length, out, &remote->error);
		return !remote->rc;
	}
	window = find_window(remote, offset, length);
	if (!window)
		remote->rc = fill_remote_window(remote, offset, length, &window);
	if (!remote->rc)
		memcpy(out, window->bytes + (offset - window->begin), length);
	return !remote->rc;
}

int flmem_remote_open(struct flmem_http *http, const char *url, struct flmem_input_file *file,
		      struct flmem_remote_source *ret_source, struct flmem_error *err)
{
	int rc = flmem_http_file_open(http, url, &file->remote, err);

	if (rc)
		return rc;
	file->path = strdup(flmem_http_file_name(file->remote));
	if (!file->path)
		return flmem_error_nomem(err, "cannot open an address");
	file->status.st_size = (off_t)flmem_http_file_size(file->remote);
	*ret_source = (struct flmem_remote_source){
		.source = {.read = read_through_windows,
			   .context = ret_source,
			   .bytes = flmem_http_file_size(file->remote)},
		.file = file,
	};
	return 0;
}

int flmem_remote_source_end(struct flmem_remote_source *source, int rc, struct flmem_error *err)
{
	if (!source->rc)
		return rc;
	if (err)
		*err = source->error;
	return source->rc;
}

void flmem_remote_source_clear(struct flmem_remote_source *source)
{
	for (size_t i = 0; i < FLMEM_REMOTE_WINDOWS; i++)
		free(source->windows[i].bytes);
}

bool flmem_remote_is_index(const char *url)
{
	size_t length = flmem_url_path_length(url), suffix = strlen(INDEX_SUFFIX);

	return length > suffix && memcmp(url + length - suffix, INDEX_SUFFIX, suffix) == 0;
}

static void close_remote(struct flmem_http_file **file)
{
	flmem_http_file_close(*file);
}

int flmem_remote_read_index(struct flmem_http *http, const char *url, struct flmem_shards *shards,
			    struct flmem_error *err)
{
	FLMEM_AUTO(close_remote) struct flmem_http_file *file = NULL;
	uint64_t size;
	int rc = flmem_http_file_open(http, url, &file, err);

	if (rc)
		return rc;
	size = flmem_http_file_size(file);
	if (size > INDEX_BYTES_MAX)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' has more than 100 MiB",
				       flmem_http_file_name(file));
	if (!flmem_buf_reserve(&shards->text, (size_t)size))
		return flmem_error_nomem(err, "cannot read '%s'", flmem_http_file_name(file));
	flmem_http_file_expect(file, 0, size);
	rc = flmem_http_file_read(file, 0, size, shards->text.data, err);
	if (rc)
		return rc;
	shards->text.length = (size_t)size;
	shards->text.data[size] = '\0';
	return flmem_shards_parse(flmem_http_file_name(file), shards, err);
}

char *flmem_remote_shard_url(const char *index, const char *name)
{
	size_t path = flmem_url_path_length(index), folder = path;
	char *url;

	while (folder && index[folder - 1] != '/')
		folder--;
	if (asprintf(&url, "%.*s%s%s", (int)folder, index, name, index + path) < 0)
		return NULL;
	return url;
}
