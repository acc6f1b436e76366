/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_MOUNTS_H
#define FLMEM_PROC_FILES_MOUNTS_H

/* The lines of /proc/PID/mountinfo. The text may be hostile: a process can mount anything. */

#include <stdbool.h>
#include <stddef.h>

#include "base/text/buf.h"

struct flmem_process;

/* Parts of a split line; paths are without the kernel's escapes. */
struct flmem_mount {
	char *device; /* MAJOR:MINOR */
	char *root;   /* the mounted part of the file system; not always a path (nsfs) */
	char *point;  /* an absolute path */
	char *type;
	/* Source, and options of the super block; NULL: the line ends before them. */
	char *source, *options;
};

/*
 * Splits a line (36 35 0:31 ROOT POINT options [tags] - TYPE source OPTIONS, proc_pid_mountinfo(5))
 * in place; false for any other text.
 */
bool flmem_mount_split(char *line, struct flmem_mount *ret_mount);

/* All mounts, in the order of the file. */
struct flmem_mounts {
	struct flmem_buf text; /* the text into which the rows point */
	struct flmem_mount *rows;
	size_t count;
};

/* Reads the mounts as the process sees them. Returns 0 or -errno. */
int flmem_mounts_read(const struct flmem_process *process, struct flmem_mounts *ret_mounts);

/* Parses the text of a mountinfo file. Returns 0 or -errno. */
int flmem_mounts_parse(const char *text, size_t length, struct flmem_mounts *ret_mounts);

void flmem_mounts_clear(struct flmem_mounts *mounts);

#define FLMEM_AUTO_MOUNTS FLMEM_AUTO(flmem_mounts_clear)

#define FLMEM_MOUNTS_INIT              \
	{                              \
		.text = FLMEM_BUF_INIT \
	}

/*
 * Returns the mount that contains an absolute path, compared as text without following links; or
 * NULL.
 */
const struct flmem_mount *flmem_mounts_covering(const struct flmem_mounts *mounts,
						const char *path);

#endif
