/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_PATH_MEMORY_H
#define FLMEM_PROC_FILES_PATH_MEMORY_H

/* Finds out whether the files of a directory are kept in memory. */

#include <flmem/value.h>

struct flmem_process;

/*
 * Returns 1 if the directory is on tmpfs or ramfs, as the process sees it, else 0. Links are
 * followed within the root of the process (proc/files/path_resolve.h); for a missing directory, the
 * place where it would be created counts.
 */
struct flmem_u64 flmem_path_in_memory(const struct flmem_process *process, const char *path);

#endif
