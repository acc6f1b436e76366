/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_STRING_POOL_H
#define FLMEM_PROFILER_STRING_POOL_H

/* Many texts, each kept once, freed together. */

#include <stddef.h>

struct flmem_string_pool;

struct flmem_string_pool *flmem_string_pool_new(void); /* NULL: memory is out */
void flmem_string_pool_free(struct flmem_string_pool *texts);

static inline void flmem_cleanup_string_pool(struct flmem_string_pool **texts)
{
	flmem_string_pool_free(*texts);
}

/* The kept copy of these bytes without NUL; equal texts have the same. NULL: memory is out. */
const char *flmem_string_pool_keep(struct flmem_string_pool *texts, const char *bytes,
				   size_t length);

#endif
