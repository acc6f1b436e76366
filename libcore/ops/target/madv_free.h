/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_MADV_FREE_H
#define FLMEM_OPS_TARGET_MADV_FREE_H

/*
 * Finds pages that an allocator has released with MADV_FREE and no longer counts: RSS includes them
 * until the kernel takes them under memory pressure.
 */

#include <flmem/process_report.h>

#include "allocators/allocator.h"
#include "elf/view.h"

/* Why the figure is unknown if the pages were not read. */
extern const char flmem_madv_free_unsought[];

/*
 * Returns the anonymous memory in such pages. Unknown if no allocator of `list` leaves any, or if
 * `reports` (one per row, or NULL) show that the allocator counts them as muzzy.
 */
struct flmem_u64 flmem_madv_free_bytes(const struct flmem_view *view,
				       const struct flmem_allocator_list *list,
				       const struct flmem_allocator_report *reports);

/*
 * Searches a process below 1 GiB for such pages, if most of RSS is anonymous memory outside of
 * every heap: the program, or an allocator that flmem does not know, may have released it.
 */
void flmem_madv_free_search(const struct flmem_process *process,
			    struct flmem_process_report *report);

#endif
