/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_LOCAL_PATH_H
#define FLMEM_PROC_FILES_LOCAL_PATH_H

/* Finds paths that can be followed, and files that can be used, without querying any server. */

#include <stdbool.h>
#include <sys/stat.h>

/* Returns true if files of its file system wait only for disks of this machine. */
bool flmem_local_path_is_here(int fd);

/*
 * Finds most files quickly: the kernel resolves the path from its cache without asking any file
 * system (Linux 5.12), and the file system is local. Returns an O_PATH descriptor, -ENOENT if the
 * kernel knows that the path does not exist, and -EAGAIN if only a child process can find out
 * (base/forked_task.h).
 */
int flmem_local_path_find(const char *path, struct stat *ret_status);

#endif
