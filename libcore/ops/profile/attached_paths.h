/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_PROFILE_ATTACHED_PATHS_H
#define FLMEM_OPS_PROFILE_ATTACHED_PATHS_H

/*
 * Opens and reads files of a process, in a child process (base/forked_task.h): the process chooses
 * what is there, which may be a file system that never answers.
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include <flmem/attach.h>

#include "preload/profile_format.h"
#include "proc/process.h"

/* The directory of a file that need not exist. */
struct flmem_attached_directory {
	int fd; /* O_PATH; -1: none */
	char path[FLMEM_ATTACH_PATH_MAX];
	char name[NAME_MAX + 1]; /* of the file in it */
	uint32_t kind;		 /* as in statfs(2); 0: unknown */
	struct stat status;
	bool exists; /* the file does, and `old` is its status */
	struct stat old;
};

#define FLMEM_ATTACHED_DIRECTORY_INIT \
	{                             \
		.fd = -1              \
	}

/*
 * `process` NULL: as flmem sees the path, else as the process does, without leaving its root. The
 * caller closes ret->fd. Negative errno; -ETIMEDOUT: no answer came.
 */
int flmem_attached_directory_open(const struct flmem_process *process, const char *path,
				  struct flmem_attached_directory *ret_directory);

/* A profile that the process names. */
struct flmem_attached_view {
	int fd; /* O_PATH; -1: not opened yet */
	struct stat status;
	bool is_named; /* it has the name */
	bool is_own;   /* flmem sees the same file under the name */
	bool has_header;
	struct flmem_profile_header header;
};

#define FLMEM_ATTACHED_VIEW_INIT \
	{                        \
		.fd = -1         \
	}

/* Opens it unless it is open, and reads what changes. The same errors; the caller closes fd. */
int flmem_attached_view_read(const struct flmem_process *process, const char *path,
			     struct flmem_attached_view *view);

#endif
