/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_ATTACHED_PATHS_H
#define FLMEM_OPS_PROFILE_ATTACHED_PATHS_H

/*
 * Opens and reads files of a process, in a child process (base/forked_task.h): the target chooses
 * what is there, which may be a file system that never answers.
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include <flmem/attach.h>

#include "preload/profile_format.h"
#include "proc/process.h"

/* The directory of a file that need not exist, and the file in it. */
struct flmem_attached_directory {
	int fd; /* descriptor (O_PATH); -1: none */
	char path[FLMEM_ATTACH_PATH_MAX];
	char name[NAME_MAX + 1]; /* name of the file in the directory */
	uint32_t kind; /* file system type of the directory, as in statfs(2); 0: unknown */
	struct stat status;
	bool exists; /* the file exists, and `old` is its status */
	struct stat old;
};

#define FLMEM_ATTACHED_DIRECTORY_INIT \
	{                             \
		.fd = -1              \
	}

/*
 * Opens the directory of a file. `process` NULL: the path is one of flmem; else it is one of the
 * process and does not leave its root. The caller closes ret->fd. Returns 0 or -errno; -ETIMEDOUT
 * if no answer came.
 */
int flmem_attached_directory_open(const struct flmem_process *process, const char *path,
				  struct flmem_attached_directory *ret_directory);

/* The profile file that a process names. */
struct flmem_attached_view {
	int fd; /* descriptor (O_PATH); -1: not opened yet */
	struct stat status;
	bool is_named; /* the file still has its name */
	bool is_own;   /* flmem sees the same file under that name */
	bool has_header;
	struct flmem_profile_header header;
};

#define FLMEM_ATTACHED_VIEW_INIT \
	{                        \
		.fd = -1         \
	}

/*
 * Opens the file unless it is open, and reads what may have changed. The caller closes view->fd.
 * Returns 0 or -errno; -ETIMEDOUT if no answer came.
 */
int flmem_attached_view_read(const struct flmem_process *process, const char *path,
			     struct flmem_attached_view *view);

#endif
