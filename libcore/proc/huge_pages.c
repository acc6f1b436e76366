/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/huge_pages.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/files/io.h"
#include "base/text/buf.h"
#include "proc/pages.h"
#include "proc/process.h"
#include "proc/rollup.h"

#define PMD_BYTES    (UINT64_C(2) << 20) /* the smallest huge page of x86-64 and aarch64 */
#define ROLLUP_LIMIT (UINT64_C(1) << 30)
#define MEMINFO_MAX  ((size_t)64 << 10)

/*
 * Below this size of memory, walking the page tables costs no more than reading the host's
 * counters.
 */
#define ASK_HOST_FROM (UINT64_C(32) << 20)

static const char huge_pages_denied[] = "access denied: run as the user of the process or as root";
static const char huge_pages_too_large[] =
	"this kernel has no PAGEMAP_SCAN (6.7) and the process is too "
	"large for smaps_rollup";
static const char huge_pages_absent[] = "this kernel does not report it";

static const char huge_name[] = "AnonHugePages";

struct flmem_u64 flmem_huge_bytes_rollup(const struct flmem_process *process)
{
	return flmem_rollup_bytes(process, huge_name);
}

/*
 * Returns true if the host has no huge pages, by the kernel's counters. A container's meminfo, on
 * another file system, is not that of the host.
 */
static bool host_has_none(void)
{
	FLMEM_AUTO_CLOSE int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	struct statfs fs;
	uint64_t bytes;

	return fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC &&
	       flmem_io_read_all(fd, MEMINFO_MAX, &buf) == 0 &&
	       flmem_rollup_find(buf.data, huge_name, &bytes) && !bytes;
}

static bool is_anonymous_mapping(const struct flmem_map *map)
{
	return !map->inode && !(map->flags & FLMEM_MAP_SHARED) &&
	       strcmp(map->name, "[vvar]") != 0 && strcmp(map->name, "[vvar_vclock]") != 0;
}

/* Finds the part of a mapping that huge pages can fill. */
static bool cut_to_huge(const struct flmem_map *map, uint64_t *ret_start, uint64_t *ret_end)
{
	*ret_start = (map->start + PMD_BYTES - 1) & ~(PMD_BYTES - 1);
	*ret_end = map->end & ~(PMD_BYTES - 1);
	return *ret_start >= map->start && *ret_start < *ret_end && is_anonymous_mapping(map);
}

static uint64_t add_huge_parts(const struct flmem_maps *maps)
{
	uint64_t sum = 0, start, end;

	for (size_t i = 0; i < maps->count; i++)
		if (cut_to_huge(&maps->rows[i], &start, &end))
			sum += end - start;
	return sum;
}

static int scan_maps(struct flmem_pages *pages, const struct flmem_maps *maps, uint64_t *ret_sum)
{
	uint64_t sum = 0, part, start, end;

	for (size_t i = 0; i < maps->count; i++) {
		int rc;

		if (!cut_to_huge(&maps->rows[i], &start, &end))
			continue;
		rc = flmem_pages_huge(pages, start, end, &part);
		if (rc)
			return rc;
		sum += part;
	}
	*ret_sum = sum;
	return 0;
}

struct flmem_u64 flmem_huge_bytes(const struct flmem_process *process,
				  const struct flmem_maps *maps, uint64_t rss_bytes)
{
	FLMEM_AUTO_PAGES struct flmem_pages pages = FLMEM_PAGES_INIT;
	int rc = flmem_pages_open(process, &pages, NULL);
	uint64_t sum;

	if (rc)
		return FLMEM_UNKNOWN(rc == FLMEM_EPERM ? huge_pages_denied : huge_pages_absent);
	if (add_huge_parts(maps) >= ASK_HOST_FROM && host_has_none())
		return FLMEM_KNOWN(0);
	if (scan_maps(&pages, maps, &sum) == 0)
		return FLMEM_KNOWN(sum);
	if (rss_bytes >= ROLLUP_LIMIT)
		return FLMEM_UNKNOWN(huge_pages_too_large);
	return flmem_huge_bytes_rollup(process);
}
