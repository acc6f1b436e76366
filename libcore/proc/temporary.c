/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/temporary.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/text.h"
#include "proc/process.h"

#define MOUNTINFO_MAX ((size_t)4 << 20)

static bool is_octal(const char *digits)
{
	return digits[0] >= '0' && digits[0] <= '3' && digits[1] >= '0' && digits[1] <= '7' &&
	       digits[2] >= '0' && digits[2] <= '7';
}

/* Whether a mount point, with its \ooo, is the path or above it; how much of the path it is. */
static bool covers(const char *point, size_t length, const char *path, size_t *ret_depth)
{
	size_t at = 0;

	for (size_t i = 0; i < length; i++, at++) {
		char c = point[i];

		if (c == '\\' && length - i > 3 && is_octal(point + i + 1)) {
			c = (char)((point[i + 1] - '0') << 6 | (point[i + 2] - '0') << 3 |
				   (point[i + 3] - '0'));
			i += 3;
		}
		if (!c || path[at] != c)
			return false;
	}
	*ret_depth = at;
	return at == 1 || !path[at] || path[at] == '/';
}

/* 36 35 0:31 ROOT POINT options [tags] - TYPE source SUPEROPTIONS, proc_pid_mountinfo(5) */
static bool split(const char *line, size_t length, const char **ret_point, const char **ret_type)
{
	const char *end = line + length, *tail = memmem(line, length, " - ", 3), *word = line;

	if (!tail || tail + 3 == end)
		return false;
	for (int i = 0; i < 4; i++) {
		word = memchr(word, ' ', (size_t)(tail - word));
		if (!word)
			return false;
		word++;
	}
	*ret_point = word;
	*ret_type = tail + 3;
	return *word == '/';
}

/* Of mounts at one place, the last is on top. */
bool flmem_mount_type_of(const char *mountinfo, const char *path,
			 char ret_type[FLMEM_MOUNT_TYPE_MAX])
{
	size_t deepest = 0, length;

	for (const char *line = mountinfo; *line; line += length + (line[length] == '\n')) {
		const char *point, *type;
		size_t depth;

		length = strcspn(line, "\n");
		if (!split(line, length, &point, &type) ||
		    !covers(point, strcspn(point, " \n"), path, &depth) || depth < deepest)
			continue;
		deepest = depth;
		snprintf(ret_type, FLMEM_MOUNT_TYPE_MAX, "%.*s",
			 (int)strnlen(type, strcspn(type, " \n")), type);
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
