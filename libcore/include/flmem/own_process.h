/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OWN_PROCESS_H
#define FLMEM_OWN_PROCESS_H

/*
 * The calling process's own allocator: the three functions that NVFlare's memory_utils made known,
 * for any program. All are thread-safe; the allocator is looked up once and remembered.
 */

#include <flmem/error.h>
#include <flmem/roles.h>

/* The allocator that malloc of this process reaches. */
FLMEM_API enum flmem_allocator_kind flmem_get_allocator_type(void);

/*
 * glibc's malloc_trim(0): 1 when memory was given back, 0 when there was none, -1 when the
 * allocator is not glibc's.
 */
FLMEM_API int flmem_try_malloc_trim(void);

/*
 * Gives retained memory back through whichever allocator serves malloc: malloc_trim(0), jemalloc's
 * flush of this thread's cache and purge of all arenas, tcmalloc's or mimalloc's release call.
 * FLMEM_EUNSUPPORTED when the allocator has none.
 */
FLMEM_API int flmem_cleanup_memory(struct flmem_error *err);

#endif
