/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ALLOCATORS_GLIBC_GLIBC_TUNABLES_H
#define FLMEM_ALLOCATORS_GLIBC_GLIBC_TUNABLES_H

/* Parses numbers in glibc's environment: its tunables, and the older variables of malloc. */

#include <stdbool.h>
#include <stdint.h>

/*
 * Parses a number that every release reads alike: possibly with blanks in front, a plus sign, or 0x
 * or 0 for hexadecimal and octal. False for "", "two", "-1", "4x", and for more than UINT32_MAX.
 */
bool flmem_glibc_number_parse(const char *value, uint64_t *ret_number);

/*
 * Finds the value of the tunable `name` ("glibc.malloc.arena_max=") in GLIBC_TUNABLES, which may be
 * NULL. Releases differ in which of several entries holds, so all must be numbers of at least
 * `least`, and the last counts.
 */
bool flmem_glibc_tunable_find(const char *tunables, const char *name, uint64_t least,
			      uint64_t *ret_number);

/* True when GLIBC_TUNABLES has an entry with this name, valid or not. */
bool flmem_glibc_tunable_has(const char *tunables, const char *name);

/*
 * True when an entry with this name has a number that sets no limit: -1, or more than 32 bits.
 * glibc accepts such a number (as the largest of 64 bits) and then ignores the older variable.
 */
bool flmem_glibc_tunable_is_boundless(const char *tunables, const char *name);

/* Whether glibc.malloc.hugetlb, or its absence, makes malloc ask the kernel for huge pages. */
bool flmem_glibc_asks_for_huge_pages(const char *version, const char *tunables, bool aarch64);

#endif
