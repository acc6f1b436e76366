/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/text/buf.h"
#include "base/text/text.h"
#include "proc/maps_query.h"
#include "proc/process.h"

#define ROW_LIMIT ((size_t)1 << 20)

static bool parse_hex(const char **text, char end, uint64_t *ret_value)
{
	const char *p = *text;
	uint64_t value = 0;
	int digits = 0;

	for (;; p++, digits++) {
		unsigned digit;

		if (*p >= '0' && *p <= '9')
			digit = (unsigned)(*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			digit = (unsigned)(*p - 'a') + 10;
		else
			break;
		value = value << 4 | digit;
	}
	if (!digits || digits > 16 || *p != end)
		return false;
	*text = p + 1;
	*ret_value = value;
	return true;
}

static bool parse_flags(const char **text, unsigned *ret_flags)
{
	static const struct {
		char letter;
		unsigned flag;
	} columns[] = {{'r', FLMEM_MAP_READ}, {'w', FLMEM_MAP_WRITE}, {'x', FLMEM_MAP_EXEC}};
	const char *p = *text;
	unsigned flags = 0;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(columns); i++, p++) {
		if (*p == columns[i].letter)
			flags |= columns[i].flag;
		else if (*p != '-')
			return false;
	}
	if (*p == 's')
		flags |= FLMEM_MAP_SHARED;
	else if (*p != 'p')
		return false;
	if (p[1] != ' ')
		return false;
	*text = p + 2;
	*ret_flags = flags;
	return true;
}

static bool parse_inode(const char **text, uint64_t *ret_inode)
{
	if (!flmem_text_read_digits(text, ret_inode))
		return false;
	while (**text == ' ')
		++*text;
	return true;
}

/* Parses one line without its newline: start-end perms offset major:minor inode name. */
static bool parse_maps_line(const char *line, struct flmem_map *ret_map)
{
	uint64_t major_number, minor_number;
	struct flmem_map map = {0};

	if (!parse_hex(&line, '-', &map.start) || !parse_hex(&line, ' ', &map.end) ||
	    !parse_flags(&line, &map.flags) || !parse_hex(&line, ' ', &map.offset) ||
	    !parse_hex(&line, ':', &major_number) || !parse_hex(&line, ' ', &minor_number) ||
	    !parse_inode(&line, &map.inode) || map.start >= map.end)
		return false;
	map.device = makedev((unsigned)major_number, (unsigned)minor_number);
	map.name = line;
	*ret_map = map;
	return true;
}

static size_t count_lines(const char *text)
{
	size_t lines = 1;

	for (; (text = strchr(text, '\n')); text++)
		lines++;
	return lines;
}

int flmem_maps_parse(char *text, struct flmem_maps *ret_maps, struct flmem_error *err)
{
	FLMEM_AUTO_MAPS struct flmem_maps maps = {.text = text};
	size_t lines = count_lines(text);
	uint64_t last_end = 0;
	char *rest = text;

	if (lines > ROW_LIMIT)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
				       "the process has more than %zu mappings", ROW_LIMIT);
	maps.rows = calloc(lines, sizeof(*maps.rows));
	if (!maps.rows)
		return flmem_error_nomem(err, "cannot allocate the list of mappings");
	for (char *line; (line = strsep(&rest, "\n"));) {
		struct flmem_map *row = &maps.rows[maps.count];

		if (!parse_maps_line(line, row) || row->start < last_end)
			continue;
		last_end = row->end;
		maps.count++;
	}
	*ret_maps = maps;
	maps = (struct flmem_maps){0};
	return 0;
}

int flmem_maps_read(const struct flmem_process *process, struct flmem_maps *ret_maps,
		    struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	FLMEM_AUTO_CLOSE int fd =
		openat(process->dirfd, "maps", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	char *text;
	int rc;

	if (fd >= 0 && !flmem_maps_query(fd, ret_maps))
		return 0;
	rc = flmem_process_read(process, "maps", &buf);
	if (rc)
		return flmem_process_error(process, rc, "read the mappings", err);
	text = flmem_buf_take(&buf);
	if (!text)
		return flmem_process_error(process, -ENOMEM, "read the mappings", err);
	return flmem_maps_parse(text, ret_maps, err);
}

void flmem_maps_clear(struct flmem_maps *maps)
{
	free(maps->rows);
	free(maps->text);
	*maps = (struct flmem_maps){0};
}

const struct flmem_map *flmem_maps_find(const struct flmem_maps *maps, uint64_t address)
{
	size_t low = 0, high = maps->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (maps->rows[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < maps->count && maps->rows[low].start <= address)
		return &maps->rows[low];
	return NULL;
}

bool flmem_map_is_deleted(const struct flmem_map *map)
{
	return map->inode && flmem_text_ends(map->name, " (deleted)");
}

/*
 * The names are libflmem-sampler.so, libflmem-sampler-ready.so, and for `attach` .flmem-NUMBER.so,
 * which is deleted.
 */
bool flmem_map_is_sampler(const struct flmem_map *map)
{
	const char *base = flmem_text_basename(map->name);

	return flmem_text_starts(base, "libflmem-sampler") ||
	       (flmem_text_starts(base, ".flmem-") && strstr(base, ".so"));
}

bool flmem_maps_have_sampler(const struct flmem_maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		if (flmem_map_is_sampler(&maps->rows[i]))
			return true;
	return false;
}
