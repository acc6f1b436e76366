/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/maps_query.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include "base/portable.h"
#include "base/text/buf.h"

#define ROWS_AT_FIRST 256U
#define ROWS_MAX      ((size_t)1 << 20)

/* Structure of PROCMAP_QUERY as in linux/fs.h of 6.11; Debian 12 has older headers. */
struct map_query {
	uint64_t size, flags, address;
	uint64_t start, end, vma_flags, page_bytes, offset, inode;
	uint32_t major_number, minor_number, name_size, build_id_size;
	uint64_t name, build_id;
};

#define PROCMAP_QUERY_CALL _IOWR('f', 17, struct map_query)
#define COVERING_OR_NEXT   0x10U

/* The flags of a mapping, which are those of flmem_map. */
_Static_assert(FLMEM_MAP_READ == 0x1 && FLMEM_MAP_WRITE == 0x2 && FLMEM_MAP_EXEC == 0x4 &&
		       FLMEM_MAP_SHARED == 0x8,
	       "PROCMAP_QUERY_VMA_* of linux/fs.h");
#define ALL_FLAGS 0xfU

struct maps_reading {
	int fd;
	struct flmem_map *rows; /* their names are offsets in `names` until all are known */
	size_t count, room;
	struct flmem_buf names;
	char name[PATH_MAX + 32]; /* " (deleted)" may follow a path */
};

static int query_map(struct maps_reading *reading, uint64_t address, bool with_name,
		     struct map_query *ret_query)
{
	*ret_query = (struct map_query){
		.size = sizeof(*ret_query), .flags = COVERING_OR_NEXT, .address = address};
	if (with_name) {
		ret_query->name = (uintptr_t)reading->name;
		ret_query->name_size = sizeof(reading->name);
	}
	return ioctl(reading->fd, FLMEM_IOCTL_REQUEST(PROCMAP_QUERY_CALL), ret_query) ? -errno : 0;
}

/*
 * Whether a mapping continues the one before: the next part of the same file, as the segments of a
 * library follow each other. Both then have one path. Parts of shared memory may have separate
 * names (prctl(PR_SET_VMA_ANON_NAME)).
 */
static bool continues_file(const struct maps_reading *reading, const struct map_query *query)
{
	const struct flmem_map *last = reading->rows + reading->count - 1;

	return reading->count && !(query->vma_flags & FLMEM_MAP_SHARED) && query->inode &&
	       query->inode == last->inode &&
	       makedev(query->major_number, query->minor_number) == last->device &&
	       query->start == last->end && query->offset > last->offset;
}

static int add_name(struct maps_reading *reading, const struct map_query *query,
		    struct flmem_map *map)
{
	map->name = (const char *)reading->names.length;
	if (!query->name_size)
		reading->name[0] = '\0';
	if (strchr(reading->name, '\n'))
		return -EILSEQ;
	flmem_buf_append(&reading->names, reading->name, strlen(reading->name) + 1);
	return reading->names.failed ? -ENOMEM : 0;
}

static int reserve_row(struct maps_reading *reading)
{
	size_t room = reading->room ? 2 * reading->room : ROWS_AT_FIRST;
	struct flmem_map *rows;

	if (reading->count < reading->room)
		return 0;
	if (room > ROWS_MAX)
		return -E2BIG;
	rows = reallocarray(reading->rows, room, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	reading->rows = rows;
	reading->room = room;
	return 0;
}

/* Adds the mapping at `*address` or after it; sets `*address` to its end. */
static int add_map(struct maps_reading *reading, uint64_t *address)
{
	struct map_query query;
	struct flmem_map *map;
	bool continues;
	int rc = query_map(reading, *address, false, &query);

	if (rc || (rc = reserve_row(reading)) != 0)
		return rc;
	continues = continues_file(reading, &query);
	if (!continues && (rc = query_map(reading, *address, true, &query)) != 0)
		return rc;
	if (query.end <= *address || query.start >= query.end)
		return -EIO;
	map = reading->rows + reading->count;
	*map = (struct flmem_map){.start = query.start,
				  .end = query.end,
				  .offset = query.offset,
				  .inode = query.inode,
				  .device = makedev(query.major_number, query.minor_number),
				  .flags = (unsigned)query.vma_flags & ALL_FLAGS};
	if (continues)
		map->name = map[-1].name;
	else
		rc = add_name(reading, &query, map);
	/* One that has grown downwards meanwhile was already seen in part. */
	reading->count += query.start >= *address;
	*address = query.end;
	return rc;
}

int flmem_maps_query(int fd, struct flmem_maps *ret_maps)
{
	struct maps_reading reading = {.fd = fd, .names = FLMEM_BUF_INIT};
	uint64_t address = 0;
	char *names;
	int rc = 0;

	while (!rc)
		rc = add_map(&reading, &address);
	names = rc == -ENOENT ? flmem_buf_take(&reading.names) : NULL;
	flmem_buf_clear(&reading.names);
	if (!names) {
		free(reading.rows);
		return rc == -ENOENT ? -ENOMEM : rc;
	}
	for (size_t i = 0; i < reading.count; i++)
		reading.rows[i].name = names + (uintptr_t)reading.rows[i].name;
	*ret_maps = (struct flmem_maps){reading.rows, reading.count, names};
	return 0;
}
