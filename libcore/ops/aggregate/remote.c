/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/aggregate/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "base/little_endian.h"
#include "base/url.h"

#define LENGTH_BYTES	8U
#define BLOCK_BYTES	65536U
#define INDEX_SUFFIX	".safetensors.index.json"
#define INDEX_BYTES_MAX (100U << 20)

/* Copies the first bytes into the file in memory. */
static int copy_start(const struct flmem_input_file *file, uint64_t bytes, int fd,
		      struct flmem_error *err)
{
	char block[BLOCK_BYTES];
	int rc = 0;

	flmem_http_file_expect(file->remote, 0, bytes);
	for (uint64_t at = 0, some; at < bytes && !rc; at += some) {
		some = bytes - at < sizeof(block) ? bytes - at : sizeof(block);
		rc = flmem_http_file_read(file->remote, at, some, block, err);
		if (!rc && flmem_io_write_all(fd, block, (size_t)some))
			rc = flmem_error_nomem(err, "cannot read the header of '%s'", file->path);
	}
	return rc;
}

/*
 * How much the reader of headers will read: it has the same limit. Archives are refused, since
 * their directories are at their ends.
 */
static int measure_header(const struct flmem_input_file *file, uint64_t size, uint64_t *ret_bytes,
			  struct flmem_error *err)
{
	unsigned char raw[LENGTH_BYTES];
	uint64_t length, start = size < LENGTH_BYTES ? size : LENGTH_BYTES;
	int rc = flmem_http_file_read(file->remote, 0, start, (char *)raw, err);

	*ret_bytes = start;
	if (rc || size < LENGTH_BYTES)
		return rc;
	if (memcmp(raw, "PK\3\4", 4) == 0 && memcmp(raw + 4, "\0\0\0\0", 4) != 0)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "'%s' is an archive; only safetensors files are read from "
				       "addresses: download it first",
				       file->path);
	length = flmem_read_little(raw, sizeof(raw));
	if (length <= size - LENGTH_BYTES && length <= FLMEM_SAFETENSORS_HEAD_MAX)
		*ret_bytes = LENGTH_BYTES + length;
	return 0;
}

int flmem_remote_open(struct flmem_http *http, const char *url, struct flmem_input_file *file,
		      int *ret_fd, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int fd = -1;
	uint64_t size, bytes;
	int rc = flmem_http_file_open(http, url, &file->remote, err);

	if (rc)
		return rc;
	file->path = strdup(flmem_http_file_name(file->remote));
	if (!file->path)
		return flmem_error_nomem(err, "cannot open an address");
	size = flmem_http_file_size(file->remote);
	file->status.st_size = (off_t)size;
	rc = measure_header(file, size, &bytes, err);
	if (rc)
		return rc;
	fd = memfd_create("header", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot read the header of '%s'",
				       file->path);
	rc = copy_start(file, bytes, fd, err);
	if (!rc)
		*ret_fd = FLMEM_TAKE_FD(fd);
	return rc;
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
