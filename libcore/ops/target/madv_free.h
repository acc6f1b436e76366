/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_MADV_FREE_H
#define FLMEM_OPS_TARGET_MADV_FREE_H

/*
 * Pages that an allocator has given back with MADV_FREE and does not count any more: they are in
 * RSS until the kernel takes them, when memory is short.
 */

#include <flmem/detect.h>

#include "allocators/allocator.h"
#include "elf/view.h"

/* Why it is not known where nobody has looked. */
extern const char flmem_madv_free_unsought[];

/*
 * Anonymous memory in such pages. Unknown where no allocator of `list` leaves any, and where
 * `reports` (one per row, or NULL) show that it counts them as muzzy.
 */
struct flmem_u64 flmem_madv_free_bytes(const struct flmem_view *view,
				       const struct flmem_allocator_list *list,
				       const struct flmem_allocator_report *reports);

#endif
