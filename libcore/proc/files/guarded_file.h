/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_GUARDED_FILE_H
#define FLMEM_PROC_FILES_GUARDED_FILE_H

/*
 * Reads a file that may never answer. What is on a file system of this machine is read as any
 * other; what a server may have to answer for (FUSE, a network, layers of those) is opened and read
 * in child processes that can be left behind (base/forked_task.h), never in this one: it
 * could not even close such a file.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/cleanup.h"

struct flmem_guarded_file;

/*
 * Opens a regular file. Returns 0, or a negative errno: -ETIMEDOUT where nothing answers, -EINVAL
 * for what is not a regular file. Once its descriptor was taken, free() is enough to release it.
 */
int flmem_guarded_file_open(const char *path, struct flmem_guarded_file **ret_file);
void flmem_guarded_file_close(struct flmem_guarded_file **file);

#define FLMEM_AUTO_GUARDED_FILE FLMEM_AUTO(flmem_guarded_file_close)

const struct stat *flmem_guarded_file_status(const struct flmem_guarded_file *file);

/* The descriptor of a file of this machine, the caller's from now on; -1: another, or taken. */
int flmem_guarded_file_take(struct flmem_guarded_file *file);

/* Of a file without a descriptor: reads exactly `length` bytes. False: see is_silent. */
bool flmem_guarded_file_read(struct flmem_guarded_file *file, uint64_t offset, void *out,
			     size_t length);

/* Whether a read has not been answered. All later ones fail at once. */
bool flmem_guarded_file_is_silent(const struct flmem_guarded_file *file);

/* Whether its descriptor is that of a copy: the file itself may differ by now. */
bool flmem_guarded_file_is_copied(const struct flmem_guarded_file *file);

/*
 * A descriptor of its bytes that always answers, the caller's: its own, or that of a copy in memory
 * of the bytes from 0 to `limit`. A negative errno on failure: -EFBIG where it has more.
 */
int flmem_guarded_file_copy(struct flmem_guarded_file *file, uint64_t limit);

#endif
