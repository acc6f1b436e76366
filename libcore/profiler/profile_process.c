/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text/text.h"
#include "proc/maps.h"
#include "proc/process.h"
#include "proc/scan.h"
#include "proc/status.h"
#include "proc/time_namespace.h"
#include "profiler/profile_file.h"

/* libflmem-sampler.so, -ready.so, and .flmem-NUMBER.so of `attach`, which is deleted. */
static bool is_sampler_file(const char *name)
{
	const char *base = flmem_text_basename(name);

	return flmem_text_starts(base, "libflmem-sampler") ||
	       (flmem_text_starts(base, ".flmem-") && strstr(base, ".so"));
}

/* A process may have executed a program without the sampler. Of one that hides it, true. */
static bool has_sampler(const struct flmem_process *process)
{
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};

	if (flmem_maps_read(process, &maps, NULL) || !maps.count)
		return true;
	for (size_t i = 0; i < maps.count; i++)
		if (is_sampler_file(maps.rows[i].name))
			return true;
	return false;
}

/* In the PID namespace of the caller. */
static bool is_sampled_process(const struct flmem_profile_header *header)
{
	FLMEM_AUTO_PROCESS struct flmem_process process = FLMEM_PROCESS_INIT;

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

/* False where it has another time namespace, or may have; before Linux 5.6 there is one. */
static bool has_clock(int proc, pid_t pid, const char *own)
{
	char path[64], name[CLOCK_NAME_MAX];

	snprintf(path, sizeof(path), "%d/ns/time", (int)pid);
	return !*own || (read_clock_name(proc, path, name) && strcmp(name, own) == 0);
}

/* In a container that is seen from its host. Few processes began in the same tick. */
static bool is_contained_process(const struct flmem_profile_header *header)
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
		    has_process_id(row->pid, header))
			return true;
	}
	return false;
}

bool flmem_profile_process_lives(const struct flmem_profile_header *header)
{
	return is_sampled_process(header) || is_contained_process(header);
}
