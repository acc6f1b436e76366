/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_CHECK_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_CHECK_H

/*
 * Checks the lists that malloc_trim(0) would follow. In a heap that the program has corrupted they
 * point anywhere: malloc_trim aborts the program, never returns, or discards pages in use. In one
 * that the program has protected (mprotect()) they are sound, but malloc_trim may not write.
 */

#include "allocators/glibc/glibc_find.h"

/* The first list entry that glibc cannot have written, or cannot write now. */
struct flmem_glibc_damage {
	const char *list;  /* static: "free blocks", "arenas" */
	uint64_t address;  /* the address that the list points to */
	uint64_t word;	   /* the wrong word */
	const char *what;  /* static */
	bool is_protected; /* memory at `address` may not be read and written; no list, no `what` */
	bool is_unseen;	   /* the lists could not be read in time; nothing else is set */
};

/* Number of checks that have to agree, over some 70 ms: a thread may be preempted within malloc. */
#define FLMEM_GLIBC_CHECKS	5U
#define FLMEM_GLIBC_WAIT_FACTOR 250U

/*
 * True when a list is damaged. A list that a thread is changing looks the same, so an arena whose
 * lock is held is skipped, and damage counts only if that many checks agree; if the first finds
 * nothing, it is the only one. Lists not reached within the budget of processor time are not
 * checked.
 * True, too, with `is_unseen`, if others had the processor, or pages were read back from swap, for
 * FLMEM_GLIBC_WAIT_FACTOR times as long before that budget was used.
 */
bool flmem_glibc_is_damaged(const struct flmem_glibc_space *space, uint64_t budget_us,
			    unsigned checks, struct flmem_glibc_damage *ret_damage);

#endif
