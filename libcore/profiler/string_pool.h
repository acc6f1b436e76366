/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_STRING_POOL_H
#define FLMEM_PROFILER_STRING_POOL_H

/* Stores many texts, each once, and frees them together. */

#include <stddef.h>

struct flmem_string_pool;

struct flmem_string_pool *flmem_string_pool_new(void); /* NULL: memory is out */
void flmem_string_pool_free(struct flmem_string_pool *texts);

static inline void flmem_cleanup_string_pool(struct flmem_string_pool **texts)
{
	flmem_string_pool_free(*texts);
}

/*
 * Returns the stored copy of these bytes, which have no NUL; equal texts have the same copy. NULL
 * if memory is out.
 */
const char *flmem_string_pool_keep(struct flmem_string_pool *texts, const char *bytes,
				   size_t length);

#endif
