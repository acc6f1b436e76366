/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/files/read_hazard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/files/io.h"
#include "base/text/text.h"
#include "proc/files/mounts.h"
#include "proc/maps.h"
#include "proc/pages.h"
#include "proc/process.h"

#define ENTRIES 64U

/* Bits of a page's entry (Documentation/admin-guide/mm/pagemap.rst). */
#define PRESENT (UINT64_C(1) << 63)
#define SWAPPED (UINT64_C(1) << 62)
#define GUARD	(UINT64_C(1) << 58) /* a guard page (MADV_GUARD_INSTALL): a read fails at once */

static _Thread_local bool holds;
static _Thread_local struct flmem_missed_range missed;

bool flmem_read_hazard_begin_hold(void)
{
	missed = (struct flmem_missed_range){0};
	holds = true;
	return true;
}

void flmem_read_hazard_end_hold(const bool *hold)
{
	(void)hold;
	holds = false;
}

struct flmem_missed_range flmem_read_hazard_missed(void)
{
	return missed;
}

struct flmem_missed_range flmem_read_hazard_take_missed(void)
{
	const struct flmem_missed_range range = missed;

	missed = (struct flmem_missed_range){0};
	return range;
}

/*
 * Returns true if all pages are resident or swapped: those are read from the swap area, which needs
 * no server. In a hold they have to be resident.
 */
static bool are_pages_held(const struct flmem_process *process, uint64_t first, uint64_t count)
{
	const uint64_t held = holds ? PRESENT | GUARD : PRESENT | SWAPPED;
	uint64_t entries[ENTRIES];

	if (process->pagemap < 0)
		return false;
	while (count) {
		uint64_t step = count < ENTRIES ? count : ENTRIES;

		if (!flmem_io_read_at(process->pagemap, first * sizeof(*entries), entries,
				      (size_t)step * sizeof(*entries)))
			return false;
		for (uint64_t i = 0; i < step; i++)
			if (!(entries[i] & held))
				return false;
		first += step;
		count -= step;
	}
	return true;
}

/*
 * Returns true if the device may be a FUSE file system, which has no block device (fuseblk has one,
 * but only root mounts that). A device that is mounted nowhere, or that belongs to a subvolume, is
 * unknown: it may be a FUSE mount that was detached.
 */
static bool may_be_fuse(const struct flmem_mounts *mounts, dev_t device)
{
	char name[32];

	snprintf(name, sizeof(name), "%u:%u", major(device), minor(device));
	for (size_t i = 0; i < mounts->count; i++)
		if (strcmp(mounts->rows[i].device, name) == 0)
			return flmem_text_starts(mounts->rows[i].type, "fuse");
	return true;
}

/* Returns true for a mapping without a file, or of a file on a block device. */
static bool needs_no_server(const struct flmem_map *map)
{
	return !map->inode || major(map->device);
}

static int miss_range(uint64_t address, size_t length)
{
	missed = (struct flmem_missed_range){address, length};
	return -ENODATA;
}

/* Without the list of mappings, each page may need a server. A process that has ended has none. */
int flmem_read_hazard_check(const struct flmem_process *process, uint64_t address, size_t length)
{
	const uint64_t page = flmem_page_bytes();
	FLMEM_AUTO_MAPS struct flmem_maps maps = {0};
	FLMEM_AUTO_MOUNTS struct flmem_mounts mounts = FLMEM_MOUNTS_INIT;
	bool mounts_read = false;
	int rc;

	if (!length || address + (length - 1) < address)
		return 0;
	if (are_pages_held(process, address / page,
			   (address + (length - 1)) / page - address / page + 1))
		return 0;
	rc = flmem_maps_read(process, &maps, NULL);
	if (rc)
		return rc == FLMEM_ENOPROC ? 0 : -ENODATA;
	for (size_t i = 0; i < maps.count; i++) {
		const struct flmem_map *map = &maps.rows[i];

		if (map->end <= address || map->start > address + (length - 1))
			continue;
		if (holds && !map->inode && process->pagemap >= 0)
			return miss_range(address, length);
		if (needs_no_server(map))
			continue;
		if (!mounts_read && flmem_mounts_read(process, &mounts))
			return -ENODATA;
		mounts_read = true;
		if (may_be_fuse(&mounts, map->device))
			return -ENODATA;
	}
	return 0;
}
