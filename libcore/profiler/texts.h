/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROFILER_TEXTS_H
#define FLMEM_PROFILER_TEXTS_H

/* Many texts, each kept once, freed together. */

#include <stddef.h>

struct flmem_heap_texts;

struct flmem_heap_texts *flmem_heap_texts_new(void); /* NULL: memory is out */
void flmem_heap_texts_free(struct flmem_heap_texts *texts);

static inline void flmem_cleanup_heap_texts(struct flmem_heap_texts **texts)
{
	flmem_heap_texts_free(*texts);
}

/* The kept copy of these bytes without NUL; equal texts have the same. NULL: memory is out. */
const char *flmem_heap_texts_keep(struct flmem_heap_texts *texts, const char *bytes, size_t length);

#endif
