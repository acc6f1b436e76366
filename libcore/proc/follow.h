/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FOLLOW_H
#define FLMEM_PROC_FOLLOW_H

/*
 * Where an absolute path of a process leads, its symbolic links followed: as the process sees it,
 * and never out of its root. One name is looked at after the other, because only file systems that
 * the kernel keeps by itself may be asked: what a server or another program keeps may never answer,
 * and flmem would hang as its target does.
 */

#include <limits.h>

struct flmem_mounts;

/*
 * `root` is the root of the process (O_PATH), `mounts` are those that it sees. The path that comes
 * out holds neither links nor "..", but for names that are not there, which lead where they would
 * be made. NULL, or (static) why it is not known.
 */
const char *flmem_follow(int root, const struct flmem_mounts *mounts, const char *path,
			 char ret_path[PATH_MAX]);

#endif
