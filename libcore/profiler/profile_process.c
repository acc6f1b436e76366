/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <flmem/text.h>

#include "proc/maps.h"
#include "proc/process.h"
#include "proc/scan.h"
#include "proc/status.h"
#include "proc/time_namespace.h"
#include "profiler/profile_file.h"

/*
 * Returns true if the process has the sampler, or hides whether it does: it may have executed a
 * program without it.
 */
static bool has_sampler(const struct flmem_process *process)
{
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};

	return flmem_maps_read(process, &maps, NULL) || !maps.count ||
	       flmem_maps_have_sampler(&maps);
}

/* Finds the process in the PID namespace of the caller. */
static bool is_sampled_process(const struct flmem_profile_header *header, pid_t *ret_pid)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

	*ret_pid = (pid_t)header->pid;
	return header->pid && header->pid <= INT32_MAX &&
	       flmem_process_open((pid_t)header->pid, &process, NULL) == 0 &&
	       flmem_time_namespace_is_start(&process, header->start_time_ticks) &&
	       flmem_process_alive(&process) && has_sampler(&process);
}

static bool has_process_id(pid_t pid, const struct flmem_profile_header *header)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	struct flmem_status status;

	return flmem_process_open(pid, &process, NULL) == 0 &&
	       flmem_status_read(&process, &status, NULL) == 0 && !status.ns_pid.unknown &&
	       status.ns_pid.value == header->pid &&
	       flmem_time_namespace_is_start(&process, header->start_time_ticks) &&
	       has_sampler(&process);
}

#define CLOCK_NAME_MAX 64

static bool read_clock_name(int proc, const char *path, char *out)
{
	ssize_t length = readlinkat(proc, path, out, CLOCK_NAME_MAX - 1);

	out[length > 0 ? length : 0] = '\0';
	return length > 0;
}

/*
 * Returns false if the process has another time namespace, or may have one; before Linux 5.6 there
 * is only one.
 */
static bool has_clock(int proc, pid_t pid, const char *own)
{
	char path[64], name[CLOCK_NAME_MAX];

	snprintf(path, sizeof(path), "%d/ns/time", (int)pid);
	return !*own || (read_clock_name(proc, path, name) && strcmp(name, own) == 0);
}

/*
 * Finds the process in a container that is seen from its host. Few processes began in the same
 * tick.
 */
static bool is_contained_process(const struct flmem_profile_header *header, pid_t *ret_pid)
{
	FLMEM_AUTO_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FLMEM_AUTO_SCAN struct flmem_scan scan = {0};
	char own[CLOCK_NAME_MAX];

	if (proc < 0 || flmem_scan_read(proc, &scan, NULL))
		return false;
	read_clock_name(proc, "self/ns/time", own);
	for (size_t i = 0; i < scan.count; i++) {
		const struct flmem_scan_row *row = &scan.rows[i];

		if (flmem_scan_row_runs(row) &&
		    (row->start_time == header->start_time_ticks ||
		     !has_clock(proc, row->pid, own)) &&
		    has_process_id(row->pid, header)) {
			*ret_pid = row->pid;
			return true;
		}
	}
	return false;
}

pid_t flmem_profile_process_find(const struct flmem_profile_header *header)
{
	pid_t pid;

	return is_sampled_process(header, &pid) || is_contained_process(header, &pid) ? pid : 0;
}

bool flmem_profile_process_lives(const struct flmem_profile_header *header)
{
	return flmem_profile_process_find(header) != 0;
}

/*
 * True if the mapping is the whole file: the sampler maps it at once, shared, which nothing
 * divides.
 */
static bool is_whole_profile(const struct flmem_map *map, const struct flmem_profile_header *header)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (map->flags & (FLMEM_MAP_SHARED | FLMEM_MAP_WRITE)) ==
		       (FLMEM_MAP_SHARED | FLMEM_MAP_WRITE) &&
	       map->inode && !map->offset &&
	       map->end - map->start == (header->file_size + page - 1) / page * page;
}

/* Devices differ if the same file is seen through overlayfs, so only the inodes are compared. */
bool flmem_profile_is_copy(pid_t pid, const struct flmem_profile_header *header,
			   const struct stat *status, char *ret_name, size_t size)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	const char *name = NULL;

	if (flmem_process_open(pid, &process, NULL) || flmem_maps_read(&process, &maps, NULL))
		return false;
	for (size_t i = 0; i < maps.count; i++) {
		if (maps.rows[i].inode == (uint64_t)status->st_ino)
			return false;
		if (is_whole_profile(&maps.rows[i], header))
			name = maps.rows[i].name;
	}
	if (name)
		flmem_text_escape(name, ret_name, size);
	return name != NULL;
}
