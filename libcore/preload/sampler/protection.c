/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the access rights of the process to its memory, from /proc/self/maps. */

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/sampler/got.h"

#define AREAS_MAX     131072U /* twice the kernel's default limit */
#define AREAS_SIZE    (AREAS_MAX * sizeof(struct sampler_area))
#define LINE_MAX_SIZE 16384U
#define MAPPED_SIZE   (AREAS_SIZE + LINE_MAX_SIZE)

/* Adds the area of a line: start-end rwxp ... */
static bool take_area(struct sampler_areas *areas, const char *line)
{
	struct sampler_area area = {.start = sampler_read_hex(&line)};

	if (*line++ != '-' || areas->count >= AREAS_MAX)
		return false;
	area.end = sampler_read_hex(&line);
	if (line[0] != ' ' || !line[1] || !line[2] || !line[3])
		return false;
	area.access = (line[1] == 'r' ? PROT_READ : 0) | (line[2] == 'w' ? PROT_WRITE : 0) |
		      (line[3] == 'x' ? PROT_EXEC : 0);
	areas->rows[areas->count++] = area;
	return true;
}

/* Adds the areas of the complete lines. Returns the length of the incomplete last line, or -1. */
static ssize_t take_areas(struct sampler_areas *areas, char *buffer, size_t length, bool *is_cut)
{
	char *line = buffer, *end;

	while ((end = memchr(line, '\n', length - (size_t)(line - buffer)))) {
		*end = '\0';
		if (!*is_cut && !take_area(areas, line))
			return -1;
		*is_cut = false;
		line = end + 1;
	}
	length -= (size_t)(line - buffer);
	memmove(buffer, line, length);
	return (ssize_t)length;
}

/*
 * The areas are not on the stack: dlopen() and dlsym() need little of it, so a program may have
 * little left.
 */
static bool read_areas(struct sampler_areas *areas, int fd)
{
	char *buffer = (char *)areas->rows + AREAS_SIZE;
	ssize_t kept = 0, got = 1;
	bool is_cut = false;

	while (kept >= 0 && got > 0) {
		got = sampler_read_file(fd, buffer + kept, LINE_MAX_SIZE - (size_t)kept);
		if (got > 0)
			kept = take_areas(areas, buffer, (size_t)(kept + got), &is_cut);
		if ((size_t)kept == LINE_MAX_SIZE) {
			/*
			 * Paths have no length limit there; only the start of the line is needed.
			 */
			kept = is_cut || take_area(areas, buffer) ? 0 : -1;
			is_cut = true;
		}
	}
	return got == 0 && kept == 0;
}

bool sampler_areas_read(struct sampler_areas *ret_areas)
{
	struct sampler_areas areas = {0};
	int fd = sampler_open("/proc/self/maps", O_RDONLY);
	long at;
	bool whole;

	if (fd < 0)
		return false;
	at = syscall(SYS_mmap, NULL, MAPPED_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
	areas.rows = at == -1 ? NULL : (void *)at;
	whole = areas.rows && read_areas(&areas, fd);
	sampler_close(fd);
	if (!whole) {
		sampler_areas_free(&areas);
		return false;
	}
	*ret_areas = areas;
	return true;
}

void sampler_areas_free(struct sampler_areas *areas)
{
	if (areas->rows)
		syscall(SYS_munmap, areas->rows, MAPPED_SIZE);
	*areas = (struct sampler_areas){0};
}

int sampler_areas_access(const struct sampler_areas *areas, uintptr_t address)
{
	size_t from = 0, to = areas->count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (address < areas->rows[middle].start)
			to = middle;
		else if (address >= areas->rows[middle].end)
			from = middle + 1;
		else
			return areas->rows[middle].access;
	}
	return -1;
}
