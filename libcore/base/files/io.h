/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_IO_H
#define FLMEM_BASE_IO_H

/* Complete reads and writes: EINTR and short counts are handled. */

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <flmem/error.h>

#include "base/text/buf.h"

/*
 * Appends the rest of `fd` to `buf`, at most `limit` bytes. Returns 0, or a negative errno (-EFBIG
 * when the file holds more than `limit`; the buffer then holds the first `limit` bytes).
 */
int flmem_io_read_all(int fd, size_t limit, struct flmem_buf *buf);

/* Opens `path` below `dirfd` and reads it whole; negative errno on failure. */
int flmem_io_read_file_at(int dirfd, const char *path, size_t limit, struct flmem_buf *buf);

/*
 * Appends the rest of a file that the user named, as flmem_io_read_all() does. The file may be a
 * pipe, as of <(command) in bash: the function waits for what its writer writes.
 */
int flmem_io_read_pipe(int fd, size_t limit, struct flmem_buf *buf);

/* Like flmem_io_read_pipe(), for the file at a path. */
int flmem_io_read_named(const char *path, size_t limit, struct flmem_buf *buf);

/*
 * Opens the file of an O_PATH descriptor, even if its name now refers to another file. The call
 * never blocks, and the file never becomes a controlling terminal. Returns the descriptor, or a
 * negative errno.
 */
int flmem_io_reopen(int fd, int flags);

/* Opens a directory below `dirfd` to list it; NULL with errno. The caller closes it. */
DIR *flmem_io_open_dir(int dirfd, const char *path);

/*
 * Sets the bytes that a user other than root may still write to the file system of `fd`; UINT64_MAX
 * where 64 bits do not hold them. Returns 0, or a negative errno.
 */
int flmem_io_free_bytes(int fd, uint64_t *ret_bytes);

/* Reads exactly `length` bytes; false on an error or at an earlier end of the file. */
bool flmem_io_read_at(int fd, uint64_t offset, void *out, size_t length);

/* Writes everything; negative errno on failure. */
int flmem_io_write_all(int fd, const void *bytes, size_t length);

/* Calls flmem_file_place_write() (base/files/file_place.h) for a path. */
int flmem_io_write_file(const char *path, const void *bytes, size_t length, mode_t mode,
			bool replace, struct flmem_error *err);

#endif
