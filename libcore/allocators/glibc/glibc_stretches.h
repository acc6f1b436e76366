/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_STRETCHES_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_STRETCHES_H

/*
 * Finds the memory that holds the chunks of an arena: malloc's part of [heap], or a chain of heaps.
 */

#include <stddef.h>

#include "allocators/glibc/glibc_find.h"
#include "allocators/glibc/glibc_walk.h"

struct flmem_glibc_stretches {
	struct flmem_glibc_stretch *rows;
	size_t count, room;
};

void flmem_glibc_stretches_clear(struct flmem_glibc_stretches *stretches);

#define FLMEM_AUTO_GLIBC_STRETCHES FLMEM_AUTO(flmem_glibc_stretches_clear)

/*
 * Adds the stretches of one arena, the one with its top first. FLMEM_GLIBC_LOST when one of its
 * heaps is invalid; those before it are added nevertheless.
 */
enum flmem_glibc_walked flmem_glibc_stretches_find(const struct flmem_glibc_space *space,
						   const struct flmem_glibc *glibc, size_t index,
						   const struct flmem_glibc_arena *arena,
						   struct flmem_glibc_stretches *list);

#endif
