/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_DATA_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_DATA_H

/*
 * Searches the memory in which glibc's malloc keeps its data: the data of its file, and the
 * kernel's [heap].
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/maps.h"
#include "proc/peek.h"

/* The process and the file in which to search. */
struct flmem_glibc_space {
	struct flmem_peek *peek;
	const struct flmem_maps *maps;
	uint64_t module_start, module_end; /* the range of the file's mappings */
	int minor;			   /* glibc 2.minor; -1: unknown */
};

/* A range of addresses; empty when both are the same. */
struct flmem_glibc_range {
	uint64_t start, end;
};

/* The kernel's [heap], which brk(2) grows: several mappings after madvise(2) on parts. */
struct flmem_glibc_range flmem_glibc_brk(const struct flmem_glibc_space *space);

static inline bool flmem_glibc_range_has(const struct flmem_glibc_range *range, uint64_t address)
{
	return address >= range->start && address < range->end;
}

#define FLMEM_GLIBC_STRUCT_MAX 4096U /* malloc_state and malloc_par are smaller */

/* One piece of the data while it is searched. */
struct flmem_glibc_piece {
	const uint64_t *words;
	size_t count;
	uint64_t address;
};

/* Called for each piece; returns true to end the search. */
typedef bool flmem_glibc_visit_piece(void *context, const struct flmem_glibc_piece *piece);

/*
 * Visits the resident data of the file that holds malloc, piece by piece. Pieces overlap by
 * FLMEM_GLIBC_STRUCT_MAX bytes, so that no structure is cut. True if a visit ended the search.
 */
bool flmem_glibc_data_search(const struct flmem_glibc_space *space, flmem_glibc_visit_piece *visit,
			     void *context);

#endif
