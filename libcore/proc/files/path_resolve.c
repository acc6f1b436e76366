/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/files/path_resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/files/mounts.h"

#define LINKS_MAX 40U  /* most links, as the kernel's MAXSYMLINKS */
#define NAMES_MAX 512U /* most names that are followed, including those in links */

static const char too_long[] = "the path leads through too many links and names";
static const char path_resolve_unreadable[] = "access to a part of the path is denied";
static const char path_resolve_elsewhere[] =
	"the path leads through a file system that may not answer";

struct path_resolution {
	int root;
	const struct flmem_mounts *mounts;
	bool missing;	     /* the remaining names do not exist */
	unsigned links;	     /* number of links followed so far */
	char done[PATH_MAX]; /* resolved part of the path, without links; "": the root */
	char rest[PATH_MAX];
};

/*
 * Returns true for file systems that need no server and no program; not for /proc, whose links
 * depend on the reader.
 */
static bool is_local_type(const char *type)
{
	static const char *const types[] = {
		"bcachefs", "btrfs", "devtmpfs", "erofs",    "ext2",  "ext3", "ext4", "f2fs", "jfs",
		"overlay",  "ramfs", "rootfs",	 "squashfs", "tmpfs", "vfat", "xfs",  "zfs",
	};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(types); i++)
		if (strcmp(type, types[i]) == 0)
			return true;
	return false;
}

static void drop_last_name(char *done)
{
	char *slash = strrchr(done, '/');

	if (slash)
		*slash = '\0';
}

/* Puts the link's target before the remaining names. */
static const char *prepend_link(struct path_resolution *resolution, int link)
{
	char target[PATH_MAX];
	ssize_t length = readlinkat(link, "", target, sizeof(target));
	size_t rest = strlen(resolution->rest);

	if (length <= 0)
		return path_resolve_unreadable;
	if (++resolution->links > LINKS_MAX ||
	    (size_t)length + 1 + rest >= sizeof(resolution->rest))
		return too_long;
	memmove(resolution->rest + length + 1, resolution->rest, rest + 1);
	resolution->rest[length] = '/';
	memcpy(resolution->rest, target, (size_t)length);
	if (target[0] == '/')
		resolution->done[0] = '\0';
	else
		drop_last_name(resolution->done);
	return NULL;
}

/*
 * Checks the last name of `done`. A name that is replaced meanwhile gives an error, not another
 * file.
 */
static const char *check_last_name(struct path_resolution *resolution)
{
	const struct flmem_mount *mount =
		flmem_mounts_covering(resolution->mounts, resolution->done);
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS,
	};
	FLMEM_AUTO_CLOSE int fd = -1;
	struct stat status;

	if (!mount || !is_local_type(mount->type))
		return path_resolve_elsewhere;
	fd = (int)syscall(SYS_openat2, resolution->root, resolution->done, &how, sizeof(how));
	resolution->missing = fd < 0 && errno == ENOENT;
	if (resolution->missing)
		return NULL;
	if (fd < 0 || fstat(fd, &status) < 0)
		return path_resolve_unreadable;
	return S_ISLNK(status.st_mode) ? prepend_link(resolution, fd) : NULL;
}

/* Moves the next name from the rest to `done`. */
static const char *follow_name(struct path_resolution *resolution)
{
	size_t skip = strspn(resolution->rest, "/"), length = strcspn(resolution->rest + skip, "/");
	const char *name = resolution->rest + skip;
	size_t done = strlen(resolution->done);
	bool up = length == 2 && name[0] == '.' && name[1] == '.';
	bool counts = length && !up && !(length == 1 && name[0] == '.');

	if (counts && done + 1 + length >= sizeof(resolution->done))
		return too_long;
	if (up && resolution->missing)
		return path_resolve_unreadable;
	if (counts) {
		resolution->done[done] = '/';
		memcpy(resolution->done + done + 1, name, length);
		resolution->done[done + 1 + length] = '\0';
	}
	memmove(resolution->rest, name + length, strlen(name + length) + 1);
	if (up)
		drop_last_name(resolution->done);
	return counts && !resolution->missing ? check_last_name(resolution) : NULL;
}

const char *flmem_path_resolve(int root, const struct flmem_mounts *mounts, const char *path,
			       char ret_path[PATH_MAX])
{
	struct path_resolution resolution = {.root = root, .mounts = mounts};
	const char *why = strlen(path) < sizeof(resolution.rest) ? NULL : too_long;

	if (!why)
		memcpy(resolution.rest, path, strlen(path) + 1);
	for (unsigned names = 0; !why && *resolution.rest; names++)
		why = names < NAMES_MAX ? follow_name(&resolution) : too_long;
	if (!why)
		snprintf(ret_path, PATH_MAX, "%s", *resolution.done ? resolution.done : "/");
	return why;
}
