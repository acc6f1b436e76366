/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/huge.h"

#include <errno.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/buf.h"
#include "base/io.h"
#include "proc/pages.h"
#include "proc/process.h"

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

static bool is_anonymous(const struct flmem_map *map)
{
	return !map->inode && !(map->flags & FLMEM_MAP_SHARED) &&
	       strcmp(map->name, "[vvar]") != 0 && strcmp(map->name, "[vvar_vclock]") != 0;
}

static int scan_maps(struct flmem_pages *pages, const struct flmem_maps *maps, uint64_t *ret_sum)
{
	uint64_t sum = 0, part;

	for (size_t i = 0; i < maps->count; i++) {
		const struct flmem_map *map = &maps->rows[i];
		uint64_t first = (map->start + PMD_BYTES - 1) & ~(PMD_BYTES - 1);
		uint64_t last = map->end & ~(PMD_BYTES - 1);
		int rc;

		if (first < map->start || first >= last || !is_anonymous(map))
			continue;
		rc = flmem_pages_huge(pages, first, last, &part);
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
		return FLMEM_UNKNOWN(rc == FLMEM_EPERM ? denied : absent);
	if (scan_maps(&pages, maps, &sum) == 0)
		return FLMEM_KNOWN(sum);
	if (rss_bytes >= ROLLUP_LIMIT)
		return FLMEM_UNKNOWN(too_large);
	return flmem_huge_bytes_rollup(process);
}
