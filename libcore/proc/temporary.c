/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/temporary.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/io.h"
#include "proc/mounts.h"
#include "proc/process.h"

#define MOUNTINFO_MAX ((size_t)4 << 20)

/* Whether a mount point is the path or above it. */
static bool covers(const char *point, const char *path)
{
	size_t length = strlen(point);

	return strncmp(point, path, length) == 0 &&
	       (length == 1 || !path[length] || path[length] == '/');
}

/* Of mounts at one place, the last is on top. */
bool flmem_mount_type_of(char *mountinfo, const char *path, char ret_type[FLMEM_MOUNT_TYPE_MAX])
{
	size_t deepest = 0;

	for (char *line; (line = strsep(&mountinfo, "\n"));) {
		struct flmem_mount mount;

		if (!flmem_mount_split(line, &mount) || !covers(mount.point, path) ||
		    strlen(mount.point) < deepest)
			continue;
		deepest = strlen(mount.point);
		snprintf(ret_type, FLMEM_MOUNT_TYPE_MAX, "%s", mount.type);
	}
	return deepest;
}

struct flmem_u64 flmem_temporary_in_memory(const struct flmem_process *process, const char *path)
{
	FLMEM_AUTO_BUF struct flmem_buf mounts = FLMEM_BUF_INIT;
	char type[FLMEM_MOUNT_TYPE_MAX];

	if (path[0] != '/' || strstr(path, "/.") || strstr(path, "//"))
		return FLMEM_UNKNOWN("its directory for temporary files is no plain path");
	if (flmem_io_read_file_at(process->dirfd, "mountinfo", MOUNTINFO_MAX, &mounts) ||
	    !flmem_mount_type_of(mounts.data, path, type))
		return FLMEM_UNKNOWN("its mounts could not be read");
	return FLMEM_KNOWN(strcmp(type, "tmpfs") == 0 || strcmp(type, "ramfs") == 0);
}
