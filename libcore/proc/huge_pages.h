/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_HUGE_PAGES_H
#define FLMEM_PROC_HUGE_PAGES_H

/* Measures the anonymous memory of a process in transparent huge pages. */

#include <flmem/value.h>

#include "proc/maps.h"

struct flmem_process;

/*
 * Queries PAGEMAP_SCAN (Linux 6.7) for the large anonymous areas of `maps`. Older kernels have only
 * smaps_rollup, which walks every page and takes 3 ms per GiB, so there the result is unknown from
 * 1 GiB of `rss_bytes` on. It is also unknown if the process may not be traced.
 */
struct flmem_u64 flmem_huge_bytes(const struct flmem_process *process,
				  const struct flmem_maps *maps, uint64_t rss_bytes);

/* Reads the amount from smaps_rollup alone, for older kernels. */
struct flmem_u64 flmem_huge_bytes_rollup(const struct flmem_process *process);

#endif
