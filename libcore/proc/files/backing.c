/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/files/backing.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <flmem/parse.h>

#include "base/files/io.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "proc/files/mounts.h"
#include "proc/pages.h"
#include "proc/process.h"

#define MOUNTINFO_MAX ((size_t)4 << 20)

#define GAP_MAX (UINT64_C(1) << 20)

#define BACKING_TEXT(name, text) [FLMEM_BACKING_##name] = (text),
static const char *const backing_names[] = {FLMEM_BACKINGS(BACKING_TEXT)};

/* Names that the kernel gives (mm/shmem.c, mm/memfd.c, ipc/shm.c); all are on its own tmpfs. */
static const struct {
	const char *start;
	enum flmem_backing_kind kind;
} kernel_names[] = {
	{"/memfd:", FLMEM_BACKING_MEMFD},
	{"/SYSV", FLMEM_BACKING_SYSV},
	{"/dev/zero (deleted)", FLMEM_BACKING_SHARED_ANONYMOUS},
};

const char *flmem_backing_name(enum flmem_backing_kind kind)
{
	return backing_names[kind < FLMEM_ARRAY_SIZE(backing_names) ? kind : FLMEM_BACKING_FILE];
}

static bool parse_device(char *text, dev_t *ret_device)
{
	char *colon = strchr(text, ':');
	uint64_t major_number, minor_number;

	if (!colon)
		return false;
	*colon = '\0';
	if (flmem_parse_u64(text, 0, UINT32_MAX, &major_number, NULL) ||
	    flmem_parse_u64(colon + 1, 0, UINT32_MAX, &minor_number, NULL))
		return false;
	*ret_device = makedev((unsigned)major_number, (unsigned)minor_number);
	return true;
}

static bool parse_tmpfs(char *line, dev_t *ret_device)
{
	struct flmem_mount mount;

	return flmem_mount_split(line, &mount) && mount.source &&
	       strcmp(mount.type, "tmpfs") == 0 && parse_device(mount.device, ret_device);
}

size_t flmem_tmpfs_parse(char *text, dev_t ret_devices[FLMEM_TMPFS_MAX])
{
	size_t count = 0;
	char *line;

	while (count < FLMEM_TMPFS_MAX && (line = strsep(&text, "\n")))
		if (parse_tmpfs(line, &ret_devices[count]))
			count++;
	return count;
}

struct tmpfs {
	dev_t devices[FLMEM_TMPFS_MAX];
	size_t count;
};

static enum flmem_backing_kind find_backing_kind(const struct flmem_map *map,
						 const struct tmpfs *tmpfs)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(kernel_names); i++)
		if (flmem_text_starts(map->name, kernel_names[i].start) &&
		    flmem_text_ends(map->name, " (deleted)"))
			return kernel_names[i].kind;
	for (size_t i = 0; i < tmpfs->count; i++)
		if (map->device == tmpfs->devices[i])
			return FLMEM_BACKING_TMPFS;
	return FLMEM_BACKING_FILE;
}

static int compare_files(const void *a, const void *b)
{
	const struct flmem_backing *first = a, *second = b;

	if (first->device != second->device)
		return first->device < second->device ? -1 : 1;
	return (first->inode > second->inode) - (first->inode < second->inode);
}

static int compare_sizes(const void *a, const void *b)
{
	uint64_t first = ((const struct flmem_backing *)a)->resident_bytes;
	uint64_t second = ((const struct flmem_backing *)b)->resident_bytes;

	return (first < second) - (first > second);
}

/* Merges the rows of mappings that have the same file. */
static size_t merge_files(struct flmem_backing *rows, size_t count)
{
	size_t kept = 0;

	qsort(rows, count, sizeof(*rows), compare_files);
	for (size_t i = 1; i < count; i++) {
		if (compare_files(&rows[kept], &rows[i]) == 0) {
			rows[kept].mapped_bytes += rows[i].mapped_bytes;
			rows[kept].resident_bytes += rows[i].resident_bytes;
		} else {
			rows[++kept] = rows[i];
		}
	}
	qsort(rows, count ? kept + 1 : 0, sizeof(*rows), compare_sizes);
	return count ? kept + 1 : 0;
}

/*
 * Returns true if the mapping has a backing. The name decides: the inode of System V memory is its
 * ID, which may be 0.
 */
static bool has_backing(const struct flmem_map *map)
{
	return map->name[0] == '/';
}

/* Resident bytes of each mapping, counted in ascending order. */
struct resident_count {
	const struct flmem_maps *maps;
	uint64_t *resident;
	/* For each mapping: its file cannot be among the largest, however much was copied. */
	bool *small;
	size_t next; /* index of the first mapping that the next range may touch */
};

static void count_resident_pages(void *context, uint64_t start, uint64_t end)
{
	struct resident_count *count = context;
	const struct flmem_maps *maps = count->maps;

	while (count->next < maps->count && maps->rows[count->next].end <= start)
		count->next++;
	for (size_t i = count->next; i < maps->count && maps->rows[i].start < end; i++) {
		uint64_t first = start > maps->rows[i].start ? start : maps->rows[i].start;
		uint64_t last = end < maps->rows[i].end ? end : maps->rows[i].end;

		count->resident[i] += last - first;
	}
}

static bool is_same_inode(const struct flmem_map *map, const struct flmem_map *file)
{
	return map->device == file->device && map->inode == file->inode;
}

/*
 * Returns true if pages of the mapping may have been copied: a private one that is writable, or was
 * until the loader had relocated it (RELRO, which is placed before the rest of the data).
 */
static bool may_be_copied(const struct flmem_maps *maps, size_t i)
{
	const struct flmem_map *map = &maps->rows[i], *next = map + 1;

	if (!has_backing(map) || (map->flags & FLMEM_MAP_SHARED))
		return false;
	if (map->flags & (FLMEM_MAP_WRITE | FLMEM_MAP_EXEC))
		return map->flags & FLMEM_MAP_WRITE;
	return i + 1 < maps->count && next->start == map->end && is_same_inode(next, map) &&
	       (next->flags & FLMEM_MAP_WRITE);
}

static bool is_backed(const struct resident_count *count, size_t i)
{
	return has_backing(&count->maps->rows[i]);
}

static bool has_copies(const struct resident_count *count, size_t i)
{
	return !count->small[i] && may_be_copied(count->maps, i);
}

/* One pass over the mappings: which to count, the largest gap within one query, and the query. */
struct backing_pass {
	bool (*takes)(const struct resident_count *count, size_t i);
	uint64_t gap;
	int (*each)(struct flmem_pages *pages, uint64_t start, uint64_t end,
		    flmem_pages_visit *visit, void *context);
};

/*
 * Counts with one query for each group of neighbouring mappings: a PyTorch process has 1500
 * mappings of files, and a query costs more than its answer. A mapping that is removed meanwhile
 * counts as not resident.
 */
static void count_mappings(struct flmem_pages *pages, const struct backing_pass *pass,
			   struct resident_count *count)
{
	const struct flmem_maps *maps = count->maps;
	uint64_t start = 0, end = 0;

	count->next = 0;
	for (size_t i = 0; i < maps->count; i++) {
		const struct flmem_map *map = &maps->rows[i];

		if (!pass->takes(count, i))
			continue;
		if (map->start - end > pass->gap) {
			pass->each(pages, start, end, count_resident_pages, count);
			start = map->start;
		}
		end = map->end;
	}
	pass->each(pages, start, end, count_resident_pages, count);
}

/*
 * Returns the row of a mapping. Areas of shared anonymous memory have no distinguishing name, so
 * they share one row.
 */
static struct flmem_backing name_row(const struct flmem_map *map, const struct tmpfs *tmpfs)
{
	struct flmem_backing row = {
		.kind = find_backing_kind(map, tmpfs),
		.name = map->name,
		.device = map->device,
		.inode = map->inode,
	};

	if (row.kind == FLMEM_BACKING_SHARED_ANONYMOUS) {
		row.device = 0;
		row.inode = 0;
	}
	return row;
}

static size_t make_backing_rows(const struct flmem_maps *maps, const uint64_t *resident,
				const struct tmpfs *tmpfs, struct flmem_backing *rows)
{
	size_t count = 0;

	for (size_t i = 0; i < maps->count; i++) {
		const struct flmem_map *map = &maps->rows[i];

		if (!has_backing(map))
			continue;
		rows[count] = name_row(map, tmpfs);
		rows[count].mapped_bytes = map->end - map->start;
		rows[count++].resident_bytes = resident[i];
	}
	return merge_files(rows, count);
}

/*
 * Computes bounds for each file, sorted by the lower one: resident_bytes at least, mapped_bytes at
 * most.
 */
static size_t make_bounds(const struct resident_count *count, struct flmem_backing *rows)
{
	const struct flmem_maps *maps = count->maps;
	const struct tmpfs none = {0};
	size_t made = 0;

	for (size_t i = 0; i < maps->count; i++) {
		if (!has_backing(&maps->rows[i]))
			continue;
		rows[made] = name_row(&maps->rows[i], &none);
		rows[made].mapped_bytes = count->resident[i];
		rows[made++].resident_bytes = may_be_copied(maps, i) ? 0 : count->resident[i];
	}
	return merge_files(rows, made);
}

static void find_small(struct resident_count *count, size_t most, struct flmem_backing *rows)
{
	const struct flmem_maps *maps = count->maps;
	const size_t files = make_bounds(count, rows);
	uint64_t limit;

	if (!most || files <= most)
		return;
	limit = rows[most - 1].resident_bytes;
	qsort(rows, files, sizeof(*rows), compare_files);
	for (size_t i = 0; i < maps->count; i++) {
		const struct flmem_backing key = {.device = maps->rows[i].device,
						  .inode = maps->rows[i].inode};
		const struct flmem_backing *file;

		if (!may_be_copied(maps, i))
			continue;
		file = bsearch(&key, rows, files, sizeof(*rows), compare_files);
		count->small[i] = file && file->mapped_bytes < limit;
	}
}

/*
 * Counts all mappings. For the kernel, distinguishing copied pages from pages of the file is
 * several times the work of finding resident ones. So that is queried only where copies are
 * possible, and only for files that can be among the largest.
 */
static void count_all(struct flmem_pages *pages, struct resident_count *count, size_t most,
		      struct flmem_backing *rows)
{
	const struct backing_pass all = {is_backed, GAP_MAX, flmem_pages_each};
	const struct backing_pass copied = {has_copies, 0, flmem_pages_of_file};

	count_mappings(pages, &all, count);
	find_small(count, most, rows);
	for (size_t i = 0; i < count->maps->count; i++)
		if (may_be_copied(count->maps, i))
			count->resident[i] = 0;
	count_mappings(pages, &copied, count);
}

int flmem_backings_read(const struct flmem_process *process, const struct flmem_maps *maps,
			bool shared, size_t most, struct flmem_backings *ret_backings,
			struct flmem_error *err)
{
	FLMEM_AUTO_PAGES struct flmem_pages pages = FLMEM_PAGES_INIT;
	FLMEM_AUTO_BUF struct flmem_buf mounts = FLMEM_BUF_INIT;
	struct tmpfs tmpfs = {0};
	size_t room = maps->count ? maps->count : 1;
	FLMEM_AUTO_FREE uint64_t *resident = calloc(room, sizeof(*resident));
	FLMEM_AUTO_FREE bool *small = calloc(room, sizeof(*small));
	struct resident_count count = {.maps = maps, .resident = resident, .small = small};
	struct flmem_backing *rows;
	int rc = flmem_pages_open(process, &pages, err);

	if (rc)
		return rc;
	/* Without the mounts, files on tmpfs count as ordinary files. */
	if (shared &&
	    flmem_io_read_file_at(process->dirfd, "mountinfo", MOUNTINFO_MAX, &mounts) == 0)
		tmpfs.count = flmem_tmpfs_parse(mounts.data, tmpfs.devices);
	rows = calloc(room, sizeof(*rows));
	if (!rows || !resident || !small) {
		free(rows);
		return flmem_error_nomem(err, "cannot list its files");
	}
	count_all(&pages, &count, most, rows);
	ret_backings->rows = rows;
	ret_backings->count = make_backing_rows(maps, resident, &tmpfs, rows);
	/* In later rows, copies may be missing from the counts. */
	if (ret_backings->count > most)
		ret_backings->count = most;
	return 0;
}

void flmem_backings_clear(struct flmem_backings *backings)
{
	free(backings->rows);
	*backings = (struct flmem_backings){0};
}
