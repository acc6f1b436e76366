/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/files/path_resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/files/mounts.h"

#define LINKS_MAX 40U  /* as the kernel's MAXSYMLINKS */
#define NAMES_MAX 512U /* that are followed, those in links included */

static const char too_long[] = "the path leads through too many links and names";
static const char unreadable[] = "access to a part of the path is denied";
static const char elsewhere[] = "the path leads through a file system that may not answer";

struct way {
	int root;
	const struct flmem_mounts *mounts;
	bool missing;	     /* the remaining names do not exist */
	unsigned links;	     /* followed */
	char done[PATH_MAX]; /* without links; "": the root */
	char rest[PATH_MAX];
};

/* File systems that need no server and no program; not /proc, whose links depend on the reader. */
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
static const char *prepend_link(struct way *way, int link)
{
	char target[PATH_MAX];
	ssize_t length = readlinkat(link, "", target, sizeof(target));
	size_t rest = strlen(way->rest);

	if (length <= 0)
		return unreadable;
	if (++way->links > LINKS_MAX || (size_t)length + 1 + rest >= sizeof(way->rest))
		return too_long;
	memmove(way->rest + length + 1, way->rest, rest + 1);
	way->rest[length] = '/';
	memcpy(way->rest, target, (size_t)length);
	if (target[0] == '/')
		way->done[0] = '\0';
	else
		drop_last_name(way->done);
	return NULL;
}

/*
 * Checks the last name of `done`. A name that is replaced meanwhile gives an error, not another
 * file.
 */
static const char *check_last_name(struct way *way)
{
	const struct flmem_mount *mount = flmem_mounts_covering(way->mounts, way->done);
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS,
	};
	FLMEM_AUTO_CLOSE int fd = -1;
	struct stat status;

	if (!mount || !is_local_type(mount->type))
		return elsewhere;
	fd = (int)syscall(SYS_openat2, way->root, way->done, &how, sizeof(how));
	way->missing = fd < 0 && errno == ENOENT;
	if (way->missing)
		return NULL;
	if (fd < 0 || fstat(fd, &status) < 0)
		return unreadable;
	return S_ISLNK(status.st_mode) ? prepend_link(way, fd) : NULL;
}

/* Moves the next name from the rest to `done`. */
static const char *follow_name(struct way *way)
{
	size_t skip = strspn(way->rest, "/"), length = strcspn(way->rest + skip, "/");
	const char *name = way->rest + skip;
	size_t done = strlen(way->done);
	bool up = length == 2 && name[0] == '.' && name[1] == '.';
	bool counts = length && !up && !(length == 1 && name[0] == '.');

	if (counts && done + 1 + length >= sizeof(way->done))
		return too_long;
	if (up && way->missing)
		return unreadable;
	if (counts) {
		way->done[done] = '/';
		memcpy(way->done + done + 1, name, length);
		way->done[done + 1 + length] = '\0';
	}
	memmove(way->rest, name + length, strlen(name + length) + 1);
	if (up)
		drop_last_name(way->done);
	return counts && !way->missing ? check_last_name(way) : NULL;
}

const char *flmem_path_resolve(int root, const struct flmem_mounts *mounts, const char *path,
			       char ret_path[PATH_MAX])
{
	struct way way = {.root = root, .mounts = mounts};
	const char *why = strlen(path) < sizeof(way.rest) ? NULL : too_long;

	if (!why)
		memcpy(way.rest, path, strlen(path) + 1);
	for (unsigned names = 0; !why && *way.rest; names++)
		why = names < NAMES_MAX ? follow_name(&way) : too_long;
	if (!why)
		snprintf(ret_path, PATH_MAX, "%s", *way.done ? way.done : "/");
	return why;
}
