/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_FILES_PATH_RESOLVE_H
#define FLMEM_PROC_FILES_PATH_RESOLVE_H

/*
 * Resolves an absolute path of a process with its symbolic links, as the process sees it and never
 * out of its root. One name is resolved at a time, because only file systems that need no server
 * may be accessed: one that a server or another program provides may never answer, and flmem would
 * hang as its target does.
 */

#include <limits.h>

struct flmem_mounts;

/*
 * Resolves a path. `root` is the root of the process (O_PATH), `mounts` are the mounts that it
 * sees. The resulting path contains neither links nor ".."; names that do not exist stay, and show
 * where they would be created. Returns NULL, or a static text that says why the path is unknown.
 */
const char *flmem_path_resolve(int root, const struct flmem_mounts *mounts, const char *path,
			       char ret_path[PATH_MAX]);

#endif
