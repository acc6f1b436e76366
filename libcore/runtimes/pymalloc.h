/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_RUNTIMES_PYMALLOC_H
#define FLMEM_RUNTIMES_PYMALLOC_H

/*
 * Measures how full CPython's own arenas are. pymalloc (Objects/obmalloc.c) serves requests of up
 * to 512 bytes from arenas of 256 KiB (up to 3.9) or 1 MiB, each cut into pools of 4 or 16 KiB for
 * blocks of one size. An arena is returned to the kernel only when its last block is freed, and
 * nothing else can use the free memory in it.
 *
 * The table of arenas is found without symbols: a pointer in the data of the interpreter to an
 * array of arena_object whose members describe existing arenas, with pools that name their index in
 * that array. The process is not stopped; a pool that changes while it is read counts as an error,
 * not as a figure. 2.7 to 3.15; free-threaded builds have no pymalloc. Builds of 3.15 with arenas
 * of 2 MiB (--with-pymalloc-hugepages) are not read: their table has other numbers of pools.
 */

#include <stdbool.h>
#include <stdint.h>

#include "proc/maps.h"
#include "proc/peek.h"

struct flmem_pymalloc_search {
	struct flmem_peek *peek;
	const struct flmem_maps *maps;
	uint64_t data_start, data_end; /* addresses of the interpreter's data, .bss included */
	bool large;		       /* try arenas of 1 MiB first: 3.10 and later */
	/* Time budget; when it is spent, the unread pools count as average ones. */
	uint64_t budget_us;
	/*
	 * Offset from data_start of the pointer to the table in another process of this file, or 0;
	 * set to the offset in this one. May be NULL.
	 */
	uint64_t *place;
};

/* Resident memory of the arenas; used_bytes + free_bytes = resident_bytes. */
struct flmem_pymalloc {
	uint64_t arenas;
	uint64_t resident_bytes;
	uint64_t used_bytes;  /* blocks in use, pool headers, ends too short for a block */
	uint64_t block_bytes; /* part of used_bytes: blocks in use */
	uint64_t free_bytes;
	uint64_t error_bytes; /* largest error of used_bytes and free_bytes */
};

/* Reads the arenas. Returns 0, -ENOENT without a table of arenas, or -ENOMEM. */
int flmem_pymalloc_read(const struct flmem_pymalloc_search *search,
			struct flmem_pymalloc *ret_pymalloc);

#endif
