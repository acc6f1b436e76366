/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_CHECK_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_CHECK_H

/*
 * Looks at the lists that malloc_trim(0) would follow. In a heap that the program has damaged they
 * lead anywhere: malloc_trim aborts the program, never returns, or empties pages in use.
 */

#include "allocators/glibc/glibc_find.h"

/* The first thing that a list leads to and glibc cannot have left there. */
struct flmem_glibc_damage {
	const char *list; /* static: "free blocks", "arenas" */
	uint64_t address; /* that it leads to */
	uint64_t word;	  /* that is wrong of it */
	const char *what; /* static */
};

/* How many looks have to agree, over some 70 ms: a thread may have lost its processor in malloc. */
#define FLMEM_GLIBC_LOOKS 5U

/*
 * True when a list is damaged. What a thread is changing just then looks the same, so an arena
 * whose lock is held is passed over, and only what so many looks agree on is damage; where the
 * first finds nothing it is the only one. What that does not reach within the budget is not looked
 * at.
 */
bool flmem_glibc_is_damaged(const struct flmem_glibc_space *space, uint64_t budget_us,
			    unsigned looks, struct flmem_glibc_damage *ret_damage);

#endif
