/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_AGGREGATE_REMOTE_H
#define FLMEM_OPS_AGGREGATE_REMOTE_H

/* Inputs that are safetensors files on web servers, one by one or as shards with their index. */

#include <stdbool.h>

#include <flmem/error.h>

#include "model/shards.h"
#include "net/http.h"
#include "ops/aggregate/input.h"

/*
 * Opens an address as `file`. *ret_fd is a file in memory of the same size, of which only the
 * header is there: for the reader of headers, to be closed after it.
 */
int flmem_remote_open(struct flmem_http *http, const char *url, struct flmem_input_file *file,
		      int *ret_fd, struct flmem_error *err);

/* Whether an address is that of an index: its path ends with ".safetensors.index.json". */
bool flmem_remote_is_index(const char *url);

int flmem_remote_read_index(struct flmem_http *http, const char *url, struct flmem_shards *shards,
			    struct flmem_error *err);

/* The address of a shard beside its index, with the same query; NULL if memory is out. */
char *flmem_remote_shard_url(const char *index, const char *name);

#endif
