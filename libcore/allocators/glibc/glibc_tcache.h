/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_TCACHE_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_TCACHE_H

/*
 * A thread's tcache: lists of freed chunks that only this thread reuses and that malloc_trim never
 * touches. Its structure is itself a chunk, whose size depends on the release.
 */

#include <stdbool.h>
#include <stdint.h>

#include "allocators/glibc/glibc_layout.h"
#include "proc/peek.h"

/*
 * Reports whether these bytes (of a chunk, without its head) are a non-empty tcache: every count is
 * within `places`, and every non-empty list begins with a chunk of its size. If so, adds the bytes
 * of its chunks to `cached_bytes`.
 */
bool flmem_glibc_tcache_read(struct flmem_peek *peek, const struct flmem_glibc_layout *layout,
			     uint64_t places, const unsigned char *bytes, uint64_t *cached_bytes);

#endif
