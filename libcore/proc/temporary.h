/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_TEMPORARY_H
#define FLMEM_PROC_TEMPORARY_H

/* Whether the files of a directory are kept in memory. The directory is not touched. */

#include <stdbool.h>
#include <stddef.h>

#include <flmem/value.h>

struct flmem_process;

#define FLMEM_MOUNT_TYPE_MAX 32

/*
 * The type of the file system that holds an absolute path, by the text of a mountinfo file, which
 * is split; false when no mount covers it. Symbolic links on the way are not followed.
 */
bool flmem_mount_type_of(char *mountinfo, const char *path, char ret_type[FLMEM_MOUNT_TYPE_MAX]);

/* 1: on tmpfs or ramfs, as the process sees it. */
struct flmem_u64 flmem_temporary_in_memory(const struct flmem_process *process, const char *path);

#endif
