/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/files/local_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/portable.h"
#include "base/text/text.h"
#include "proc/files/mounts.h"

#define MOUNTINFO_MAX ((size_t)4 << 20)
#define FDINFO_MAX    ((size_t)4 << 10)
/* RESOLVE_CACHED, which older headers lack. */
#define FROM_CACHE 0x20

static const struct local_kind {
	uint32_t magic;
	const char *name;
} local_kinds[] = {
	{0x01021994, "tmpfs"},	  {0x858458F6, "ramfs"},    {0x0000EF53, "ext2"},
	{0x0000EF53, "ext3"},	  {0x0000EF53, "ext4"},	    {0x58465342, "xfs"},
	{0x9123683E, "btrfs"},	  {0xF2F52010, "f2fs"},	    {0x2FC12FC1, "zfs"},
	{0xCA451A4E, "bcachefs"}, {0x73717368, "squashfs"}, {0xE0F5E1E2, "erofs"},
};

bool flmem_local_path_is_here(int fd)
{
	struct statfs system;

	if (fstatfs(fd, &system))
		return false;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(local_kinds); i++)
		if ((uint32_t)system.f_type == local_kinds[i].magic)
			return true;
	return false;
}

static bool is_local_kind(const char *type)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(local_kinds); i++)
		if (strcmp(type, local_kinds[i].name) == 0)
			return true;
	return false;
}

/*
 * Looks up the mount in the kernel's list: statfs() would query a server. Mounts of another
 * namespace are missing.
 */
static bool is_mount_local(uint64_t id)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	char *rest, *line;

	if (flmem_io_read_file_at(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, &text))
		return false;
	for (rest = text.data; (line = strsep(&rest, "\n"));) {
		const char *number = line;
		struct flmem_mount mount;
		uint64_t found;

		if (flmem_text_read_digits(&number, &found) && found == id)
			return flmem_mount_split(line, &mount) && is_local_kind(mount.type);
	}
	return false;
}

static bool is_found_local(int found)
{
	static const char key[] = "mnt_id:\t";
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	char path[64];
	const char *at;
	uint64_t id;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", found);
	if (flmem_io_read_file_at(AT_FDCWD, path, FDINFO_MAX, &text))
		return false;
	at = strstr(text.data, key);
	if (!at)
		return false;
	at += strlen(key);
	return flmem_text_read_digits(&at, &id) && is_mount_local(id);
}

int flmem_local_path_find(const char *path, struct stat *ret_status)
{
	const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = FROM_CACHE};
	FLMEM_AUTO_CLOSE int found = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	if (found < 0)
		return errno == ENOENT ? -ENOENT : -EAGAIN;
	if (!is_found_local(found) || fstat(found, ret_status) < 0)
		return -EAGAIN;
	return FLMEM_TAKE_FD(found);
}
