/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_TCMALLOC_TCMALLOC_HOOKS_H
#define FLMEM_ALLOCATORS_TCMALLOC_TCMALLOC_HOOKS_H

/*
 * Operations check_hooks and check_malloc_hooks of tcmalloc: hooks that a program may set in
 * gperftools.
 */

#include "allocators/allocator.h"

int flmem_tcmalloc_check_hooks(const struct flmem_view *view, const struct flmem_allocator *found,
			       struct flmem_error *err);
int flmem_tcmalloc_check_malloc_hooks(const struct flmem_view *view,
				      const struct flmem_allocator *found, struct flmem_error *err);

#endif
