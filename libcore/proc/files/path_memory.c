/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/files/path_memory.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "proc/files/mounts.h"
#include "proc/files/path_resolve.h"
#include "proc/process.h"

struct flmem_u64 flmem_path_in_memory(const struct flmem_process *process, const char *path)
{
	FLMEM_AUTO_MOUNTS struct flmem_mounts mounts = FLMEM_MOUNTS_INIT;
	FLMEM_AUTO_CLOSE int root =
		openat(process->dirfd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct flmem_mount *mount;
	char place[PATH_MAX];
	const char *why;

	/*
	 * A relative path is resolved against the working directory at Python's first use, which is
	 * unknown; and Python removes ".." as text, even after a link (os.path.abspath()).
	 */
	if (path[0] != '/' || strstr(path, "/.."))
		return FLMEM_UNKNOWN("its directory for temporary files is not a plain path");
	if (root < 0 || flmem_mounts_read(process, &mounts))
		return FLMEM_UNKNOWN("its mounts could not be read");
	why = flmem_path_resolve(root, &mounts, path, place);
	if (why)
		return FLMEM_UNKNOWN(why);
	mount = flmem_mounts_covering(&mounts, place);
	if (!mount)
		return FLMEM_UNKNOWN("no mount that it sees holds its temporary files");
	return FLMEM_KNOWN(strcmp(mount->type, "tmpfs") == 0 || strcmp(mount->type, "ramfs") == 0);
}
