/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_VALUE_H
#define FLMEM_VALUE_H

/*
 * A number that may be unknown. `unknown` is NULL if `value` is valid, else a static text with the
 * reason; a value is never guessed, and an unknown one is never shown as 0. A zero-initialised
 * struct is the known number 0, so start from FLMEM_UNKNOWN(reason).
 */

#include <stdint.h>

struct flmem_u64 {
	uint64_t value;
	const char *unknown;
};

/* A signed number that may be unknown, as struct flmem_u64. */
struct flmem_i64 {
	int64_t value;
	const char *unknown;
};

#define FLMEM_KNOWN(number)   ((struct flmem_u64){.value = (number)})
#define FLMEM_UNKNOWN(reason) ((struct flmem_u64){.unknown = (reason)})

/*
 * Returns the number, or `otherwise` if it is unknown: for sums and comparisons, never for a
 * report.
 */
static inline uint64_t flmem_u64_or(struct flmem_u64 number, uint64_t otherwise)
{
	return number.unknown ? otherwise : number.value;
}

#endif
