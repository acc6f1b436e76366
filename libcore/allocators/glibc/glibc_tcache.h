/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_TCACHE_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_TCACHE_H

/*
 * A thread's tcache: lists of freed chunks that only this thread takes from again and that
 * malloc_trim never touches. Its structure is itself a chunk, of a size that tells the release.
 */

#include <stdbool.h>
#include <stdint.h>

#include "allocators/glibc/glibc_layout.h"
#include "proc/peek.h"

/*
 * Whether these bytes (the chunk's without its head) are one that holds something: every count
 * within `places`, every list that is not empty beginning with a chunk of its size. Adds what it
 * holds to `cached_bytes` then.
 */
bool flmem_glibc_tcache_read(struct flmem_peek *peek, const struct flmem_glibc_layout *layout,
			     uint64_t places, const unsigned char *bytes, uint64_t *cached_bytes);

#endif
