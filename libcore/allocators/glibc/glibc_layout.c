/* SPDX-License-Identifier: Apache-2.0 */
#include "allocators/glibc/glibc_layout.h"

#include <stddef.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/text/text.h"

#define MINOR_MAX 999

/* clang-format off */
#define MP_TO_2_23   {.n_mmaps = 40, .no_dyn_threshold = 52, .mmapped_mem = 56, .sbrk_base = 80}
#define MP_OF_2_24   {.n_mmaps = 40, .no_dyn_threshold = 52, .mmapped_mem = 56, .sbrk_base = 72}
#define MP_OF_2_26   {.n_mmaps = 40, .no_dyn_threshold = 52, .mmapped_mem = 56, .sbrk_base = 72, \
		      .tcache_count = 96}
#define MP_OF_2_35   {.thp_pagesize = 40, .n_mmaps = 60, .no_dyn_threshold = 72,                 \
		      .mmapped_mem = 80, .sbrk_base = 96, .tcache_count = 120}
/* thp_mode precedes thp_pagesize. */
#define MP_OF_2_43   {.thp_pagesize = 48, .n_mmaps = 68, .no_dyn_threshold = 80,                 \
		      .mmapped_mem = 88, .sbrk_base = 104, .tcache_count = 128}

#define TCACHE_2_26  {.chunk_bytes = 0x250, .bins = 64, .count_bytes = 1}
#define TCACHE_2_30  {.chunk_bytes = 0x290, .bins = 64, .count_bytes = 2}
#define TCACHE_2_42  {.chunk_bytes = 0x300, .bins = 76, .count_bytes = 2, .counts_free = true}

const struct flmem_glibc_layout flmem_glibc_layouts[] = {
	{.minor = 43, .bins = 24, .mangles = true, .mp = MP_OF_2_43, .tcache = TCACHE_2_42},
	{.minor = 42, .bins = 112, .fastbins = 16, .mangles = true, .mp = MP_OF_2_35,
	 .tcache = TCACHE_2_42},
	{.minor = 35, .bins = 112, .fastbins = 16, .mangles = true, .mp = MP_OF_2_35,
	 .tcache = TCACHE_2_30},
	{.minor = 32, .bins = 112, .fastbins = 16, .mangles = true, .mp = MP_OF_2_26,
	 .tcache = TCACHE_2_30},
	{.minor = 30, .bins = 112, .fastbins = 16, .mp = MP_OF_2_26, .tcache = TCACHE_2_30},
	{.minor = 27, .bins = 112, .fastbins = 16, .mp = MP_OF_2_26, .tcache = TCACHE_2_26},
	{.minor = 26, .bins = 104, .fastbins = 8, .mp = MP_OF_2_26, .tcache = TCACHE_2_26},
	{.minor = 24, .bins = 104, .fastbins = 8, .mp = MP_OF_2_24},
	{.minor = 17, .bins = 104, .fastbins = 8, .mp = MP_TO_2_23},
	{.minor = 0},
};
/* clang-format on */

int flmem_glibc_minor(const char *version)
{
	char digits[8] = "";
	size_t length;
	uint64_t minor;

	if (!flmem_text_starts(version, "2."))
		return -1;
	length = strspn(version + 2, "0123456789");
	if (!length || length >= sizeof(digits))
		return -1;
	memcpy(digits, version + 2, length);
	return flmem_parse_u64(digits, 0, MINOR_MAX, &minor, NULL) ? -1 : (int)minor;
}

const struct flmem_glibc_layout *flmem_glibc_layout_of(int minor)
{
	for (const struct flmem_glibc_layout *row = flmem_glibc_layouts; row->minor; row++)
		if (minor >= row->minor)
			return row;
	return NULL;
}
