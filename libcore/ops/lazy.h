/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_LAZY_H
#define FLMEM_OPS_LAZY_H

/*
 * Pages that an allocator has given back with MADV_FREE and does not count any more: they are in
 * RSS until the kernel takes them, when memory is short.
 */

#include <flmem/detect.h>

#include "allocators/allocator.h"
#include "elf/view.h"

/* Why it is not known where nobody has looked. */
extern const char flmem_lazy_unsought[];

/*
 * Anonymous memory in such pages. Unknown where no allocator of `list` leaves any, and where
 * `reports` (one per row, or NULL) show that it counts them as muzzy.
 */
struct flmem_u64 flmem_lazy_bytes(const struct flmem_view *view,
				  const struct flmem_allocator_list *list,
				  const struct flmem_allocator_report *reports);

#endif
