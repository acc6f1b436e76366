/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_MOUNTS_H
#define FLMEM_PROC_MOUNTS_H

/* The lines of /proc/PID/mountinfo. Their text may be hostile: a process mounts what it likes. */

#include <stdbool.h>

/* Parts of the line that was split, without the kernel's escapes in the paths. */
struct flmem_mount {
	char *device; /* MAJOR:MINOR */
	char *root;   /* of the file system, what is mounted; not always a path (nsfs) */
	char *point;  /* an absolute path */
	char *type;
	char *source, *options; /* options of the super block; NULL: the line ends before */
};

/*
 * Splits a line (36 35 0:31 ROOT POINT options [tags] - TYPE source OPTIONS,
 * proc_pid_mountinfo(5)) in place; false for what is none.
 */
bool flmem_mount_split(char *line, struct flmem_mount *ret_mount);

#endif
