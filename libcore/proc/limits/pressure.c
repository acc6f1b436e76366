/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/limits/pressure.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text/text.h"
#include "proc/limits/cgroup.h"

#define TEXT_MAX 1024

static const char not_counted[] = "this kernel or its cgroup version does not count it";
static const char no_stalls[] = "this kernel does not measure stalls (CONFIG_PSI)";

void flmem_pressure_init(struct flmem_pressure *pressure, const char *unknown)
{
	*pressure = (struct flmem_pressure){
		.high = FLMEM_UNKNOWN(unknown),
		.max = FLMEM_UNKNOWN(unknown),
		.oom = FLMEM_UNKNOWN(unknown),
		.oom_kill = FLMEM_UNKNOWN(unknown),
		.some_avg10_hundredths = FLMEM_UNKNOWN(unknown),
		.full_avg10_hundredths = FLMEM_UNKNOWN(unknown),
		.some_total_us = FLMEM_UNKNOWN(unknown),
	};
}

/* Reads NAME, a space and a number that ends the line. */
static bool read_event(const char *line, const char *name, struct flmem_u64 *number)
{
	size_t length = strlen(name);
	const char *digits = line + length + 1;
	uint64_t value;

	if (strncmp(line, name, length) != 0 || line[length] != ' ' ||
	    !flmem_text_read_digits(&digits, &value) || (*digits && *digits != '\n'))
		return false;
	*number = FLMEM_KNOWN(value);
	return true;
}

static const char *find_next_counter(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : line + strlen(line);
}

void flmem_pressure_parse_events(const char *text, struct flmem_pressure *pressure)
{
	for (const char *line = text; *line; line = find_next_counter(line)) {
		if (read_event(line, "high", &pressure->high) ||
		    read_event(line, "max", &pressure->max) ||
		    read_event(line, "oom", &pressure->oom))
			continue;
		read_event(line, "oom_kill", &pressure->oom_kill);
	}
}

/* Reads a share, for which the kernel writes two decimals; it is at most 100. */
static bool read_share(const char *text, struct flmem_u64 *hundredths)
{
	uint64_t whole, part;
	const char *digits;

	if (!flmem_text_read_digits(&text, &whole) || *text++ != '.')
		return false;
	digits = text;
	if (!flmem_text_read_digits(&text, &part) || text - digits != 2 || whole > 100)
		return false;
	*hundredths = FLMEM_KNOWN(whole * 100 + part);
	return true;
}

void flmem_pressure_parse_stalls(const char *text, struct flmem_pressure *pressure)
{
	static const char some[] = "some avg10=", full[] = "full avg10=", total[] = " total=";

	for (const char *line = text; *line; line = find_next_counter(line)) {
		const char *at;
		uint64_t us;

		if (flmem_text_starts(line, full))
			read_share(line + sizeof(full) - 1, &pressure->full_avg10_hundredths);
		if (!flmem_text_starts(line, some) ||
		    !read_share(line + sizeof(some) - 1, &pressure->some_avg10_hundredths))
			continue;
		at = strstr(line, total);
		if (!at || at > find_next_counter(line))
			continue;
		at += sizeof(total) - 1;
		if (flmem_text_read_digits(&at, &us))
			pressure->some_total_us = FLMEM_KNOWN(us);
	}
}

static int open_below(int directory, const char *name)
{
	return directory < 0 ? -1 : openat(directory, name, O_RDONLY | O_CLOEXEC);
}

static void read_group_identity(int directory, struct flmem_pressure_files *files)
{
	struct stat status;

	if (directory < 0 || fstat(directory, &status) < 0)
		return;
	files->device = status.st_dev;
	files->inode = status.st_ino;
}

/* Opens the file of stalls. Version 2 may measure them even if version 1 has the limits. */
static void open_stalls(struct flmem_cgroups *cgroups, const struct flmem_cgroup_place *place,
			struct flmem_pressure_files *files)
{
	files->stalls = open_below(place->unified, "memory.pressure");
	if (files->stalls >= 0)
		return;
	files->stalls = flmem_cgroups_open_host(cgroups, "proc/pressure/memory");
	files->stalls_of_host = true;
}

void flmem_pressure_open(struct flmem_cgroups *cgroups, const struct flmem_process *process,
			 struct flmem_pressure_files *ret_files)
{
	FLMEM_AUTO_CGROUP_PLACE struct flmem_cgroup_place place = FLMEM_CGROUP_PLACE_INIT;
	struct flmem_pressure_files files = FLMEM_PRESSURE_FILES_INIT;

	files.unknown = flmem_cgroups_open_place(cgroups, process, &place);
	if (place.memory >= 0) {
		files.failures = open_below(place.memory, "memory.failcnt");
		files.control = open_below(place.memory, "memory.oom_control");
	} else {
		files.events = open_below(place.unified, "memory.events");
	}
	read_group_identity(place.memory >= 0 ? place.memory : place.unified, &files);
	open_stalls(cgroups, &place, &files);
	*ret_files = files;
}

void flmem_pressure_close(struct flmem_pressure_files *files)
{
	flmem_cleanup_close(&files->events);
	flmem_cleanup_close(&files->failures);
	flmem_cleanup_close(&files->control);
	flmem_cleanup_close(&files->stalls);
	*files = (struct flmem_pressure_files)FLMEM_PRESSURE_FILES_INIT;
}

/* Reads an open file again from its beginning; "" if the group was removed. */
static void reread_file(int fd, char text[TEXT_MAX])
{
	ssize_t got = fd < 0 ? 0 : pread(fd, text, TEXT_MAX - 1, 0);

	text[got > 0 ? got : 0] = '\0';
}

void flmem_pressure_read(const struct flmem_pressure_files *files,
			 struct flmem_pressure *ret_pressure)
{
	struct flmem_u64 none = FLMEM_UNKNOWN(no_stalls);
	const char *digits;
	char text[TEXT_MAX];
	uint64_t failures;

	flmem_pressure_init(ret_pressure, files->unknown ? files->unknown : not_counted);
	ret_pressure->some_avg10_hundredths = ret_pressure->full_avg10_hundredths =
		ret_pressure->some_total_us = none;
	ret_pressure->stalls_of_host = files->stalls_of_host;
	reread_file(files->events, text);
	flmem_pressure_parse_events(text, ret_pressure);
	reread_file(files->control, text);
	flmem_pressure_parse_events(text, ret_pressure);
	reread_file(files->failures, text);
	digits = text;
	if (flmem_text_read_digits(&digits, &failures))
		ret_pressure->max = FLMEM_KNOWN(failures);
	reread_file(files->stalls, text);
	flmem_pressure_parse_stalls(text, ret_pressure);
}
