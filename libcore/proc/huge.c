/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/huge.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

#include <flmem/parse.h>

#include "base/buf.h"
#include "base/io.h"
#include "proc/process.h"

/* PAGEMAP_SCAN as in linux/fs.h of 6.7; Debian 12 has older headers. */
struct scan_region {
	uint64_t start, end, categories;
};

struct scan_request {
	uint64_t size, flags;
	uint64_t start, end, walk_end;
	uint64_t regions, region_count, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define SCAN_IOCTL   _IOWR('f', 16, struct scan_request)
#define PAGE_IS_HUGE (UINT64_C(1) << 6)

#define REGIONS	     512
#define PMD_BYTES    (UINT64_C(2) << 20) /* the smallest huge page of x86-64 and aarch64 */
#define ROLLUP_LIMIT (UINT64_C(1) << 30)
#define ROLLUP_MAX   ((size_t)64 << 10)

static const char denied[] = "may not be read: run as the user of the process or as root";
static const char too_large[] = "this kernel has no PAGEMAP_SCAN (6.7) and the process is too "
				"large for smaps_rollup";
static const char absent[] = "this kernel does not tell";

struct flmem_u64 flmem_huge_bytes_rollup(const struct flmem_process *process)
{
	static const char key[] = "\nAnonHugePages:";
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	int rc = flmem_io_read_file_at(process->dirfd, "smaps_rollup", ROLLUP_MAX, &buf);
	uint64_t kilobytes;
	char *at;

	if (rc)
		return FLMEM_UNKNOWN(rc == -EACCES || rc == -EPERM ? denied : absent);
	at = strstr(buf.data, key);
	if (!at)
		return FLMEM_UNKNOWN(absent);
	at += strlen(key);
	at += strspn(at, " ");
	at[strcspn(at, " \n")] = '\0';
	if (flmem_parse_u64(at, 0, UINT64_MAX / 1024, &kilobytes, NULL))
		return FLMEM_UNKNOWN(absent);
	return FLMEM_KNOWN(kilobytes * 1024);
}

/* Adds what lies in huge pages from start to end; negative errno on failure. */
static int scan_area(int pagemap, uint64_t start, uint64_t end, uint64_t *sum)
{
	struct scan_region regions[REGIONS];

	while (start < end) {
		struct scan_request request = {
			.size = sizeof(request),
			.start = start,
			.end = end,
			.regions = (uint64_t)(uintptr_t)regions,
			.region_count = REGIONS,
			.category_mask = PAGE_IS_HUGE,
			.return_mask = PAGE_IS_HUGE,
		};
		int found = ioctl(pagemap, SCAN_IOCTL, &request);

		if (found < 0 && errno == EINTR)
			continue;
		if (found < 0)
			return -errno;
		for (int i = 0; i < found && i < REGIONS; i++)
			*sum += regions[i].end - regions[i].start;
		if (request.walk_end <= start)
			break;
		start = request.walk_end;
	}
	return 0;
}

static bool is_anonymous(const struct flmem_map *map)
{
	return !map->inode && !(map->flags & FLMEM_MAP_SHARED) &&
	       strcmp(map->name, "[vvar]") != 0 && strcmp(map->name, "[vvar_vclock]") != 0;
}

static int scan_maps(int pagemap, const struct flmem_maps *maps, uint64_t *ret_sum)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < maps->count; i++) {
		const struct flmem_map *map = &maps->rows[i];
		uint64_t first = (map->start + PMD_BYTES - 1) & ~(PMD_BYTES - 1);
		uint64_t last = map->end & ~(PMD_BYTES - 1);
		int rc;

		if (first < map->start || first >= last || !is_anonymous(map))
			continue;
		rc = scan_area(pagemap, first, last, &sum);
		if (rc)
			return rc;
	}
	*ret_sum = sum;
	return 0;
}

struct flmem_u64 flmem_huge_bytes(const struct flmem_process *process,
				  const struct flmem_maps *maps, uint64_t rss_bytes)
{
	FLMEM_AUTO_CLOSE int pagemap = openat(process->dirfd, "pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t sum;

	if (pagemap < 0)
		return FLMEM_UNKNOWN(errno == EACCES || errno == EPERM ? denied : absent);
	if (scan_maps(pagemap, maps, &sum) == 0)
		return FLMEM_KNOWN(sum);
	if (rss_bytes >= ROLLUP_LIMIT)
		return FLMEM_UNKNOWN(too_large);
	return flmem_huge_bytes_rollup(process);
}
