/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/files/leftovers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/portable.h"
#include "base/text/text.h"

#define ENTRIES_MAX 100000U /* entries of all directories together */
#define DEPTH_MAX   8U
#define BLOCK_BYTES 512U /* unit of st_blocks, stat(3type) */

struct leftover_walk {
	uint64_t deadline_us;
	unsigned entries;
	dev_t device;
};

static bool is_spent(struct leftover_walk *walk)
{
	return ++walk->entries > ENTRIES_MAX || flmem_clock_us() > walk->deadline_us;
}

static DIR *open_listed_dir(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Counts the files below a directory. The depth is limited, which bounds the recursion. */
static void count_files(struct leftover_walk *walk, int parent, const char *name, unsigned depth,
			struct flmem_leftover *found)
{
	FLMEM_AUTO_DIR DIR *dir = depth < DEPTH_MAX ? open_listed_dir(parent, name) : NULL;
	struct stat status;

	if (!dir) {
		found->partly = true;
		return;
	}
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (is_dots(entry->d_name))
			continue;
		if (is_spent(walk) ||
		    fstatat(dirfd(dir), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
		    status.st_dev != walk->device) {
			found->partly = true;
			if (walk->entries > ENTRIES_MAX || flmem_clock_us() > walk->deadline_us)
				return;
		} else if (S_ISDIR(status.st_mode)) {
			count_files(walk, dirfd(dir), entry->d_name, depth + 1, found);
		} else if (S_ISREG(status.st_mode)) {
			found->files++;
			found->bytes += (uint64_t)status.st_blocks * BLOCK_BYTES;
		}
	}
}

static bool is_leftover_name(const char *name)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t length = strspn(name, plain);

	return !name[length] && length < FLMEM_LEFTOVER_NAME_MAX;
}

/* Reads a directory. Returns false for anything else, such as a symbolic link of this name. */
static bool read_leftover(struct leftover_walk *walk, int parent, const char *name,
			  struct flmem_leftover *ret_found)
{
	struct statx status;
	struct stat plain;

	if (fstatat(parent, name, &plain, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(plain.st_mode))
		return false;
	*ret_found = (struct flmem_leftover){.uid = plain.st_uid};
	memcpy(ret_found->name, name, strlen(name) + 1);
	if (flmem_file_statx(parent, name, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &status) == 0 &&
	    (status.stx_mask & STATX_BTIME) && status.stx_btime.tv_sec > 0)
		ret_found->created_s = (uint64_t)status.stx_btime.tv_sec;
	walk->device = plain.st_dev;
	count_files(walk, parent, name, 0, ret_found);
	return true;
}

void flmem_leftovers_find(int fd, const char *prefix, uint64_t deadline_us,
			  struct flmem_leftovers *ret_leftovers)
{
	struct leftover_walk walk = {.deadline_us = deadline_us};
	FLMEM_AUTO_DIR DIR *dir = open_listed_dir(fd, ".");

	*ret_leftovers = (struct flmem_leftovers){0};
	for (struct dirent *entry; dir && !ret_leftovers->more && (entry = readdir(dir));) {
		bool wanted =
			flmem_text_starts(entry->d_name, prefix) && is_leftover_name(entry->d_name);

		if (is_spent(&walk) || (wanted && ret_leftovers->count == FLMEM_LEFTOVERS_MAX))
			ret_leftovers->more = true;
		else if (wanted && read_leftover(&walk, fd, entry->d_name,
						 &ret_leftovers->rows[ret_leftovers->count]))
			ret_leftovers->count++;
	}
}
