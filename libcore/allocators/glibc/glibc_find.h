/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_FIND_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_FIND_H

/*
 * Finds glibc's arenas and parameters in the writable data of the file that holds malloc. No
 * dynamic symbol names them, so they are recognised by their contents: 127 list heads of which the
 * last is always empty, a closed ring of arenas, the address of the heap.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocators/glibc/glibc_data.h"
#include "allocators/glibc/glibc_layout.h"

/* Values of mp_ (struct malloc_par). */
struct flmem_glibc_params {
	bool known;
	uint64_t trim_threshold, mmap_threshold, arena_max;
	uint64_t thp_pagesize; /* 0: the heap grows and shrinks by pages */
	uint64_t mmapped_bytes, mmapped_count;
	uint64_t sbrk_base; /* 0: the heap was never used */
	uint64_t tcache_count;
	bool fixed; /* thresholds were set, so freeing does not move them */
};

/* Fields of an arena. */
struct flmem_glibc_arena {
	uint64_t address;
	uint64_t top; /* address of the chunk at the arena's end */
	uint64_t system_mem;
	uint64_t fastbins[FLMEM_GLIBC_FASTBINS];
	/* Number of threads that allocate from the arena; 0 where glibc does not count them. */
	uint64_t threads;
	uint64_t state; /* hash of the lists that does not depend on the order within a list */
	bool locked;
};

#define FLMEM_GLIBC_ARENAS_MAX 65536U

struct flmem_glibc {
	const struct flmem_glibc_layout *layout;
	uint64_t *arenas; /* main_arena first; NULL: malloc has not been used */
	size_t arena_count;
	unsigned system_mem;  /* offset of system_mem in an arena */
	unsigned state_bytes; /* length of an arena's state */
	/*
	 * Length of heap_info, for the heaps of arenas other than main_arena; 0 when there is none.
	 */
	unsigned heap_info_bytes;
	uint64_t heap_bytes; /* alignment of these heaps */
	struct flmem_glibc_params params;
};

/* Finds malloc's data. False when it was not found; then `ret_why` is a static text. */
bool flmem_glibc_find(const struct flmem_glibc_space *space, struct flmem_glibc *ret_glibc,
		      const char **ret_why);

/*
 * After a failed search: reports whether the reason is that malloc's arenas, of a known release, do
 * not form a ring. Sets `ret_address` to what the ring points to instead of an arena.
 */
bool flmem_glibc_stray(const struct flmem_glibc_space *space, uint64_t *ret_address);

void flmem_glibc_clear(struct flmem_glibc *glibc);

#define FLMEM_AUTO_GLIBC FLMEM_AUTO(flmem_glibc_clear)

/* Reads the current state of an arena; false when it cannot be read or is no longer an arena. */
bool flmem_glibc_arena_read(const struct flmem_glibc_space *space, const struct flmem_glibc *glibc,
			    size_t index, struct flmem_glibc_arena *ret_arena);

/*
 * Reports whether glibc counts the threads of each arena: from 2.23 on, and in older releases with
 * backported fixes.
 */
bool flmem_glibc_counts_threads(const struct flmem_glibc *glibc);

#endif
