/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MODEL_SOURCE_H
#define FLMEM_MODEL_SOURCE_H

/* Input of the readers of model files: an open file, or a function that reads. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/text/buf.h"

struct flmem_source {
	/* Reads exactly `length` bytes; false on failure. NULL: read from `fd`. */
	bool (*read)(void *context, uint64_t offset, void *out, size_t length);
	void *context;
	uint64_t bytes; /* size of the input of `read` */
	int fd;
	int *error; /* for `fd`: receives the errno of a failed read; or NULL */
};

/* A source that reads an open file. */
#define FLMEM_SOURCE_FD(descriptor) \
	(&(const struct flmem_source){.fd = (descriptor), .error = &(int){0}})

/* Sets the size of the file; returns 0 or a negative errno. */
int flmem_source_size(const struct flmem_source *source, uint64_t *ret_bytes);

bool flmem_source_read_at(const struct flmem_source *source, uint64_t offset, void *out,
			  size_t length);

/* Reserves memory for a read; out of memory counts as a failed read. */
bool flmem_source_reserve(const struct flmem_source *source, struct flmem_buf *buf, size_t length);

/*
 * Returns `rc`, or the error of a read that failed before: distinguishes a failed read from invalid
 * contents.
 */
int flmem_source_end(const struct flmem_source *source, const char *path, int rc,
		     struct flmem_error *err);

#endif
