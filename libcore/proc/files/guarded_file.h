/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_GUARDED_FILE_H
#define FLMEM_PROC_FILES_GUARDED_FILE_H

/*
 * Reads a file that may never answer. Files on a file system of this machine are read directly;
 * files that may depend on a server (FUSE, a network, layers of those) are opened and read in child
 * processes that can be abandoned (base/forked_task.h), never in this process, which could not even
 * close such a file.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/cleanup.h"

struct flmem_guarded_file;

/*
 * Opens a regular file. Returns 0 or -errno: -ETIMEDOUT if there is no answer, -EINVAL if it is not
 * a regular file. Once its descriptor was taken, free() suffices to release it.
 */
int flmem_guarded_file_open(const char *path, struct flmem_guarded_file **ret_file);
void flmem_guarded_file_close(struct flmem_guarded_file **file);

#define FLMEM_AUTO_GUARDED_FILE FLMEM_AUTO(flmem_guarded_file_close)

const struct stat *flmem_guarded_file_status(const struct flmem_guarded_file *file);

/*
 * Returns the descriptor of a file of this machine, which the caller then owns; -1: the file is not
 * on this machine, or its descriptor was already taken.
 */
int flmem_guarded_file_take(struct flmem_guarded_file *file);

/*
 * Reads exactly `length` bytes of a file without a descriptor. If it returns false,
 * flmem_guarded_file_is_silent() shows whether there was no answer.
 */
bool flmem_guarded_file_read(struct flmem_guarded_file *file, uint64_t offset, void *out,
			     size_t length);

/* Returns true if a read was not answered. All later reads then fail at once. */
bool flmem_guarded_file_is_silent(const struct flmem_guarded_file *file);

/* Returns true if the descriptor refers to a copy: the file itself may differ by now. */
bool flmem_guarded_file_is_copied(const struct flmem_guarded_file *file);

/*
 * Returns a descriptor of the file's bytes that never blocks, owned by the caller: that of the
 * file, or of a copy in memory of the bytes from 0 to `limit`. -errno on failure: -EFBIG if the
 * file is longer.
 */
int flmem_guarded_file_copy(struct flmem_guarded_file *file, uint64_t limit);

#endif
