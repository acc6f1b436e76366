/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_REMOTE_H
#define FLMEM_OPS_AGGREGATE_REMOTE_H

/* Inputs that are files on web servers, one by one or as shards with their index. */

#include <stdbool.h>

#include <flmem/error.h>

#include "model/shards.h"
#include "model/source.h"
#include "net/http.h"
#include "ops/aggregate/input.h"

/* Number of windows, most of 4 KiB, for the headers of an archive's entries. */
#define FLMEM_REMOTE_WINDOWS 1024U

struct flmem_remote_window {
	char *bytes;
	uint64_t begin;
	size_t length;
};

/* A source for readers of headers and directories, which fetches parts of the file as needed. */
struct flmem_remote_source {
	struct flmem_source source;
	const struct flmem_input_file *file;
	struct flmem_remote_window windows[FLMEM_REMOTE_WINDOWS];
	size_t window_count, next, found;
	int rc; /* code of the first failure; `error` has its reason */
	struct flmem_error error;
};

/* Opens an address as `file`, and as a source, which must not move in memory afterwards. */
int flmem_remote_open(struct flmem_http *http, const char *url, struct flmem_input_file *file,
		      struct flmem_remote_source *ret_source, struct flmem_error *err);

/* Returns the result of a reader that returned `rc`: a failure of the server takes precedence. */
int flmem_remote_source_end(struct flmem_remote_source *source, int rc, struct flmem_error *err);

void flmem_remote_source_clear(struct flmem_remote_source *source);

/* Returns true if the address is that of an index: its path ends with ".safetensors.index.json". */
bool flmem_remote_is_index(const char *url);

int flmem_remote_read_index(struct flmem_http *http, const char *url, struct flmem_shards *shards,
			    struct flmem_error *err);

/* Makes the address of a shard beside its index, with the same query; NULL if memory is out. */
char *flmem_remote_shard_url(const char *index, const char *name);

#endif
