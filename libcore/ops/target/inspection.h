/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_TARGET_INSPECTION_H
#define FLMEM_OPS_TARGET_INSPECTION_H

/*
 * An open process and what was read from it: handle, mappings, modules and allocators, in one
 * object with one release. It is allocated on the heap, because its parts point at each other.
 */

#include "allocators/allocator.h"
#include "base/cleanup.h"
#include "elf/modules.h"
#include "elf/view.h"
#include "proc/maps.h"
#include "proc/process.h"

struct flmem_target_inspection {
	struct flmem_process process;
	struct flmem_maps maps;
	struct flmem_image_cache *cache;
	struct flmem_modules modules;
	struct flmem_view view;
	struct flmem_allocator_list allocators;
};

/* Creates an inspection that holds only the cache; NULL if memory is out. */
struct flmem_target_inspection *flmem_target_inspection_new(struct flmem_error *err);
void flmem_target_inspection_free(struct flmem_target_inspection *inspection);

static inline void flmem_cleanup_inspection(struct flmem_target_inspection **inspection)
{
	flmem_target_inspection_free(*inspection);
}

#define FLMEM_AUTO_INSPECTION FLMEM_AUTO(flmem_cleanup_inspection)

/* Reads mappings, modules and allocators of the process, which the caller has opened in it. */
int flmem_target_inspection_read(struct flmem_target_inspection *inspection,
				 struct flmem_error *err);

/* Reads the same again, after a call has changed the process. */
int flmem_target_inspection_renew(struct flmem_target_inspection *inspection,
				  struct flmem_error *err);

#endif
