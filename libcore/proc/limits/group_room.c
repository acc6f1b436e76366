/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/limits/group_room.h"

#include <fcntl.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/buf.h"
#include "proc/limits/cgroup.h"
#include "proc/process.h"

#define FILE_MAX ((size_t)64 << 10)

/* The files of one version of the memory controller, and lines of its memory.stat. */
struct room_version {
	const char *max, *high, *used;
	const char *inactive, *active, *mapped;
};

static const struct room_version room_version_1 = {
	.max = "memory.limit_in_bytes",
	.used = "memory.usage_in_bytes",
	.inactive = "\ntotal_inactive_file ",
	.active = "\ntotal_active_file ",
	.mapped = "\ntotal_mapped_file ",
};

static const struct room_version room_version_2 = {
	.max = "memory.max",
	.high = "memory.high",
	.used = "memory.current",
	.inactive = "\ninactive_file ",
	.active = "\nactive_file ",
	.mapped = "\nfile_mapped ",
};

/* Parses the number before the end of the line; `unread` if there is none. */
static uint64_t parse_line_number(char *at, uint64_t unread)
{
	uint64_t number;

	at[strcspn(at, "\n")] = '\0';
	return flmem_parse_u64(at, 0, UINT64_MAX, &number, NULL) ? unread : number;
}

static uint64_t read_stat_line(const struct flmem_buf *stat, const char *key, uint64_t unread)
{
	FLMEM_AUTO_FREE char *copy = strdup(stat->data);
	char *at = copy ? strstr(copy, key) : NULL;

	return at ? parse_line_number(at + strlen(key), unread) : unread;
}

static uint64_t read_droppable(int group, const struct flmem_buf *above,
			       const struct room_version *version)
{
	FLMEM_AUTO_BUF struct flmem_buf path = FLMEM_BUF_INIT, text = FLMEM_BUF_INIT;
	FLMEM_AUTO_BUF struct flmem_buf stat = FLMEM_BUF_INIT;
	uint64_t files, mapped;

	flmem_buf_printf(&path, "%smemory.stat", above->data);
	if (path.failed || flmem_io_read_file_at(group, path.data, FILE_MAX, &text))
		return 0;
	flmem_buf_printf(&stat, "\n%s", text.data);
	if (stat.failed)
		return 0;
	files = read_stat_line(&stat, version->inactive, 0) +
		read_stat_line(&stat, version->active, 0);
	mapped = read_stat_line(&stat, version->mapped, UINT64_MAX);
	return files > mapped ? files - mapped : 0;
}

static uint64_t find_room(int group, const struct flmem_buf *above,
			  const struct room_version *version)
{
	uint64_t most = flmem_cgroup_number_above(group, above, version->max);
	const uint64_t used = flmem_cgroup_number_above(group, above, version->used);
	const uint64_t high =
		version->high ? flmem_cgroup_number_above(group, above, version->high) : UINT64_MAX;
	uint64_t needed;

	most = high < most ? high : most;
	if (most == UINT64_MAX)
		return most;
	if (used == UINT64_MAX) /* the use cannot be read */
		return 0;
	needed = read_droppable(group, above, version);
	needed = used > needed ? used - needed : 0;
	return needed < most ? most - needed : 0;
}

static uint64_t find_least_room(int group, const struct room_version *version)
{
	FLMEM_AUTO_BUF struct flmem_buf above = FLMEM_BUF_INIT;
	uint64_t least = UINT64_MAX;

	while (flmem_cgroup_climb(group, &above)) {
		const uint64_t room = find_room(group, &above, version);

		least = room < least ? room : least;
	}
	return least;
}

uint64_t flmem_group_room_left(int rootfd, const struct flmem_process *process, bool until_slow)
{
	struct room_version version = room_version_1;
	FLMEM_AUTO_CGROUPS struct flmem_cgroups *cgroups = NULL;
	FLMEM_AUTO_CGROUP_PLACE struct flmem_cgroup_place place = FLMEM_CGROUP_PLACE_INIT;

	if (flmem_cgroups_open_at(rootfd, &cgroups, NULL) || !cgroups)
		return 0; /* the mounts cannot be read */
	flmem_cgroups_open_place(cgroups, process, &place);
	if (place.memory >= 0)
		return find_least_room(place.memory, &version);
	version = room_version_2;
	if (!until_slow)
		version.high = NULL;
	return place.unified < 0 ? UINT64_MAX : find_least_room(place.unified, &version);
}

int flmem_group_room_check(const struct flmem_process *process, uint64_t bytes, const char *what,
			   const char *how, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const uint64_t left = root < 0 ? 0 : flmem_group_room_left(root, process, true);

	if (left >= bytes)
		return 0;
	return flmem_error_set(err, FLMEM_EUNSAFE, 0,
			       "the control group of process %d leaves %llu MiB (memory.max, "
			       "memory.high), and %s may take %llu MiB, for which a process there "
			       "could be killed; %s",
			       (int)process->pid, (unsigned long long)(left >> 20), what,
			       (unsigned long long)(bytes >> 20), how);
}
