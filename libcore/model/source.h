/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_MODEL_SOURCE_H
#define FLMEM_MODEL_SOURCE_H

/* Where the readers of model files read from: an open file, or what a function returns. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/text/buf.h"

struct flmem_source {
	/* Reads exactly `length` bytes; false if it cannot. NULL: of `fd`. */
	bool (*read)(void *context, uint64_t offset, void *out, size_t length);
	void *context;
	uint64_t bytes; /* of what `read` reads */
	int fd;
	int *error; /* of `fd`: where the errno of a failed read is put; or NULL */
};

/* An open file. */
#define FLMEM_SOURCE_FD(descriptor) \
	(&(const struct flmem_source){.fd = (descriptor), .error = &(int){0}})

/* Of the file; negative errno. */
int flmem_source_size(const struct flmem_source *source, uint64_t *ret_bytes);

bool flmem_source_read_at(const struct flmem_source *source, uint64_t offset, void *out,
			  size_t length);

/* Room for what is read; without memory the same as a read that fails. */
bool flmem_source_reserve(const struct flmem_source *source, struct flmem_buf *buf, size_t length);

/*
 * The result of a reader, for it to return: a file that could not be read is not one with a wrong
 * content.
 */
int flmem_source_end(const struct flmem_source *source, const char *path, int rc,
		     struct flmem_error *err);

#endif
