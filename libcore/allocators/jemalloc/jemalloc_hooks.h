/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_JEMALLOC_JEMALLOC_HOOKS_H
#define FLMEM_ALLOCATORS_JEMALLOC_JEMALLOC_HOOKS_H

/*
 * Operations of jemalloc on hooks: functions of the program through which an arena gets and returns
 * its memory (memkind, HHVM and RocksDB set some). A purge runs them, and metadata of the first
 * arena comes from them, too.
 */

#include "allocators/allocator.h"

/* Returns the major version, 0 when unknown. */
int flmem_jemalloc_major(const struct flmem_allocator *found);

/*
 * Refuses versions that do not report whether they keep freed memory, which a device may still use;
 * later versions are queried together with the hooks.
 */
int flmem_jemalloc_check_registered(const struct flmem_view *view,
				    const struct flmem_allocator *found, struct flmem_error *err);

uint64_t flmem_jemalloc_plan_hooks(const struct flmem_allocator *found, uint64_t first,
				   struct flmem_chain *chain);
int flmem_jemalloc_take_hooks(const struct flmem_view *view, const struct flmem_allocator *found,
			      const unsigned char *answers, uint64_t *first,
			      struct flmem_error *err);

#endif
