/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_ARENA_MAX_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_ARENA_MAX_H

/* Parses the limit of arenas as glibc does, from MALLOC_ARENA_MAX and GLIBC_TUNABLES. */

#include <stdbool.h>
#include <stdint.h>

/*
 * True for a value by which every release limits the arenas: a whole number above 0, possibly with
 * blanks in front, a plus sign, or 0x or 0 for hexadecimal and octal. Others ("0", "", "two", "-1",
 * "4x") set no limit, or only in some releases.
 */
bool flmem_glibc_arena_max_parse(const char *value, uint64_t *ret_limit);

/*
 * True for a number above 0 with text after it ("4x"). Releases up to 2.38 take the number and
 * ignore the text.
 */
bool flmem_glibc_arena_max_until_2_38(const char *value);

#define FLMEM_GLIBC_ARENA_MAX_UNTIL_2_38 "from 2.39 on; earlier releases take the number in front"

/*
 * Finds the limit from both variables, which may be NULL; false when there is none. A valid tunable
 * overrides the older variable.
 */
bool flmem_glibc_arena_max_find(const char *variable, const char *tunables, uint64_t *ret_limit);

/*
 * Returns the tunables with this limit in place of theirs; the caller frees them. NULL: out of
 * memory.
 */
char *flmem_glibc_arena_max_replace(const char *tunables, const char *limit);

/* True when GLIBC_TUNABLES has an entry for the limit, valid or not. */
bool flmem_glibc_arena_max_tuned(const char *tunables);

/* Whether a tunable there overrides MALLOC_ARENA_MAX, even one that sets no limit. */
bool flmem_glibc_arena_max_overrides(const char *tunables);

#endif
